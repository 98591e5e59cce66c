"""Membership: who is in the cluster, who is alive, and who may promise what (docs/cluster.md#views-and-leases)."""
