"""How frames get from one node to another: one port, and two that keep its contract (gRPC, and memory for tests)."""

import os

# gRPC reads it when it is loaded; its default prints a line for every connection that a peer closes.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
