"""Living through partitions: the policy table, evidence, the ledger of incidents, faults as data."""
