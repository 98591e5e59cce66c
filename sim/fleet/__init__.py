"""The simulator for several nodes: machines on one virtual network, under faults, with clients at each of them."""
