"""The audit of an event log: it finds acknowledged messages that were lost, repeated or delivered out of order."""
