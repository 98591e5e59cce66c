"""Keys of vernemq.conf whose values the harness chooses. A test reads such a value, and cannot set it."""

from __future__ import annotations

from collections.abc import Iterable

OF_PROCESS = {
    "listener.tcp.default": "read it as `host` and `port`",
    "platform_data_dir": "give `directory`",
}
OF_NODES = {
    "listener.tcp.default": "read it as `host` and `port` of a node, as in `c[0].port`",
    "platform_data_dir": "give `directory` to the cluster, and read that of a node as `c[0].directory`",
    "nodename": "read it as `name` of a node, as in `c[0].name`",
    "eventlog.level": "the event log is in memory: read it as `rows`, or call `write_log`",
}
OF_CLUSTER = {**OF_NODES, "listener.vmq.default": "the nodes are joined already"}
"""Those of a cluster with more than one node."""


def check_keys(conf: Iterable[str], chosen: dict[str, str]) -> None:
    """Raises ValueError if `conf` has one of the keys of `chosen`; its text says where to read the value instead."""
    for key in conf:
        if key in chosen:
            raise ValueError(f"conf has {key}, which the test harness chooses: {chosen[key]}")
