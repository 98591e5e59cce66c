"""Our own worst case: a node, or a whole cluster, on virtual time, network and disks from one seed."""
