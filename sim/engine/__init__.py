"""The simulated world below the nodes: virtual time, disks, network, clients' connections and machines."""
