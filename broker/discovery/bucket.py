"""What nodes write into a bucket to find each other, and what a node concludes from it (docs/deploying.md#s3).

Each node has one object, `PREFIXnodes/NAME`, with its address, disk and start. It writes the object again and again.
The time of the last write shows that the node lives: an object without a new write for `STALE_S` counts no more. The
storage gives both times, that of the write and that of its answer, so the clocks of the nodes do not matter.

One object, `PREFIXfounder`, names the node that may found the cluster. A node writes it only if it does not exist yet,
which the storage guarantees. It stays for good: if its cluster exists no more, an operator says so
(`vmq-admin cluster found`).
"""

from __future__ import annotations

from typing import TypeVar
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct

from .source import Announcement

HEARTBEAT_S = 15.0
"""How often a node writes its object, in seconds."""
STALE_S = 60.0
"""How long an object counts after it was written."""
FORGET_S = 600.0
"""How long after the last write of an object a member of a cluster deletes it."""
SWEEP_S = 300.0
"""How often a member of a cluster that looks for nobody lists the objects, for this."""
MOST = 1000
"""How many objects a node lists: as many as one request names."""


class Entry(Struct, frozen=True):
    """An object in a list: its key, the hash of its content, and for how many seconds it was not written."""

    key: str
    etag: str
    age_s: float


class Put(Struct, frozen=True):
    """Write the object of this node."""

    key: str
    body: bytes


class List(Struct, frozen=True):
    """List the objects whose keys begin so."""

    prefix: str


class Get(Struct, frozen=True):
    """Read an object of another node."""

    key: str
    etag: str


class Delete(Struct, frozen=True):
    """Delete the object of a node that is gone."""

    key: str


class Founder(Struct, frozen=True):
    """The content of the object that names the node that may found the cluster. `at` is its time, for people."""

    node: str
    disk: str
    at: str = ""


class BadObject(ValueError):
    """The content of an object is not what a node writes. The text is a sentence."""


T = TypeVar("T")


def _decoded(body: bytes, kind: type[T], problem: str) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadObject(f"{problem} ({error}): delete it") from None


class Bucket:
    """What node `me` knows of the bucket, and the next request. Times are seconds of one monotonic clock.

    `addresses` are those of the other nodes that live. `twin`: another process writes the object of this node.
    `was_listed`: this node knows what is in the bucket.
    """

    def __init__(self, me: Announcement, prefix: str) -> None:
        self._me = me
        self._nodes = f"{prefix}nodes/"
        self.founder_key = f"{prefix}founder"
        self.key = self._nodes + quote(me.node, safe="@.")
        self._etag = ""
        self._put_at = self._listed_at = -FORGET_S
        self._known: dict[str, tuple[str, Announcement | None]] = {}
        self._live: tuple[Entry, ...] = ()
        self._gone: tuple[str, ...] = ()
        self.twin = self.was_listed = False

    @property
    def addresses(self) -> tuple[str, ...]:
        """HOST:PORT of each other node that lives, the one that has written last at first."""
        known = [self._known.get(entry.key, ("", None))[1] for entry in self._live]
        return tuple([each.address for each in known if each is not None])

    def next(self, now_s: float, looking: bool) -> Put | List | Get | Delete | None:
        """Returns the next request; None if nothing is to be done now. `looking`: this node is in no cluster, or does
        not reach a member."""
        if now_s - self._put_at >= HEARTBEAT_S:
            return Put(self.key, msgspec.json.encode(self._me))
        unread = [entry for entry in self._live if self._known.get(entry.key, ("", None))[0] != entry.etag]
        if looking and unread:
            return Get(unread[0].key, unread[0].etag)
        if self._gone and not looking:
            return Delete(self._gone[0])
        if looking or now_s - self._listed_at >= SWEEP_S:
            return List(self._nodes)
        return None

    def wrote(self, now_s: float, etag: str) -> None:
        """The object of this node is written."""
        self._put_at, self._etag = now_s, etag

    def listed(self, now_s: float, entries: list[Entry]) -> None:
        """The objects are listed."""
        self._listed_at, self.was_listed = now_s, True
        others = [entry for entry in entries if entry.key != self.key]
        self.twin = bool(self._etag) and any(each.key == self.key and each.etag != self._etag for each in entries)
        self._live = tuple(sorted([each for each in others if each.age_s < STALE_S], key=lambda each: each.age_s))
        self._gone = tuple([entry.key for entry in others if entry.age_s >= FORGET_S])
        kept = {entry.key for entry in others}
        self._known = {key: known for key, known in self._known.items() if key in kept}

    def read(self, get: Get, body: bytes | None) -> None:
        """An object was read; None if it does not exist any more. Raises `BadObject`, once for each content."""
        self._known[get.key] = (get.etag, None)
        if body is None:
            return
        self._known[get.key] = (get.etag, _decoded(body, Announcement, f"{get.key} is not the object of a node"))

    def founder(self, body: bytes) -> Founder:
        """Returns the content of the object that names the founder. Raises `BadObject`."""
        return _decoded(body, Founder, f"{self.founder_key} is damaged")

    def deleted(self, key: str) -> None:
        """An object was deleted."""
        self._gone = tuple([each for each in self._gone if each != key])

    def lives(self, founder: Founder) -> bool:
        """Whether the founder has written its object of late, with the disk with which it wanted to found."""
        for entry in self._live:
            if unquote(entry.key.removeprefix(self._nodes)) == founder.node:
                known = self._known.get(entry.key, ("", None))[1]
                return known is None or known.disk == founder.disk
        return False


def judged(founder: Founder, me: Announcement, lives: bool, place: str) -> str:
    """Returns "" if `me` is the founder and has not founded yet, otherwise why it must not found a cluster.

    A node with the disk that the object names is in no cluster only if it stopped before it founded one. `lives`: the
    founder has written its object of late. `place` is where the object is, for the text.
    """
    if founder.node == me.node and founder.disk == me.disk:
        return ""
    if founder.node != me.node and lives:
        return f"{founder.node} is about to found the cluster"
    since = f" ({founder.at})" if founder.at else ""
    return (
        f"{place} says that {founder.node} founded a cluster{since}, and no node of a cluster answers. Start its "
        "nodes. If that cluster does not exist any more, found a new one: vmq-admin cluster found"
    )
