"""streamrank: streaming learning to rank."""
