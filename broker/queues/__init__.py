"""The messages that wait for a session, in memory and on disk."""
