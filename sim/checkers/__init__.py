"""Checkers: one module per promise. Each reads what happened and says in a sentence what was broken."""
