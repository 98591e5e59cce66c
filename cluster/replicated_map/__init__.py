"""The replicated map: values under dotted version vectors, spread by gossip (docs/cluster.md#the-replicated-map)."""
