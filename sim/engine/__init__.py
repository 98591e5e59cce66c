"""The simulated environment of nodes: virtual time, disks, network, clients' connections and machines."""
