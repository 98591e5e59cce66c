"""The default directory for the data of a cluster under test."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Literal

Engine = Literal["memory", "leveldb"]


def temporary_directory(engine: Engine) -> Path:
    """Make a temporary directory and return it. With the engine `memory` it is in /dev/shm, if the system has that.

    A node writes a few small files even if its database is in memory.
    """
    memory = Path("/dev/shm")
    with contextlib.suppress(OSError):
        if engine == "memory" and memory.is_dir():
            return Path(tempfile.mkdtemp(prefix="strogoff-", dir=memory))
    return Path(tempfile.mkdtemp(prefix="strogoff-"))
