"""Scenarios: hand-written faults and clients, for states that random seeds rarely reach."""
