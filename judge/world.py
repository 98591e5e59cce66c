"""What happened besides messages: lives of nodes, views, sessions, subscriptions, connections, moves of slots.

A `World` is built once (`building`), and does not change afterwards. It is small against the log, and can be pickled:
each judge of messages, lanes and clients gets a copy.

A session is identified by the node where it began, its mountpoint, its client id and a number. It keeps that name when
its slot goes to another node.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from .incidents import Incidents
from .lives import Lives
from .packed import Packed
from .partitions import Partitions
from .rows import NEVER, MessageId, Owner, Row, RowId
from .sessions import Online, Session, SessionKey
from .slots import Slots
from .subscriptions import SubscriptionTable
from .views import Views
from .writing import Writing

CONNECTIONS: Final = 16
"""So many connections of a session are looked at for one message."""


@dataclass
class World:
    """What happened besides messages."""

    lives: Lives
    partitions: Partitions = field(default_factory=Partitions)
    views: Views = field(default_factory=Views)
    incidents: Incidents = field(default_factory=Incidents)
    writing: Writing = field(default_factory=Writing)
    settings: dict[tuple[str, str], list[tuple[int, str]]] = field(default_factory=dict)
    """Node and key -> from which stamp on which value is in force."""
    sessions: Mapping[Owner, list[Session]] = field(default_factory=dict)
    subscriptions: SubscriptionTable = field(default_factory=lambda: SubscriptionTable({}))
    safe_wills: frozenset[MessageId] = frozenset()
    connections: dict[Owner, list[int]] = field(default_factory=dict)
    """The stamps of conn.open by node, mountpoint and client."""
    online: Mapping[Owner, list[Online]] = field(default_factory=dict)
    """The connections of the sessions of each owner, in the order of their begins."""
    mountpoints: dict[tuple[str, int, int], str] = field(default_factory=dict)
    """(node, boot, conn) -> mountpoint, where it is not the default one."""
    brought: set[tuple[Owner, str]] = field(default_factory=set)
    """Topics of retained messages that a session got for a SUBSCRIBE, from rows that do not name the message."""
    damaged: dict[tuple[str, int], Row] = field(default_factory=dict)
    """(node, boot) -> the first row that reports damage of its message store."""
    slots: Slots = field(default_factory=Slots)
    joins: dict[str, list[int]] = field(default_factory=dict)
    """Node -> stamps at which it joined with an empty disk."""
    given_up: dict[str, list[int]] = field(default_factory=dict)
    """Node -> stamps at which the cluster gave up its disk."""
    returns: dict[str, list[int]] = field(default_factory=dict)
    """Node -> the stamps at which it was back. See `back`."""
    moved: Mapping[Owner, list[tuple[int, Owner]]] = field(default_factory=dict)
    """Node, mountpoint and client -> from which stamp on its rows belong to which owner, which began elsewhere."""

    def packed(self) -> World:
        """Returns the same world with its tables of clients in few bytes. It can be sent to other processes."""
        return replace(
            self,
            sessions=Packed(self.sessions, Owner, list[Session]),
            subscriptions=self.subscriptions.packed(),
            online=Packed(self.online, Owner, list[Online]),
            moved=Packed(self.moved, Owner, list[tuple[int, Owner]]),
        )

    def owner(self, node: str, mountpoint: str, client: str, stamp: int) -> Owner:
        """Returns the owner of a client's session, as rows of a node name the client at a stamp."""
        there = node, mountpoint, client
        moves = self.moved.get(there)
        if moves:
            at = bisect_right(moves, stamp, key=lambda each: each[0])
            return moves[at - 1][1] if at else there
        return there

    def owner_of(self, row: Row) -> Owner:
        """Returns the owner of the session that a row is about."""
        return self.owner(row["node"], self.mountpoint(row), row["client"], row["hlc"])

    def mountpoint(self, row: Row) -> str:
        """Returns the mountpoint of the client in a row: its own, or that of its connection."""
        given = row.get("mountpoint")
        if given is None and self.mountpoints:
            return self.mountpoints.get((row["node"], row["boot"], row.get("conn") or 0), "")
        return given or ""

    def session(self, key: SessionKey) -> Session:
        """Returns the session with this name."""
        owner, number = key
        return self.sessions[owner][number - 1]

    def session_at(self, owner: Owner, stamp: int) -> Session | None:
        """Returns the session that was open at a stamp; None if the log shows none."""
        sessions = self.sessions.get(owner)
        if not sessions:
            return None
        if len(sessions) > 1:
            at = bisect_right(sessions, stamp, key=lambda each: each.begun)
            last = sessions[max(at - 1, 0)]
        else:
            last = sessions[0]
        return last if last.begun <= stamp < last.ended else None

    def had_lease(self, row: RowId, stamp: int) -> bool:
        """Whether the boot that wrote a row had got a lease before a stamp."""
        node, boot, _ = row
        return self.partitions.had_one_between(node, self.lives.boots[node, boot].first_hlc, stamp)

    def online_between(self, owner: Owner, begin: int, end: int) -> Iterator[Online]:
        """Returns connections of an owner's sessions that were open at any time between two stamps, the first
        `CONNECTIONS` at most."""
        there = self.online.get(owner, [])
        first = max(bisect_right(there, begin, key=lambda each: each.opened) - 1, 0)
        return (each for each in there[first : first + CONNECTIONS] if each.opened < end and each.closed > begin)

    def back(self, node: str, stamp: int) -> int:
        """Returns when a node was last back before a stamp: an incident had healed, it had started again, or got a
        lease again; -1 if it never was away."""
        there = self.returns.get(node)
        if there is None:
            first = self.lives.first_boot.get(node)
            starts = [
                each.first_hlc for (name, boot), each in self.lives.boots.items() if name == node and boot != first
            ]
            healed = (each.healed for each in self.incidents.of(node))
            there = self.returns[node] = sorted([*starts, *healed, *self.partitions.returns_of(node)])
        at = bisect_right(there, stamp)
        return there[at - 1] if at else -1

    def was_given_up(self, node: str, boot: int, until: int) -> bool:
        """Whether the cluster gave up the disk of a boot before a stamp."""
        first = self.lives.boots[node, boot].first_hlc
        return any(first < stamp < until for stamp in self.given_up.get(node, ()))

    def setting(self, node: str, key: str, stamp: int) -> str:
        """Returns the value of a setting that was in force at a node; "" if the log does not say."""
        values = self.settings.get((node, key), [])
        at = bisect_right(values, stamp, key=lambda each: each[0])
        return values[at - 1][1] if at else ""

    def keeps_one_copy(self, node: str, stamp: int) -> bool:
        """Whether a node says that each slot has one copy. If the log does not say it, there may be two."""
        return self.setting(node, "queue_replicas", stamp) == "1"

    def died(self, session: Session, stamp: int) -> bool:
        """Whether a clean session ended with its connection, its node, or its slot there, before a stamp: the log may
        have no row for that end."""
        if session.durable:
            return False
        moved = session.home.since if len(session.homes) > 1 else NEVER
        return min(self.lives.death_with(session.homes), moved, session.left) < stamp

    def knows(self, session: Session, stamp: int) -> bool:
        """Whether the logs go far enough to tell what happened to a session up to a stamp. If it may have moved to any
        node, the logs of all nodes must."""
        home = session.home_at(stamp)
        if self.lives.known_up_to(home.node) < stamp:
            return False
        if self.lives.known_everywhere >= stamp:
            return True
        left = any(home.since <= each <= stamp for each in self.slots.left.get((home.node, session.slot), ()))
        return not left and not self.lives.had_died(home.node, home.boot, stamp)

    def knows_past(self, session: Session, stamp: int) -> bool:
        """Whether the logs of all nodes where a session was before a stamp go on until it left them."""
        homes = session.homes
        return all(
            self.lives.known_up_to(home.node) >= min(after.since, stamp)
            for home, after in pairwise(homes)
            if home.since < stamp
        )

    def shows(self, session: Session, since: int) -> bool:
        """Whether all nodes where a session was wrote the rows of messages, from a stamp on."""
        return not self.writing.silent_after((home.node for home in session.homes), since)

    def doubt(self, session: Session, since: int) -> int:
        """Returns the stamp after which rows about a session may be lost, of all losses that lasted beyond `since`.
        Without fsync a loss of power takes what the session was, too: then each one counts since it began. Also the
        stamp at which its slot got a primary that may lack what was acknowledged, or the session itself: that counts if
        the client had the session for the last time before it."""
        doubtful = self.slots.doubtful_after(session.slot, min(since, session.seen_last))
        if not self.lives.tails:
            return doubtful
        lost = (
            self.lives.lost_after((home.node,), session.begun if self._unsynced(home.node, since) else since)
            for home in session.homes
        )
        return min(doubtful, *lost)

    def may_be_undone(self, nodes: Iterable[str], begin: int, end: int) -> bool:
        """Whether a loss of power without fsync, between two stamps, may have undone what one of the nodes had done."""
        return bool(self.lives.tails) and any(
            self._unsynced(node, begin) and self.lives.lost_after((node,), begin) < end for node in nodes
        )

    def _unsynced(self, node: str, stamp: int) -> bool:
        return self.setting(node, "message_store.durability", stamp) == "os"
