"""Finds the node on this machine that a configuration file or a data directory names."""

from __future__ import annotations

import os
from pathlib import Path

from ..configs import Settings, load, usual_file
from ..configs.orchestrators import KUBERNETES
from ..storage.lock_owner import HiddenOwnerError, open_owner
from .client import UnixSocketClient


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
    # where a pod looks for other nodes is not asked here: a part of it comes from the pod, at the start of the node
    environ = {} if local else {name: text for name, text in os.environ.items() if name != KUBERNETES}
    return load(file, environ, {} if data_dir is None else {"platform_data_dir": data_dir})


def local_client(settings: Settings, answer_s: float | None = None) -> UnixSocketClient:
    """The client of the node with these settings; `answer_s` as for `UnixSocketClient`."""
    path = Path(str(settings["node.admin_socket"]))
    return UnixSocketClient(str(settings["nodename"]), path, answer_s, lambda: _busy(settings))


def lock_of(settings: Settings) -> Path:
    """The file that the process of this node keeps locked, as an absolute path."""
    return Path(str(settings["platform_data_dir"])).absolute() / "lock"


def _busy(settings: Settings) -> str:
    """A sentence about the process that runs on the data directory of a node that does not answer; "" if none does."""
    try:
        found = open_owner(lock_of(settings))
    except (OSError, HiddenOwnerError):
        return ""
    if found is None:
        return ""
    os.close(found[1])
    return f"Process {found[0]} has its data directory: it starts, stops or hangs; see its log."
