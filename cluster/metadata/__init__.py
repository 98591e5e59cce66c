"""The replicated map: values under dotted version vectors, spread by gossip (architecture 5)."""
