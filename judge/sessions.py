"""Sessions and subscriptions as intervals of stamps."""

from __future__ import annotations

from bisect import bisect_right

from msgspec import Struct, field

from .rows import NEVER, Owner, RowId

SessionKey = tuple[Owner, int]
"""Whose session, and its number, counted per owner from 1. 0 stands for a session whose begin and end are unknown."""


class Home(Struct, array_like=True):
    """A node where a session was, from a stamp on."""

    since: int
    node: str
    boot: int


class Online(Struct, array_like=True):
    """A connection of a session, from `opened` until before `closed`. `conn` is its number in (node, boot)."""

    node: str
    boot: int
    conn: int
    opened: int
    closed: int = NEVER


class Session(Struct, array_like=True):
    """A session from its begin to its end. `durable`: the log shows that it outlives a connection. `known`: the log has
    its begin, and so all of its subscriptions."""

    owner: Owner
    number: int
    slot: int
    begun: int
    homes: list[Home]
    """Where it was, in order of time; a session moves with its slot."""
    served: str = ""
    """The node that began it, or resumed it last. A clean session with a will may stay there when its slot moves."""
    durable: bool = False
    known: bool = False
    ended: int = NEVER
    left: int = NEVER
    """When its connection ended. A clean session has ended then, also if no row says so, or a kill undoes its row."""
    forgotten: bool = False
    """It ended because its client got a new session instead, although it outlives a connection."""
    resumed: list[int] = field(default_factory=list)
    depth: tuple[int, int] = (-1, 0)
    """The last q.depth: its stamp, and the number of messages."""
    rows: list[RowId] = field(default_factory=list)
    """The rows of its begin and its end."""
    revived: tuple[RowId, RowId] | None = None
    """The row with which it had ended, and the one that resumed it nevertheless."""
    discarded: bool = False
    """The last CONNECT of its client discards it."""
    over: bool = False
    """It had ended at another node before its last resume, and the node of that did not know it."""

    @property
    def key(self) -> SessionKey:
        """Returns what names it."""
        return self.owner, self.number

    @property
    def client(self) -> str:
        """The client id."""
        return self.owner[2]

    @property
    def home(self) -> Home:
        """Where it was last."""
        return self.homes[-1]

    def home_at(self, stamp: int) -> Home:
        """Returns where it was at a stamp."""
        at = bisect_right(self.homes, stamp, key=lambda each: each.since)
        return self.homes[max(at - 1, 0)]

    def left_at(self, node: str, stamp: int) -> int:
        """Returns when another node than `node` got the session, after `stamp`; `NEVER` if no other node did."""
        return next((each.since for each in self.homes if each.since > stamp and each.node != node), NEVER)

    def resumed_after(self, stamp: int) -> int:
        """Returns the stamp of the first resumption after a stamp; `NEVER` without one."""
        at = bisect_right(self.resumed, stamp)
        return self.resumed[at] if at < len(self.resumed) else NEVER

    @property
    def seen_last(self) -> int:
        """When its client had it for the last time, as the log shows: it began, or was resumed."""
        return self.resumed[-1] if self.resumed else self.begun

    def __str__(self) -> str:
        return f"{self.client} (session {self.number})"


class Held(Struct, array_like=True):
    """A subscription of a session, from after `since` until before `until`. Its SUBACK left at `answered`.

    Its end is certain at `gone`, when UNSUBACK left or another one replaced it: before, a kill may undo it.
    """

    session: SessionKey
    filter: str
    group: str | None
    qos: int
    since: int
    answered: int
    until: int = NEVER
    gone: int = NEVER
