"""Hand-written mutants: each is one wrong change of the product that a test or a simulated seed must find."""
