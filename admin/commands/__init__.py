"""The commands of vmq-admin, one module for each first word."""
