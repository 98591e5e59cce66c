"""What waits for a session, in memory and on disk."""
