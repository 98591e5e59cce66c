"""Finds the node on this machine that a configuration file or a data directory names."""

from __future__ import annotations

import os
from pathlib import Path

from ..configs import Settings, load, usual_file


def local_settings(conf: Path | None, data_dir: str | None) -> Settings:
    """The settings of the node with this file (default: `./etc/vernemq.conf`) and this data directory.

    The default of the data directory is `$STROGOFF_DATA_DIR` unless a file is named, else that of the file. Raises
    `ConfigError`.
    """
    file = conf if conf is not None else usual_file()
    # if this file exists, a container ignores the variables at its start
    local = file is not None and os.path.exists(file.with_name("vernemq.conf.local"))
    if data_dir is None and conf is None:
        data_dir = os.environ.get("STROGOFF_DATA_DIR")
    return load(file, {} if local else os.environ, {} if data_dir is None else {"platform_data_dir": data_dir})
