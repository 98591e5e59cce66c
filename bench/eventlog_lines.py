"""Write an event log of any size, quickly: QoS 1 messages between three nodes, each to two subscribers.

    python -m bench.eventlog_lines DIR --events 1000000

The rows have the fields of real ones, so that a job has the same work. A message has `pub.recv`, `pub.route`, two each
of `q.enq`, `q.durable`, `dlv.send` and `dlv.ack`, and `pub.ack`. Some subscribers are at another node. The log is
right: an audit finds nothing wrong in it. With `--skew topic` nine of ten messages have one topic and one publisher,
with `--skew client` one client gets every message.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Sequence
from pathlib import Path

from strogoff.analytics.event_lines import header_line, row_line
from strogoff.broker.process.eventlog_files import Limits, LogFiles

NODES = ("n1@10.0.0.1", "n2@10.0.0.2", "n3@10.0.0.3")
START_MS = 1_772_362_800_000  # 2026-03-01 11:00 UTC
RUN = "5f0f6a1e"
ROWS = 11
"""Rows of one message."""

_PUBLISHERS = 500
_SUBSCRIBERS = 300
_STEP = 7
_EVERYTHING = "service-everything"
_AT_ONCE = 1000


class Clock:
    """The stamps of all nodes: each is later than those before."""

    def __init__(self) -> None:
        self._last = 0

    def stamp(self, at_us: int) -> int:
        """Returns the next stamp, at this time or later."""
        self._last = max(self._last + 1, (at_us // 1000) << 16)
        return self._last


class Writer:
    """The log of one node."""

    def __init__(self, directory: Path, node: str, clock: Clock) -> None:
        self.node = node
        self.rows = 0
        self._clock = clock
        self._files = LogFiles(directory, node, 1, Limits(size=64 << 20).for_ever(), self._pack)
        self._files.begin(header_line(RUN, node, 1))
        self._lines: list[tuple[int, bytes]] = []

    def add(self, kind: str, at_us: int, **fields: object) -> None:
        """Write a row at this time, in microseconds since 1970."""
        self.rows += 1
        hlc = self._clock.stamp(at_us)
        self._lines.append((hlc >> 16, row_line(kind, self.rows, hlc, at_us * 1000, fields)))
        if len(self._lines) >= _AT_ONCE:
            self._flush()

    def close(self) -> None:
        """Write the rest, and complete the file."""
        self._flush()
        self._files.close()

    def _flush(self) -> None:
        self._files.write(self._lines)
        self._lines = []

    @staticmethod
    def _pack(path: Path) -> None:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), 6))
        path.unlink()


def write(directory: Path, events: int, skew: str = "", rate: int = 5000) -> int:
    """Write about this number of events, at `rate` messages a second of their own time. Returns how many."""
    clock = Clock()
    writers = [Writer(directory, node, clock) for node in NODES]
    for writer in writers:
        writer.add("node.start", START_MS * 1000, retained=0, level="message")
    for number in range(_SUBSCRIBERS):
        service = f"service-{number}"
        sites = [number] if skew == "client" else [number, (number - _STEP) % _SUBSCRIBERS]
        _subscriber(writers, service, [f"site/{site}/#" for site in sites])
    _subscriber(writers, _EVERYTHING, ["site/#"] if skew == "client" else [])
    for number in range(events // ROWS):
        at = 0 if skew == "topic" and number % 10 else number
        _message(writers, number, at, skew == "client", START_MS * 1000 + 1_000_000 + number * 1_000_000 // rate)
    for writer in writers:
        writer.close()
    return sum(writer.rows for writer in writers)


def _home(writers: Sequence[Writer], client: str) -> Writer:
    return writers[sum(client.encode()) % 3]


def _subscriber(writers: Sequence[Writer], client: str, filters: Sequence[str]) -> None:
    node, at_us = _home(writers, client), START_MS * 1000
    session = {"client": client, "epoch": 1}
    opened = {"peer": "192.0.2.1:1", "version": 5, "conn": 9, "clean": False, "present": False, "expiry_s": 3600}
    node.add("sess.create", at_us, **session)
    node.add("conn.open", at_us, **session, **opened, receive_max=100, keepalive_s=60)
    for each in filters:
        node.add("sub.add", at_us, **session, filter=each, qos=1)
    node.add("sub.ack", at_us, client=client, filters=filters, codes=["1"] * len(filters))


def _message(writers: Sequence[Writer], number: int, at: int, everything: bool, at_us: int) -> None:
    origin = writers[at % 3]
    mid = (origin.node, 1, number + 1)
    topic = f"site/{at % _SUBSCRIBERS}/device/{at % _PUBLISHERS}/state"
    publisher = {"mid": mid, "client": f"device-{at % _PUBLISHERS}", "conn": at % _PUBLISHERS + 1}
    packet_id = number % 65535 + 1
    origin.add("pub.recv", at_us, **publisher, topic=topic, qos=1, packet_id=packet_id, bytes=64)
    clients = [f"service-{(at + step) % _SUBSCRIBERS}" for step in (0, _STEP)]
    if everything:
        clients[1] = _EVERYTHING
    origin.add("pub.route", at_us + 40, mid=mid, targets=clients)
    for client in clients:
        writer = _home(writers, client)
        session = {"mid": mid, "client": client, "epoch": 1}
        writer.add("q.enq", at_us + 90, **session, topic=topic, qos=1)
        writer.add("q.durable", at_us + 2100, **session, lsn=number, durability="os", copied=True)
        for kind, late_us in (("dlv.send", 2200), ("dlv.ack", 3900)):
            given = {"mid": mid, "client": client, "conn": 9, "packet_id": packet_id}
            more = {"qos": 1} if kind == "dlv.send" else {"code": 0}
            writer.add(kind, at_us + late_us, **given, **more)
    origin.add("pub.ack", at_us + 2150, **publisher, packet_id=packet_id, qos=1, code=0, right="lease")


def main() -> None:
    """Write a log as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--skew", choices=["", "topic", "client"], default="")
    arguments = parser.parse_args()
    print(f"{write(arguments.directory, arguments.events, arguments.skew)} events in {arguments.directory}")


if __name__ == "__main__":
    main()
