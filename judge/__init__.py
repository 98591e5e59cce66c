"""Decides from the rows of event logs what went wrong: pure functions, one module for each anomaly."""
