"""The process: start and stop, log files, event log, $SYS."""
