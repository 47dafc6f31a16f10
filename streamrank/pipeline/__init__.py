"""The flow itself: a record enters, becomes preferences, is learnt, is stored."""
