"""The other nodes: transport, links, Raft, views and leases, replicated metadata; identity, slots, cluster time."""
