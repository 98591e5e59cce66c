"""Operators: vmq-admin and the node's local door."""
