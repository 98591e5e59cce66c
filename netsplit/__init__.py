"""Network partitions: the policy table, suspicion of silent peers, the log of incidents, faults as data."""
