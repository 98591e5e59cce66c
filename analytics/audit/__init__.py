"""The audit: the judges of `judge/` on Spark."""
