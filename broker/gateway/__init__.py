"""Relays a client connection from the node with its socket, the gateway, to the node with its session, the primary."""
