"""`generate`: event logs with planted anomalies."""
