"""The broker as a member of a cluster: routes, publishes between nodes, and the operator's calls."""
