"""The file of pre-shared keys: a line per identity, `IDENTITY SEPARATOR HEXKEY` (the key `pskfile`)."""

from __future__ import annotations


def read_keys(text: str, separator: str) -> dict[str, bytes]:
    """Return keys by identity. Skips empty lines and lines that begin with #. Raises ValueError with the line."""
    keys: dict[str, bytes] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        identity, found, digits = line.partition(separator)
        if not found or not identity:
            raise ValueError(f"line {number}: not IDENTITY{separator}HEXKEY")
        try:
            key = bytes.fromhex(digits)
        except ValueError:
            key = b""
        if not key:
            raise ValueError(f"line {number}: the key is not hexadecimal")
        if identity in keys:
            raise ValueError(f"line {number}: the identity {identity} occurs twice")
        keys[identity] = key
    return keys
