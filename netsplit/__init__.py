"""Living through partitions: the policy table."""
