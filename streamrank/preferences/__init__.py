"""Clicks become preferences: duplicates go, clicks find their rankings, a rule says what they mean."""
