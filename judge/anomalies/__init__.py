"""One module for each anomaly. The docstring of a module is the definition (docs/anomalies.md)."""
