"""Sessions: the state of a client that the broker keeps beyond its connection, and the registry of sessions."""
