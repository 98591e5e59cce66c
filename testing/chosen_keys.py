"""Keys of vernemq.conf: the `conf` of a test, and the keys that the harness chooses, whose values a test only reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Value = str | int | bool
Conf = Mapping[str, Value]

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


def text(value: Value) -> str:
    """Returns a value in the form of vernemq.conf."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def check_keys(conf: Iterable[str], chosen: dict[str, str]) -> None:
    """Raises ValueError if `conf` has one of the keys of `chosen`; its text says where to read the value instead."""
    for key in conf:
        if key in chosen:
            raise ValueError(f"conf has {key}, which the test harness chooses: {chosen[key]}")
