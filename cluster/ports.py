"""Who a member is, what it asks of the world, and who lives in it."""

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
    """What is sent without a promise that it arrives."""

    RAFT = 1
    LEASE_REQUEST = 2
    LEASE_REPLY = 3
    BOOT = 4
    BOOT_REFUSED = 5
    METADATA = 6
    GOODBYE = 7


GOODBYE_S = 0.1
"""How long a process that stops waits for the view without it, in seconds: the others need a few round trips."""


class Identity(Struct, frozen=True):
    """This process: `disk` and `boot` are the data directory's, `process` is random at each start."""

    node: str
    disk: str
    boot: int
    process: str
    address: str
    cluster_id: str


class Ports(Struct):
    """All that a member asks of the world. `now_ms` is monotonic, `cluster_ms` cluster time; `follow` corrects it,
    given the leader's cluster time as a difference to `now_ms`.

    `meta` is the store of Raft, always fsynced; `store` is the node's own. `event` takes a type and its facts.
    `ask_time`: this node becomes a member, and takes the cluster's time with the next `follow`.
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
    """The numbers of a cluster. `tick_s`: how often a member looks at the time, in seconds; `calm_tick_s`: how often at
    least while nothing depends on it (`ClusterNode.calm`), with Raft deadlines in between."""

    raft: RaftSettings = RaftSettings()
    views: ViewSettings = ViewSettings()
    links: LinkSettings = LinkSettings()
    tick_s: float = 0.05
    calm_tick_s: float = 0.2


class ClusterEvents(RejoinListener, Protocol):
    """The broker that lives in this member: told what happens, asked what only it knows."""

    def view_applied(self, before: View, after: View) -> None:
        """Another view is in force."""

    def lease_changed(self) -> None:
        """`ClusterNode.leased` or `ClusterNode.whole` may say something else than before."""

    def replaced(self, node: str) -> None:
        """A node left for good, or came back with an empty disk: its sessions are no more."""

    def metadata_changed(self, key: bytes, value: bytes | None) -> None:
        """Another node changed the value of a key."""

    def watermark(self, node: str, boot: int) -> int:
        """How far the publishes of this boot of a node were taken."""

    def deliver(self, node: str, seq: int, payload: bytes) -> None:
        """The next publish of a node."""

    def acked(self, node: str, upto: int) -> None:
        """A node has our publishes up to this number."""

    def acked_early(self, node: str, seqs: list[int]) -> None:
        """A node has these publishes of ours, although not all before them."""

    def deliver_relayed(self, node: str, seq: int, payload: bytes) -> None:
        """The next publish of others that a node relays."""

    def relays_acked(self, node: str, upto: int) -> None:
        """A node has what we relayed to it up to this number."""

    def relieved(self, node: str) -> None:
        """Less waits for a node than before."""

    def room(self, node: str) -> None:
        """The lane of publishes to a node takes more."""
