"""Runs the brokers of a test in its own process: nodes, disks, clocks, the links between nodes, waiting for them."""
