"""Scenarios: faults and clients that somebody wrote down, for states that random seeds reach too seldom."""
