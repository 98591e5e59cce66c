"""The commands of vmq-admin, one module for each family: small functions over a node."""
