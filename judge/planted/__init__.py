"""Makes logs of any size from a seed, with anomalies planted in them, to judge the judges."""
