"""An event enters: what it may be, how it is read from bytes and checked, and what time it says it is."""
