"""A port that no other program gets until it is released."""

from __future__ import annotations

import socket


def reserve(host: str, port: int = 0) -> socket.socket:
    """Bind a socket that never listens to this port, or to a free one if it is 0. A broker can listen there meanwhile.

    Returns the socket; closing it releases the port. Raises OSError if the port is taken.
    """
    reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind((host, port))
    return reserved
