"""The implementation of the pytest plugin's fixtures. The plugin imports it when a test uses one, or fails."""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Never, TypeVar, Unpack

import pytest

from .async_bridge import BridgedClient
from .chosen_keys import Conf
from .cluster import Cluster
from .hidden_frames import of_documented_errors
from .log_audit.audit import Audit
from .runtime.node_handle import NodeHandle
from .runtime.running_cluster import ClusterOptions, RunningCluster, check_closed
from .sync import SyncClient, SyncCluster

__tracebackhide__ = of_documented_errors

OPERATIONS = ("register", "publish", "subscribe", "unsubscribe")
_MARKER = ("nodes", "seed", "policy", "conf", "engine", "links", "pace")
_MOST_PROBLEMS = 20
_MOST_NAMES = 6
_MOST_LINES = 10
_LONGEST_NAME = 50
"""Characters of a test's id in the name of a directory, at most 4 bytes each: the system takes 255 bytes."""
_WORTH_READING = ("warning: ", "error: ", "critical: ")
_Number = TypeVar("_Number", int, float)


@dataclass
class _Traces:
    """The clusters of one test, and the directory for their event logs if the test fails."""

    directory: Path
    first_seed: int
    clusters: list[tuple[RunningCluster, Callable[[], Audit]]]
    """Each cluster, and the function that audits it in its own thread."""


_TRACES = pytest.StashKey[_Traces]()


def option(config: pytest.Config, name: str) -> str | None:
    """Returns an option of the command line; else of the ini file; else None."""
    value = config.getoption(name, None)
    if value is None:
        value = config.getini(name)
    return str(value) if value not in (None, "") else None


def number(config: pytest.Config, name: str) -> int | None:
    """Returns an option that is a whole number, or None. Raises pytest.UsageError."""
    text = option(config, name)
    try:
        return None if text is None else int(text)
    except ValueError:
        raise pytest.UsageError(f"--{name.replace('_', '-')}: {text!r} is not a whole number") from None


def ratio(config: pytest.Config, name: str) -> float | None:
    """Returns an option that is a number, or None. Raises pytest.UsageError."""
    text = option(config, name)
    try:
        return None if text is None else float(text)
    except ValueError:
        raise pytest.UsageError(f"--{name.replace('_', '-')}: {text!r} is not a number") from None


def first(*values: _Number | None) -> _Number:
    """Returns the first value that is not None. It may be an invalid 0: the receiver of the value checks it."""
    return next(value for value in values if value is not None)


def policy_conf(policy: str | Mapping[str, str]) -> dict[str, str]:
    """Returns the configuration keys for a netsplit policy: one for all operations, or a mapping by operation.

    Raises pytest.UsageError for an unknown operation or policy.
    """
    rows = dict.fromkeys(OPERATIONS, policy) if isinstance(policy, str) else dict(policy)
    for operation, flag in rows.items():
        if operation not in OPERATIONS or flag not in ("off", "majority", "on"):
            raise pytest.UsageError(
                f"policy {operation} = {flag}: operations are {', '.join(OPERATIONS)}, each off, majority or on"
            )
    return {f"allow_{operation}_during_netsplit": flag for operation, flag in rows.items()}


class ClusterFactory:
    """Makes the clusters of one test.

    An argument wins over the command line and the marker. For seed and pace the command line wins over the marker, for
    the number of nodes the marker wins.
    """

    def __init__(self, request: pytest.FixtureRequest, nodes: int | None = None) -> None:
        self._config = request.config
        self._marker: dict[str, Any] = {}
        for mark in reversed(list(request.node.iter_markers("mqtt"))):
            self._marker.update(mark.kwargs)
            unknown = sorted(set(mark.kwargs) - set(_MARKER))
            if unknown or mark.args:
                raise pytest.UsageError(f"mqtt marker: it has {', '.join(_MARKER)}, not {unknown or mark.args}")
        self._nodes = self._marker.get("nodes", nodes)
        self._open: list[SyncCluster] = []
        self._asynchronous: list[RunningCluster] = []
        self._traces = request.node.stash.setdefault(_TRACES, _traces(request, self._marker.get("seed")))

    def __call__(
        self,
        nodes: int | None = None,
        conf: Conf | None = None,
        policy: str | Mapping[str, str] | None = None,
        **options: Unpack[ClusterOptions],
    ) -> UnopenedCluster:
        """Returns a cluster that `async with` or `with` opens. The arguments are those of `Cluster`, and `policy`."""
        merged: dict[str, str | int | bool] = {
            **policy_conf(self._marker.get("policy", {})),
            **self._marker.get("conf", {}),
            **policy_conf(policy or {}),
            **(conf or {}),
        }
        seed = options.get("seed")
        chosen: ClusterOptions = {
            **options,
            "engine": options.get("engine") or self._marker.get("engine", "memory"),
            "links": options.get("links") or self._marker.get("links", "memory"),
            "seed": self._traces.first_seed + len(self._traces.clusters) if seed is None else seed,
            "pace": first(options.get("pace"), ratio(self._config, "mqtt_pace"), self._marker.get("pace"), 1.0),
        }
        count = first(nodes, self._nodes, number(self._config, "mqtt_nodes"), 1)
        return UnopenedCluster(self, count, merged, chosen)

    def opened(self, cluster: RunningCluster, sync: SyncCluster | None = None) -> None:
        """Remember a cluster that is about to start: a failure report describes it, `close` closes a `sync` one."""
        self._traces.clusters.append((cluster, cluster.audit if sync is None else sync.audit))
        if sync is None:
            self._asynchronous.append(cluster)
        else:
            self._open.append(sync)

    def close(self) -> None:
        """Close the blocking clusters that the test has left open. Raises `LeakError`, also if another one is open."""
        with contextlib.ExitStack() as ending:  # closes each, even if another one has a leak
            ending.callback(check_closed, self._asynchronous)
            for cluster in self._open:
                ending.callback(cluster.close)
            self._open.clear()


class UnopenedCluster:
    """A cluster before its start: `async with` makes it a `Cluster`, `with` a `SyncCluster`."""

    def __init__(self, factory: ClusterFactory, nodes: int, conf: Conf, options: ClusterOptions) -> None:
        self._factory = factory
        self._nodes = nodes
        self._conf = conf
        self._options = options
        self._sync: SyncCluster | None = None
        self._cluster: Cluster | None = None

    def __getattr__(self, name: str) -> Never:
        raise AttributeError(
            f"no {name}: mqtt_cluster(...) starts nothing yet. "
            "Write `with mqtt_cluster(...) as c:`, or `async with` in an asynchronous test"
        )

    async def __aenter__(self) -> Cluster:
        self._cluster = cluster = Cluster(self._nodes, self._conf, **self._options)
        self._factory.opened(cluster)
        await cluster.open()
        return cluster

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._cluster is not None
        await self._cluster.close()

    def __enter__(self) -> SyncCluster:
        self._sync = sync = SyncCluster(self._nodes, self._conf, **self._options)
        self._factory.opened(sync.cluster, sync)
        sync.open()
        return sync

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._sync is not None
        self._sync.close()


class ClientFactory:
    """Makes clients of one broker. Default names are client-1, client-2 and so on; `options` are those of `Client`."""

    def __init__(self, broker: SyncCluster) -> None:
        self._broker = broker
        self._count = 0

    def __call__(self, name: str | None = None, node: int = 0, **options: Any) -> SyncClient:
        """Returns a connected client whose methods block."""
        return self._broker.client(self._name(name), node, **options)

    async def aio(self, name: str | None = None, node: int = 0, **options: Any) -> BridgedClient:
        """Returns a connected client whose methods are coroutines, for any asyncio loop."""
        thread = self._broker.thread
        client = await thread.bridge(self._broker.cluster.client(self._name(name), node, **options))
        return BridgedClient(thread, client)

    def _name(self, name: str | None) -> str:
        self._count += 1
        return name if name is not None else f"client-{self._count}"


@dataclass(frozen=True)
class External:
    """The address of a broker that the tests do not start."""

    host: str
    port: int

    @classmethod
    def of(cls, config: pytest.Config) -> External:
        """Returns the address that the options give; by default 127.0.0.1:1883."""
        return cls(option(config, "mqtt_host") or "127.0.0.1", number(config, "mqtt_port") or 1883)

    @property
    def url(self) -> str:
        """The address, mqtt://HOST:PORT."""
        return f"mqtt://{self.host}:{self.port}"


def _traces(request: pytest.FixtureRequest, seed: int | None) -> _Traces:
    config = request.config
    wanted = option(config, "mqtt_trace_dir")
    base: Path
    if wanted is not None:
        base = Path(wanted)
    else:
        base = request.getfixturevalue("tmp_path_factory").getbasetemp() / "mqtt"
    chosen = number(config, "mqtt_seed")
    if chosen is None:
        chosen = seed if seed is not None else secrets.randbits(32)
    return _Traces(base / directory_name(request.node.nodeid), chosen, [])


def directory_name(test: str) -> str:
    """Returns the name of the directory for the event logs of a test, by its id. No two tests share one."""
    readable = re.sub(r"[^\w.-]+", "-", test).strip("-")[-_LONGEST_NAME:]
    return f"{readable}-{hashlib.sha256(test.encode(errors='surrogatepass')).hexdigest()[:8]}"


def describe(item: pytest.Item) -> list[tuple[str, str]]:
    """Write the event logs of a failed test's clusters, and return the sections for its report, one per cluster."""
    traces = item.stash.get(_TRACES, None)
    sections = []
    for place, (cluster, judge) in enumerate(traces.clusters if traces is not None else []):
        assert traces is not None
        lines = [f"seed {cluster.seed} (replay with --mqtt-seed={traces.first_seed}), {cluster.engine} engine"]
        if len(cluster.nodes) > 1:
            lines.append(f"{len(cluster.nodes)} nodes, {cluster.links} links, pace {cluster.pace:g}")
        lines += [f"fault: {fault}" for fault in cluster.faults]
        lines += _audit_of(judge) if cluster.started else ["audit: not made: the cluster did not start"]
        if cluster.rows:
            lines += _event_log_of(cluster, traces.directory / f"cluster-{place}")
        lines += [line for node in cluster.nodes for line in _warnings_of(node)]
        sections.append(("mqtt", "\n".join(lines)))
    return sections


def _audit_of(judge: Callable[[], Audit]) -> list[str]:
    try:
        found = judge()
    except TimeoutError:
        return ["audit: not made: something blocks the thread of the brokers"]
    return [f"audit: {found.summary}", *(f"  {problem}" for problem in found.problems()[:_MOST_PROBLEMS])]


def _event_log_of(cluster: RunningCluster, directory: Path) -> list[str]:
    """Write the event log. Returns its path, and the command that shows the life of the client that connected last."""
    try:
        lines = [f"event log: {cluster.write_log(directory)}"]
    except OSError as error:
        return [f"event log: not written: {error}"]
    connections = (row["client"] for row in reversed(cluster.rows) if row["type"].startswith("conn.") and row["client"])
    if names := list(dict.fromkeys(connections)):
        command = shlex.join(["strogoff", "analytics", "follow", str(directory), "--client", names[0]])
        others = f" (or {', '.join(names[1:_MOST_NAMES])})" if names[1:] else ""
        lines.append(f"what a client did: {command}{others}")
    return lines


def _warnings_of(node: NodeHandle) -> list[str]:
    """Returns the last lines with a warning or an error of a node's log during the test."""
    found = [line for line in node.log_of_test if line.startswith(_WORTH_READING)]
    return [f"log of node {node.number}: {line}" for line in found[-_MOST_LINES:]]


def forget(item: pytest.Item) -> None:
    """Release the clusters of a test whose reports are complete. Pytest keeps the test item until the run ends."""
    if _TRACES in item.stash:
        del item.stash[_TRACES]
