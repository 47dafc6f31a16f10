"""Processes that read a topic: settings read, pieces wired, run; no logic."""
