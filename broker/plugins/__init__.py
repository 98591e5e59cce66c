"""Hooks and who answers them: Python plugins, password and ACL files."""
