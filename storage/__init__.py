"""The disk: engines, group commit, key layout, the data directory. Knows bytes and keys."""
