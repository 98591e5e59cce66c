"""Checkers, one module for each promise: each reads the history and yields a sentence for each violation."""
