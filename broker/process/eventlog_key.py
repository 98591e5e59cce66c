"""The key with which the event log replaces names (`eventlog.redact`): a file, the same at all nodes of a cluster.

The first start makes one with a random key. An operator copies it to the other nodes before their first start, or lets
`eventlog.redact_key` name a file that all have.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

LEAST = 16
"""Bytes that a key must have at least, white space around it not counted."""


class RedactionKeyError(OSError):
    """The key cannot be used; the text says why, and what to do."""


def read_key(path: Path) -> bytes:
    """Returns the key in a file, and makes the file if there is none. Raises `RedactionKeyError`."""
    try:
        if not path.exists():
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(secrets.token_hex(32) + "\n")
        key = path.read_bytes().strip()
    except OSError as error:
        raise RedactionKeyError(f"eventlog.redact_key: {error}") from error
    if len(key) < LEAST:
        raise RedactionKeyError(
            f"eventlog.redact_key: {path} has {len(key)} bytes; a key has at least {LEAST}. Delete the file, "
            "and the next start makes one"
        )
    return key
