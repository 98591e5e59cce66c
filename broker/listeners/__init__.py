"""Listeners for MQTT clients: sockets, TLS, WebSocket, PROXY protocol, back-pressure."""
