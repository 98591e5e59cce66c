"""The Python binding of LevelDB that is installed.

`plyvel` has no wheels for Python 3.13 and later, `plyvel-next` has none for Python 3.11. Both offer the same API, so
pyproject.toml installs one of them by environment marker, and the rest of the package imports `plyvel` from here.
"""

from __future__ import annotations

try:
    import plyvel
except ModuleNotFoundError:
    import plyvel_next as plyvel

__all__ = ["plyvel"]
