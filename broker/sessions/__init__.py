"""Sessions: what the broker keeps of a client beyond its connection, and which client has which session."""
