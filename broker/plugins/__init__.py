"""Hooks and their implementations: Python plugins, password and ACL files."""
