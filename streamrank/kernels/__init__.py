"""Pure functions on arrays: no I/O, no clock, no memory of their own."""
