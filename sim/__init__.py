"""Our own worst case: a node on virtual time, network and disk from one seed."""
