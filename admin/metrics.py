"""The metrics of a node, for vmq-admin and for Prometheus. Most are collected on request.

Counters count since the start of the node, or since `reset`; those of the process (`system_...`) always since its
start. A reset affects these metrics alone: the event log and `$SYS` keep the totals since the start, and histograms
count on.
"""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from .. import __version__
from ..broker.clustering.operator_port import StatusRow, counters, gauges
from ..broker.operations import retained_bytes
from ..broker.process.server import Server
from ..cluster.identity import SLOTS
from ..storage.durations import Durations
from .figures import Figures
from .loop_lag import LoopLag
from .metric_names import COUNTER, REASONS, RETURN_CODES, described, reason_label

_STATM = Path("/proc/self/statm")

Labels = tuple[tuple[str, str], ...]


class Metric(msgspec.Struct, frozen=True):
    """One series and its value; `type` is counter or gauge."""

    type: str
    name: str
    labels: Labels
    value: int


class Metrics:
    """Collects the metrics of one node."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._lag = LoopLag()
        self._figures = Figures(server)
        self._zero: dict[tuple[str, Labels], int] = {}

    async def start(self) -> None:
        """Take the figures that are not collected on request, from now on."""
        await self._figures.start()
        self._lag.start()

    async def stop(self) -> None:
        """Take them no more."""
        self._lag.stop()
        await self._figures.stop()

    def histograms(self) -> dict[str, Durations]:
        """Name -> histogram, in seconds since the start of the node."""
        counters = self._server.node.env.counters
        return {
            "event_loop_lag_seconds": self._lag.durations,
            "store_commit_seconds": self._server.commits,
            "puback_wait_seconds": counters.puback_wait,
            "queue_wait_seconds": counters.queue_wait,
        }

    def rows(self) -> list[Metric]:
        """All series but histograms. Those of one metric are adjacent."""
        return self._series(self._zero)

    def _series(self, zero: dict[tuple[str, Labels], int]) -> list[Metric]:
        values = dict.fromkeys(_expected(), 0)
        for name, labels, value in self._counters():
            key = (name, labels)
            values[key] = values.get(key, 0) + value
        counted = [Metric(COUNTER, *key, value - zero.get(key, 0)) for key, value in values.items()]
        order = {name: place for place, name in enumerate(dict.fromkeys(row.name for row in counted))}
        counted.sort(key=lambda row: order[row.name])
        return counted + [Metric(described(name)[0], name, labels, value) for name, labels, value in self._gauges()]

    def totals(self) -> dict[str, int]:
        """Metric -> sum of its series."""
        return _sums(self.rows())

    def since_start(self) -> dict[str, int]:
        """As `totals`, for `$SYS`: no reset changes it."""
        return _sums(self._series({}))

    def reset(self) -> None:
        """Count from zero again, but for the figures of the process since its start."""
        self._zero.clear()
        self._zero = {
            (row.name, row.labels): row.value
            for row in self.rows()
            if row.type == COUNTER and not row.name.startswith("system_")
        }

    def _counters(self) -> Iterator[tuple[str, Labels, int]]:
        server = self._server
        for name, labels, value in server.node.env.counters.rows():
            yield name, _labels(name, labels), value
        yield "mqtt_publish_parked", (), server.node.env.counters.publish_parked
        yield "mqtt_publish_unparked", (), server.node.env.counters.publish_unparked
        for name, value in server.listeners.traffic.rows():
            # a socket counts as open from its first MQTT packet on, in the counters above
            if name not in ("socket_open", "socket_close"):
                yield name, (), value
        for name, value in counters(server.cluster).items():
            yield name, (), value
        log = server.eventlog
        yield "eventlog_rows_written", (), log.written if log is not None else 0
        yield "eventlog_rows_dropped", (), log.lost if log is not None else 0
        yield "eventlog_bytes_written", (), log.bytes if log is not None else 0
        usage = resource.getrusage(resource.RUSAGE_SELF)
        yield "system_wallclock", (), round((time.monotonic() - server.started_s) * 1000)
        yield "system_runtime", (), round((usage.ru_utime + usage.ru_stime) * 1000)
        yield "system_context_switches", (), usage.ru_nvcsw + usage.ru_nivcsw
        yield "system_gc_count", (), sum(generation["collections"] for generation in gc.get_stats())

    def _gauges(self) -> Iterator[tuple[str, Labels, int]]:
        yield "node_info", (("version", __version__),), 1
        for name, value in self._plain_gauges():
            yield name, (), value
        for reason, number in self._figures.paused.items():
            yield "connections_paused", (("reason", reason),), number
        for listener, end_s in self._figures.certificates.items():
            yield "certificate_expiry_seconds", (("listener", listener),), end_s
        cluster = self._server.cluster
        if cluster is None:
            return
        for row in cluster.rows():
            if row.node != cluster.name:
                yield "cluster_waiting_bytes", (("member", row.node),), row.waiting_bytes

    def _plain_gauges(self) -> Iterator[tuple[str, int]]:
        node, listeners = self._server.node, self._server.listeners
        yield "router_subscriptions", node.router.subscriptions
        yield "retain_messages", node.retained.count
        yield "retain_memory", retained_bytes(node)
        yield "queue_processes", len(node.sessions)
        yield "queue_waiting_messages", self._figures.waiting
        yield "active_mqtt_connections", listeners.active("tcp", "ssl")
        yield "active_mqttws_connections", listeners.active("ws", "wss")
        yield "total_active_connections", len(node.connections)
        yield from node.gateways.counts.items()
        yield "vm_memory_total", _resident_bytes()
        yield from self._disk_gauges()
        yield from self._cluster_gauges()

    def _disk_gauges(self) -> Iterator[tuple[str, int]]:
        store, cluster, disk = self._server.node.env.store, self._server.cluster, self._figures.disk
        states = {store.state, cluster.status().log_disk if cluster is not None else "serving"}
        yield "store_full", int("full" in states)
        yield "store_failed", int("failed" in states)
        yield "store_damaged", int(bool(store.damage))
        yield "store_waiting_bytes", store.bytes_unsafe
        if disk is not None:
            yield "disk_free_bytes", disk.free
            yield "disk_size_bytes", disk.size

    def _cluster_gauges(self) -> Iterator[tuple[str, int]]:
        """A standalone node counts as a cluster of one."""
        cluster = self._server.cluster
        status = cluster.status() if cluster is not None else None
        yield "cluster_members", status.members if status else 1
        yield "cluster_serving", status.serving if status else 1
        yield "cluster_view_id", status.view_id if status else 0
        yield "cluster_leader", int(cluster is None or (status is not None and status.leader == cluster.name))
        yield "cluster_leased", int(status is None or status.sees != "minority")
        yield "cluster_whole", int(status is None or status.sees == "whole")
        yield "cluster_slow_disks", len(status.slow_disks) if status else 0
        yield "eventlog_sampling", int(self._server.node.env.observer.choice.sampling)
        yield "eventlog_failing", int(self._server.eventlog is not None and self._server.eventlog.failing)
        yield from self._slot_gauges(status)
        yield from gauges(cluster).items()

    def _slot_gauges(self, status: StatusRow | None) -> Iterator[tuple[str, int]]:
        cluster, node = self._server.cluster, self._server.node
        rows = cluster.slots()[0].rows if cluster is not None else ()
        name = cluster.name if cluster is not None else node.name
        own = [row for row in rows if row.primary is not None and row.primary.node == name]
        others = [row for row in rows if row.primary is not None and row.primary.node != name]
        copied = {row.slot for row in others if any(holder.node == name for holder in row.in_sync)}
        yield "slots_primary", len(own) if cluster is not None else SLOTS
        yield "slots_without_primary", sum(row.primary is None for row in rows)
        yield "slots_copied", len(copied)
        yield "slots_without_copy", sum(len(row.in_sync) < node.options.queue_replicas for row in own)
        yield "slots_below_minimum", len(node.policy.few_copies)
        yield "slots_misplaced", status.slots_misplaced if status else 0
        yield "slots_check_due", status.copies_due if status else 0
        yield "slots_moving", len(node.slot_sessions.marks.keys() - copied)


def _sums(rows: Iterable[Metric]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for row in rows:
        sums[row.name] = sums.get(row.name, 0) + row.value
    return sums


def _expected() -> Iterator[tuple[str, Labels]]:
    """The series with labels that start at 0, so that Prometheus can compute a rate from the first event on."""
    for code in RETURN_CODES:
        yield "mqtt_connack_sent", (("mqtt_version", "4"), ("return_code", code))
    yield "mqtt_disconnect_received", (("mqtt_version", "4"),)
    for name, reasons in REASONS.items():
        for reason in reasons:
            yield name, (("mqtt_version", "5"), ("reason_code", reason))


def _labels(name: str, labels: dict[str, str]) -> Labels:
    """VerneMQ's labels."""
    found = dict(labels)
    if "reason_code" in found:
        found["reason_code"] = reason_label(name, found["reason_code"])
    if "return_code" in found:
        number = int(found.pop("return_code"))
        if name == "mqtt_connack_sent":
            found["return_code"] = RETURN_CODES[number]
    return tuple(found.items())


def _resident_bytes() -> int:
    try:
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    except OSError:
        # only Linux has this file; other systems report the peak
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
