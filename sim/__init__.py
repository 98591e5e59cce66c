"""The simulator: one node or a whole cluster in one thread. A seed determines time, network and disks."""
