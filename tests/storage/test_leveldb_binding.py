"""The binding of LevelDB that pyproject.toml installs on this Python is the one that the package imports."""

from __future__ import annotations

import sys
from pathlib import Path

from strogoff.storage.leveldb_binding import plyvel


def test_the_installed_binding_fits_the_python_version() -> None:
    expected = "plyvel_next" if sys.version_info >= (3, 12) else "plyvel"
    assert plyvel.__name__ == expected


def test_the_binding_writes_and_reads(tmp_path: Path) -> None:
    database = plyvel.DB(str(tmp_path), create_if_missing=True)
    database.put(b"key", b"value", sync=True)
    database.close()
    database = plyvel.DB(str(tmp_path), create_if_missing=False, paranoid_checks=True)
    assert database.get(b"key") == b"value"
    database.close()
