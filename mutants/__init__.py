"""Hand-written mutants: one wrong line each, and the tests or simulated seeds that have to notice it."""
