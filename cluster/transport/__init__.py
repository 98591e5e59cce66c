"""Sends frames between nodes: one port (`wire`) and two transports that implement it, gRPC and memory (for tests)."""

import os

# gRPC reads it when it is loaded; its default prints a line for every connection that a peer closes.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
