"""Network partitions: the policy table, suspicion of silent peers, the ledger of incidents, faults as data."""
