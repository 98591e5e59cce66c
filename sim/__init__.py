"""The simulator: one node or a whole cluster in one thread, with time, network and disks made from one seed."""
