"""Faults that a test can inject: lost packets, paused and killed nodes, cut links between nodes."""
