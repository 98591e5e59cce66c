"""The job `stream`: alerts while the event log grows."""
