"""Runs brokers in the process of a test: their nodes, disks, clocks and links, and how a test waits for them."""
