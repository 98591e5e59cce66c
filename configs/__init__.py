"""vernemq.conf: schema, parser, environment, shipped files.

`load` returns `Settings` or raises `ConfigError` with all problems. The keys are data, in `keys/`.
"""

from __future__ import annotations

from .listeners import ListenerSettings
from .loader import load, usual_file
from .lookup import Setting
from .problems import ConfigError, Problem
from .schema import Key, schema
from .settings import PythonPlugin, Settings

__all__ = [
    "ConfigError",
    "Key",
    "ListenerSettings",
    "Problem",
    "PythonPlugin",
    "Setting",
    "Settings",
    "load",
    "schema",
    "usual_file",
]
