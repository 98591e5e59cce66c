"""Scripts of faults and clients for states that random seeds reach too seldom."""
