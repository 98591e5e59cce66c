"""Hand-written mutants: one wrong line of the product each, which some test or simulated seed must find."""
