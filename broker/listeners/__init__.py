"""Where bytes come in and go out: sockets, TLS, WebSocket, PROXY protocol, backpressure."""
