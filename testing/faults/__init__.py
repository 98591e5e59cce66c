"""Faults that a test can inject: dropped packets, paused and killed nodes, cut links between nodes."""
