"""The replicated map: values with dotted version vectors, on every node (docs/cluster.md#the-replicated-map)."""
