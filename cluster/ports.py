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


class Datagram(IntEnum):
    """Kinds of messages that may be lost."""

    RAFT = 1
    LEASE_REQUEST = 2
    LEASE_REPLY = 3
    BOOT = 4
    BOOT_REFUSED = 5
    METADATA = 6
    GOODBYE = 7


GOODBYE_S = 0.1
"""How long a stopping process waits for the view without it, in seconds: the others need a few round trips."""


class Identity(Struct, frozen=True):
    """This process: `disk` and `boot` are the data directory's, `process` is random at each start."""

    node: str
    disk: str
    boot: int
    process: str
    address: str
    cluster_id: str


class Ports(Struct):
    """Clocks, timers, stores, network and log of a node.

    `now_ms` is monotonic, `cluster_ms` cluster time; `follow` takes the leader's cluster time as a difference to
    `now_ms`. `meta` is the store of Raft, always fsynced; `store` is the broker's store. `event` takes a type and its
    facts. `ask_time`: this node becomes a member and takes the cluster's time with the next `follow`.
    """

    now_ms: Callable[[], float]
    wall_ms: Callable[[], float]
    cluster_ms: Callable[[], int]
    follow: Callable[[float | None], None]
    soon: Callable[[Callable[[], None]], object]
    later: Callable[[float, Callable[[], None]], Timer]
    rng: Rng
    meta: Store
    store: Store
    transport: Dialer
    log: Callable[[str, str], None]
    event: Callable[..., None]
    ask_time: Callable[[], None] = lambda: None


class Settings(Struct, frozen=True):
    """Times and limits of a cluster.

    `tick_s`: interval of a member's ticks, in seconds. `calm_tick_s`: longest interval while nothing depends on a tick
    (`ClusterNode.calm`); Raft deadlines may make it shorter.
    """

    raft: RaftSettings = RaftSettings()
    views: ViewSettings = ViewSettings()
    links: LinkSettings = LinkSettings()
    tick_s: float = 0.05
    calm_tick_s: float = 0.2


class ClusterEvents(RejoinListener, Protocol):
    """The broker's part of a node: gets events of the cluster, and answers questions about watermarks."""

    def view_applied(self, before: View, after: View) -> None:
        """Another view is in force."""

    def lease_changed(self) -> None:
        """`ClusterNode.leased` or `ClusterNode.whole` may have changed."""

    def replaced(self, node: str) -> None:
        """A node left for good, or came back with an empty disk: its sessions are lost."""

    def metadata_changed(self, key: bytes, value: bytes | None) -> None:
        """Another node changed the value of a key."""

    def watermark(self, node: str, boot: int) -> int:
        """The number of the last publish taken from this boot of a node."""

    def deliver(self, node: str, seq: int, payload: bytes) -> None:
        """The next publish of a node."""

    def acked(self, node: str, upto: int) -> None:
        """A node has this node's publishes up to this number."""

    def acked_early(self, node: str, seqs: list[int]) -> None:
        """A node has these publishes of this node, although not all before them."""

    def deliver_relayed(self, node: str, seq: int, payload: bytes) -> None:
        """The next publish that a node relays for its origin."""

    def relays_acked(self, node: str, upto: int) -> None:
        """A node has the publishes that this node relayed to it, up to this number."""

    def relieved(self, node: str) -> None:
        """Fewer bytes wait for a node than before."""

    def room(self, node: str) -> None:
        """The lane of publishes to a node has free space again."""
