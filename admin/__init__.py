"""Administration: `vmq-admin`, the unix socket and the HTTP API of a node."""
