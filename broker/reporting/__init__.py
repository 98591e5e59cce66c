"""What the broker tells: events, lines of the log, counters."""
