"""Bugs planted on purpose: a checker must find each of them."""
