"""Paths of unix sockets that are longer than the address of a socket."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_UNIX_PATH = 107
"""Bytes of a path that fit into the address of a unix socket (sockaddr_un, unix(7))."""


@contextmanager
def unix_address(path: str) -> Iterator[str]:
    """A name of this path that fits into the address of a unix socket; valid within the `with` block.

    A longer path is reached through the file descriptor of its directory. Raises OSError if the system cannot do that.
    """
    if len(os.fsencode(path)) <= LONGEST_UNIX_PATH:
        yield path
        return
    directory, name = os.path.split(path)
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        short = f"/proc/self/fd/{handle}/{name}"
        if len(os.fsencode(short)) > LONGEST_UNIX_PATH or not os.path.isdir(os.path.dirname(short)):
            raise OSError(
                errno.ENAMETOOLONG,
                f"the path is too long, a unix socket takes {LONGEST_UNIX_PATH} bytes here: choose a shorter one",
            )
        yield short
    finally:
        os.close(handle)
