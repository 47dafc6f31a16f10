"""Names become columns: the same name gets the same column in every process, and the mapping is state."""
