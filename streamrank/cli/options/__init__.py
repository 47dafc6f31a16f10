"""Options of every command, a file each."""
