"""The identity of a node, the ports that it needs, and the events that it reports to the broker."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Protocol

from msgspec import Struct

from ..storage.store import Store
from .links.ports import Dialer, Timer
from .links.settings import LinkSettings
from .membership.rejoin import RejoinListener
from .membership.settings import Settings as ViewSettings
from .membership.view import View
from .raft.interface import Rng
from .raft.interface import Settings as RaftSettings
from .transport.wire import ignore_stamp, no_stamp


class Datagram(IntEnum):
    """The kinds of datagrams: messages between nodes that may be lost."""

    RAFT = 1
    LEASE_REQUEST = 2
    LEASE_REPLY = 3
    BOOT = 4
    BOOT_REFUSED = 5
    METADATA = 6
    GOODBYE = 7
    SET_SLOTS = 8
    SLOT_MOVE = 9
    SLOT_COPY = 10


GOODBYE_S = 0.3
"""How long a stopping process waits for the view without it, in seconds: the others need a few round trips."""
HAND_OVER_S = 0.3
"""How long a stopping leader waits for the next one, in seconds."""


class Identity(Struct, frozen=True):
    """The identity of this process.

    `disk` names its data directory, `boot` counts the starts on it, `process` is random at each start. `address` is
    where other nodes dial this node. `cluster_id` is "" while the node is in no cluster. `incomplete`: the last start
    that found that the disk may lack its last writes, 0 if none did (`storage/unsynced.py`).
    """

    node: str
    disk: str
    boot: int
    process: str
    address: str
    cluster_id: str
    incomplete: int = 0


class Ports(Struct):
    """Clocks, timers, stores, network and log of a node."""

    now_ms: Callable[[], float]
    """The machine's monotonic clock, in ms."""
    wall_ms: Callable[[], float]
    """The machine's wall clock, in ms since 1970."""
    cluster_ms: Callable[[], int]
    """Cluster time, in ms since 1970 (`clock.ClusterClock`)."""
    follow: Callable[[float | None], None]
    """`follow(offset_ms)`: cluster time now follows the leader's, which is `now_ms() + offset_ms`. With None it follows
    this node's wall clock. If this machine stood still, its clock is set ahead."""
    time_known: Callable[[], bool]
    """Whether cluster time is known. It is not in a member that has just joined, or whose machine was booted, until the
    first `follow`."""
    soon: Callable[[Callable[[], None]], object]
    """`soon(function)`: call the function in the next turn of the loop."""
    later: Callable[[float, Callable[[], None]], Timer]
    """`later(delay_s, function)`: call the function after this time, unless the timer is cancelled."""
    rng: Rng
    meta: Store
    """The store of Raft. Each of its commits is fsynced."""
    store: Store
    """The broker's store, with the durable part of the replicated map."""
    transport: Dialer
    log: Callable[[str, str], None]
    """`log(level, text)`: write a line for operators."""
    event: Callable[..., None]
    """`event(type, **facts)`: write a row of the event log."""
    stamp: Callable[[], int] = no_stamp
    observe: Callable[[int], None] = ignore_stamp
    """The clock of the event log: see `links.ports.LinkPorts`."""
    ask_time: Callable[[], None] = lambda: None
    """This node becomes a member: the next `follow` sets cluster time to the leader's, even if that is earlier."""


class Settings(Struct, frozen=True):
    """Times and limits of a cluster, and the zone of this node.

    `tick_s`: interval of a member's ticks, in seconds. `calm_tick_s`: longest interval while nothing depends on a tick
    (`ClusterNode.calm`); Raft deadlines may make it shorter. `zone`: the place of this node, such as
    a machine or a rack; "" means the node itself.
    """

    raft: RaftSettings = RaftSettings()
    views: ViewSettings = ViewSettings()
    links: LinkSettings = LinkSettings()
    tick_s: float = 0.05
    calm_tick_s: float = 0.2
    zone: str = ""


class ClusterEvents(RejoinListener, Protocol):
    """The broker's part of a node. The cluster node reports its events here and asks for watermarks.

    `ClusterNode` makes all calls, on the loop's thread. `node` is always another node.
    """

    def view_applied(self, before: View, after: View) -> None:
        """The node has applied a log entry or a snapshot that changed the view; `ClusterNode.view` is `after` already.

        The broker drops the routes and copies of the nodes that left. A restarted node reads its log again, so it
        reports past views, too. If this node enters with the view, `rejoin` follows.
        """

    def slots_changed(self) -> None:
        """The node has applied a log entry or a snapshot that changed the slot table; `ClusterNode.slots` has it.

        If the entry changed the view too, `view_applied` came before. A restarted node reads its log again, so it
        reports past tables, too.
        """

    def slot_message(self, node: str, data: bytes) -> None:
        """A member has sent a message about the move of a slot. It arrives at most once, and others may be lost.

        Raises the error of its decoder.
        """

    def copy_message(self, node: str, data: bytes) -> None:
        """A follower has sent an answer about a copy of a slot. Such an answer may be lost, and never arrives twice.

        Raises the error of its decoder.
        """

    def replica(self, node: str, seq: int, payload: bytes) -> None:
        """Take the next item about the copies that this node has of slots of a node. Each comes once and in order.

        The broker calls `Links.ack` when its own disk has the changes. Raises `Refuse`.
        """

    def replicas_acked(self, node: str, upto: int) -> None:
        """A node has the changes of this node's slots on its disk, up to the item of this number."""

    def lease_changed(self) -> None:
        """`ClusterNode.leased` or `ClusterNode.whole` has changed: the broker computes which operations it accepts."""

    def replaced(self, node: str) -> None:
        """The log says that a node left for good, or joined with an empty disk: the broker gives up its sessions.

        Before the call, the streams to and from the node were closed and all items for it cancelled. A restarted node
        reads its log again, so the entry may be older than the present disk of that node.
        """

    def metadata_changed(self, key: bytes, value: bytes | None) -> None:
        """A message of another node, or a purge, changed the value of a key in the replicated map; None: deleted.

        The broker updates its own tables. Writes of this node, and keys loaded from disk, cause no call.
        """

    def applied(self) -> int:
        """Returns the index of the last slot table that this node, or an earlier process of it, has followed.

        It goes with each acknowledgement of publishes: see `Links.applied_by`.
        """

    def watermark(self, node: str, boot: int) -> int:
        """Returns the number of the last publish that this node has taken from a boot of a node; 0 if it took none.

        Called before the first publish of a process that has opened a stream. The broker guarantees that it needs no
        publish up to that number again: a durable one is on disk.
        """

    def deliver(self, node: str, seq: int, payload: bytes) -> None:
        """Take the next publish of a node, numbered `seq`. Each comes once and in order, unless it was refused.

        The broker calls `Links.ack` or `Links.ack_early` when its sessions have the publish, durably if they are
        durable. Raises `Refuse` if it cannot take the publish yet, and `Unreadable` if it can never decode it.
        """

    def acked(self, node: str, upto: int) -> None:
        """A node has acknowledged this node's publishes up to a number: the broker completes their pending acks."""

    def acked_early(self, node: str, seqs: list[int]) -> None:
        """A node has acknowledged these publishes of this node, although an earlier one is not finished."""

    def deliver_relayed(self, node: str, seq: int, payload: bytes) -> None:
        """Take the next publish that a node relays for its origin; the same rules as for `deliver`."""

    def relays_acked(self, node: str, upto: int) -> None:
        """A node has acknowledged the publishes that this node relayed to it, up to a number."""

    def relieved(self, node: str) -> None:
        """`Links.slow` no longer names the node: the broker reads its paused publishers again."""

    def room(self, node: str) -> None:
        """`Links.full` no longer names the node: the broker sends waiting publishes until it names the node again."""
