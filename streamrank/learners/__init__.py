"""Learners with river's habits, one file each, all above one array interface."""
