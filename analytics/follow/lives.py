"""Which rows of an event log are the life of one message, or of one client.

A life looks at the bytes of a line first, because to decode all lines would take several times as long. It takes the
rows in the order of their stamps, and remembers what joins them: connections, packet ids, messages of the client.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

import msgspec

from .fate import Fate

Row = Mapping[str, Any]
Mid = tuple[str, int, int]

MOST_MESSAGES: Final = 10_000
"""How many messages of a client are followed through the cluster at the same time; later ones replace the oldest."""

MOST_RECEIVERS: Final = 20
"""How many receivers of each of them are told apart."""
MOST_OPEN: Final = 20
"""How many messages without an end are named."""

_MID: Final = re.compile(rb'\["((?:[^"\\]|\\.)*)",([0-9]+),([0-9]+)\]')
_ENDS: Final = ("sess.end", "sess.expire")
_OF_PACKET: Final = ("dlv.rel", "dlv.comp")
_PUBLISHES: Final = ("pub.recv", "will.fire")


class Life(Protocol):
    """What is followed. `takes` wants the rows in order."""

    def wants(self, line: bytes) -> bool:
        """Whether a line may be a row of this life."""

    def takes(self, row: Row) -> bool:
        """Whether a row belongs to it."""

    def depth(self, row: Row) -> int:
        """How far its line is indented: 1 for a step of a message."""

    def tag(self, row: Row) -> str:
        """Which message the row is about, if that is not clear without it."""

    def became(self) -> list[str]:
        """What became of it, in words, a line each."""


class MessageLife:
    """The rows of one message; QoS 2's last steps towards a subscriber, and ends of sessions that have it, belong to
    it."""

    def __init__(self, mid: Mid) -> None:
        self._mid = mid
        self._fate = Fate()
        self._packets: set[tuple[str, int, int, int]] = set()
        self._needle = _bytes(mid)
        self._types = tuple(_bytes(kind) for kind in (*_ENDS, *_OF_PACKET))

    def wants(self, line: bytes) -> bool:
        """As `Life.wants`."""
        return self._needle in line or any(kind in line for kind in self._types)

    def takes(self, row: Row) -> bool:
        """As `Life.takes`."""
        kind = row["type"]
        if kind in _OF_PACKET:
            packet = _packet(row)
            if packet not in self._packets:
                return False
            if kind == "dlv.comp":
                self._packets.discard(packet)
        elif kind in _ENDS:
            if not self._fate.ends(row):
                return False
        elif "mid" not in row or _mid(row) != self._mid:
            return False
        if kind == "dlv.send" and row["qos"] == 2:
            self._packets.add(_packet(row))
        self._fate.add(row)
        return True

    def depth(self, row: Row) -> int:
        """As `Life.depth`: everything behind the PUBLISH or the will is indented."""
        return int(row["type"] not in _PUBLISHES)

    def tag(self, row: Row) -> str:  # noqa: ARG002 - there is one message
        """As `Life.tag`."""
        return ""

    def became(self) -> list[str]:
        """As `Life.became`."""
        return self._fate.lines()


class ClientLife:
    """The rows of one client, and of the messages and wills that it published, at all nodes. Ends of sessions that have
    one of them belong to it.

    `mountpoint` None: any. A row without mountpoint belongs to the connection that it names; if the log does not have
    the begin of that connection, the row is taken.
    """

    def __init__(self, client: str, mountpoint: str | None = None) -> None:
        self._client = client
        self._mountpoint = mountpoint
        self._needle = _bytes(client)
        self._connections: dict[tuple[str, int, int], str] = {}
        self._published: dict[Mid, Fate] = {}
        self._bytes: dict[bytes, Mid] = {}
        self._queued: dict[str, set[Mid]] = {}
        """Client -> the messages that entered its queue."""
        self._ends = tuple(map(_bytes, _ENDS))
        self._counts: dict[str, int] = {}

    def wants(self, line: bytes) -> bool:
        """As `Life.wants`."""
        if self._needle in line:
            return True
        found = _MID.search(line) if self._bytes else None
        if found is not None:
            return found[0] in self._bytes
        return bool(self._queued) and any(kind in line for kind in self._ends)

    def takes(self, row: Row) -> bool:
        """As `Life.takes`."""
        mid = _mid(row) if "mid" in row else None
        fate = self._published.get(mid) if mid is not None else None
        if mid is not None and fate is not None:
            fate.add(row)
            if row["type"] == "q.enq" and row["client"] in fate.receivers:
                self._queued.setdefault(row["client"], set()).add(mid)
        ended = [each for each in self._having(row) if each.ends(row)]
        for each in ended:
            each.add(row)
        own = row.get("client") == self._client and self._here(row)
        if own:
            self._note(row, mid)
        return own or fate is not None or bool(ended)

    def depth(self, row: Row) -> int:
        """As `Life.depth`: steps of messages are indented, but for the client's own PUBLISH and will."""
        own = row.get("client") == self._client
        return int(not own or ("mid" in row and row["type"] not in _PUBLISHES))

    def tag(self, row: Row) -> str:
        """As `Life.tag`."""
        return short(_mid(row)) if "mid" in row else ""

    def became(self) -> list[str]:
        """As `Life.became`: counts of the client's steps, then its messages that are not at their end.

        At the level `session` the log has no rows of messages, so that zeros say nothing: one more line says so.
        """
        names = {
            "conn.open": "connections",
            "pub.recv": "messages published",
            "pub.ack": "of them acknowledged",
            "dlv.send": "messages sent to it",
            "dlv.ack": "acknowledged by it",
            "q.drop": "dropped for it",
            "q.expire": "expired for it",
            "will.fire": "wills published",
        }
        lines = [", ".join(f"{self._counts.get(kind, 0)} {name}" for kind, name in names.items())]
        if not any(self._counts.get(kind) for kind in (*_PUBLISHES, "q.enq", "dlv.send")):
            lines.append(
                "the log has no message that it published or got: there was none, or eventlog.level was not message"
            )
        ends = ((mid, fate.open_ends()) for mid, fate in self._published.items())
        waiting = [f"message {short(mid)}: {'; '.join(each)}" for mid, each in ends if each]
        more = len(waiting) - MOST_OPEN
        return lines + waiting[:MOST_OPEN] + [f"{more} more messages without an end"] * (more > 0)

    def _here(self, row: Row) -> bool:
        place = (row["node"], row["boot"], row.get("conn", 0))
        if row["type"] == "conn.open":
            self._connections[place] = row.get("mountpoint", "")
        mountpoint = row["mountpoint"] if "mountpoint" in row else self._connections.get(place)
        if row["type"] == "conn.close":
            mountpoint = self._connections.pop(place, mountpoint)
        if mountpoint is None and "conn" not in row:
            mountpoint = ""
        return self._mountpoint is None or mountpoint is None or mountpoint == self._mountpoint

    def _having(self, row: Row) -> Iterator[Fate]:
        """The messages that the session of a row may have, if the row is its end."""
        if row["type"] in _ENDS:
            yield from (self._published[mid] for mid in self._queued.get(row["client"], ()))

    def _note(self, row: Row, mid: Mid | None) -> None:
        kind = row["type"]
        self._counts[kind] = self._counts.get(kind, 0) + 1
        if kind in _PUBLISHES and mid is not None:
            fate = self._published[mid] = Fate(MOST_RECEIVERS)
            fate.add(row)
            self._bytes[_bytes(mid)] = mid
            if len(self._published) > MOST_MESSAGES:
                self._forget(next(iter(self._published)))

    def _forget(self, mid: Mid) -> None:
        for client in self._published[mid].receivers:
            if client in self._queued:
                self._queued[client].discard(mid)
                if not self._queued[client]:
                    del self._queued[client]
        del self._published[mid], self._bytes[_bytes(mid)]


def short(mid: Mid) -> str:
    """The identity of a message as one word, which `--mid` takes."""
    return "/".join(map(str, mid))


def _bytes(value: object) -> bytes:
    """A value as it stands in a line."""
    return msgspec.json.encode(value)


def _mid(row: Row) -> Mid:
    node, boot, counter = row["mid"]
    return node, boot, counter


def _packet(row: Row) -> tuple[str, int, int, int]:
    return row["node"], row["boot"], row["conn"], row.get("packet_id", 0)
