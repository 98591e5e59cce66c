"""The disk: engines, group commit, key layout and the data directory. It knows keys and values as bytes only."""
