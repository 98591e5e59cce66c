"""Where the nodes of a cluster under test keep their data, when the test does not say."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Literal

Engine = Literal["memory", "leveldb"]


def temporary_directory(engine: Engine) -> Path:
    """A new directory. A node has a few small files even with its database in memory: these are in memory, too, where
    the system has a place for that."""
    memory = Path("/dev/shm")
    with contextlib.suppress(OSError):
        if engine == "memory" and memory.is_dir():
            return Path(tempfile.mkdtemp(prefix="strogoff-", dir=memory))
    return Path(tempfile.mkdtemp(prefix="strogoff-"))
