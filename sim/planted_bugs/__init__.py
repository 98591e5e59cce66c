"""Bugs planted on purpose: each must be found by a checker."""
