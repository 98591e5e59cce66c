"""The port between operators' commands and the cluster of a node.

A node without `listener.vmq` cannot reach other nodes and has no such port: `Server.cluster` is None.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol

import msgspec

from ...cluster.slots.table import SlotTable
from ...netsplit.incidents import METRICS
from ..shared_config import SharedConfig

NodeState = Literal["serving", "joining", "silent", "absent"]
"""serving: in the view, takes clients; joining: in the view, still catching up with the others; silent: in the view,
but this node does not hear it; absent: a member that is not in the view."""
Sees = Literal["whole", "majority", "minority"]
"""The state of this node: a lease and all members, a lease with a member missing, or no lease."""


class ClusterError(Exception):
    """The cluster cannot carry out the request; the text gives the operator the reason."""


class NameTaken(ClusterError):
    """A node cannot join because a member that runs has its name."""


class MustStartAgain(ClusterError):
    """A node has to start again before it can join."""


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A member as this node sees it.

    `running` is whether there is a link to it, `incarnation` reads like `boot 3 since view 7` and is empty for one that
    is not in the view, `heard_ms` is how long ago it was heard, None for this node and for one that never was, `voter`
    whether it votes, `stale` whether it has been away for longer than `cluster.forget_after`, `waiting_bytes` the
    memory of the messages that it has not acknowledged to this node.
    """

    node: str
    running: bool
    state: NodeState
    incarnation: str
    address: str
    heard_ms: int | None
    voter: bool
    stale: bool
    waiting_bytes: int


class StatusRow(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster as this node sees it.

    `leader` is the node that leads, None while there is none; `lease_ms_left` is 0 without a lease; `members` and
    `serving` are numbers of nodes; `serving` is 0 at a node that accepts no clients because it has no lease;
    `incidents` counts the netsplits that this node has seen since its start; `log_disk` is `full` or `failed` while
    this node cannot write the log of the cluster; `serves_nobody` is a sentence that says why this node takes no
    clients and what to do, empty if no sentence is needed; `no_lease` is why it has lost its lease, empty while it has
    one; `slots_misplaced` counts the slots of this node that the placement gives to another one; `balance` says what
    the balancing of slots does at this node, empty for a standalone node and while this one takes no clients;
    `copies_due` counts the slots of this node whose copies are due to be compared, and were not yet. `slow_disks` names
    the nodes whose disk is slow, with the time of a slow commit.
    """

    cluster_id: str
    view_id: int
    sees: Sees
    leader: str | None
    lease_ms_left: int
    members: int
    serving: int
    metadata_keys: int
    tombstones: int
    incidents: int
    log_disk: str = "serving"
    serves_nobody: str = ""
    no_lease: str = ""
    slots_misplaced: int = 0
    balance: str = ""
    copies_due: int = 0
    slow_disks: tuple[str, ...] = ()


class LastHolder(msgspec.Struct, frozen=True):
    """A node that was in the in-sync set of a slot when the slot lost its last primary.

    `here`: it is in the view. `away_s` is how long it has been out of the view, None while it is there, or before the
    cluster has noted it. `complete` is False if its machine has lost power since, so that its disk may lack the last
    changes.
    """

    node: str
    disk: str
    here: bool
    away_s: int | None
    complete: bool


class Orphan(msgspec.Struct, frozen=True):
    """A slot without primary, its last holders, and the number of filters for which it has durable subscribers."""

    slot: int
    holders: tuple[LastHolder, ...]
    filters: int


class OperatorPort(Protocol):
    """The cluster of a node, as operators' commands use it. Call it in the node's event loop.

    `name` is this node. `rows`, `status` and `slots` are cheap, because every page of metrics calls them. `config` has
    the settings of all nodes.
    """

    name: str
    operate: Callable[[bytes], Awaitable[bytes]] | None
    """Carries out a command that another member sends with `ask`."""

    @property
    def config(self) -> SharedConfig:
        """Overrides of the configuration and API keys, the same at every node."""
        ...

    def rows(self) -> list[NodeRow]:
        """Return a row for each member, this node included."""
        ...

    def status(self) -> StatusRow:
        """The cluster as it is now."""
        ...

    def slots(self) -> tuple[SlotTable, dict[str, str]]:
        """The slot table that this node has applied, and node -> zone of all members."""
        ...

    async def move_slot(self, slot: int, node: str) -> bool:
        """Give a slot of this node, with its sessions, to another node, or go on waiting for that.

        Returns True when the other node is its primary, False if it still moves after a limited time. Raises
        `ClusterError` if the slot stays here.
        """
        ...

    def check_copies(self, slots: list[int]) -> int:
        """Begin to compare the copies of these slots with the rows of this node, and return of how many. It goes on in
        the background."""
        ...

    def orphans(self) -> list[Orphan]:
        """Return the slots without primary, by the table that this node has applied."""
        ...

    async def recover_slots(self, slots: list[int]) -> dict[int, tuple[str, bool]]:
        """Give those of these slots that have no primary to the best nodes in the view: what only their last holders
        have is lost.

        Returns slot -> its new primary, and whether that one has an older copy; otherwise it is empty. Slots that have
        a primary are left out. Raises `ClusterError` if a slot still has none after a limited time.
        """
        ...

    def incidents(self) -> list[dict[str, Any]]:
        """The last incidents that this node has seen, the oldest first, as `IncidentLog.rows` returns them."""
        ...

    async def spread(self) -> None:
        """Wait for a limited time until every node of the view has the setting. Raises `ClusterError` after that; the
        other nodes still get the setting later."""
        ...

    async def values(self, node: str, keys: list[str]) -> list[str | None]:
        """Return the values of settings that are in force at another member. Raises `ClusterError`."""
        ...

    async def ask(self, node: str, request: bytes) -> bytes:
        """Return the answer of `operate` on another member, in bounded time. Raises `ClusterError`."""
        ...

    async def join(self, discovery_node: str, merge: bool, replace: bool = False) -> None:
        """Become a member of the cluster of that node. `merge` allows it although this node has retained messages or
        clean sessions, `replace` although the cluster has a member of its name with another disk, which is away.

        Returns when this node serves. Raises `ClusterError`.
        """
        ...

    async def found(self) -> None:
        """Found a cluster of this node alone, which others can join. Raises `ClusterError` if it is in one already."""
        ...

    def leave(
        self, node: str, kill_sessions: bool, interval_s: float, timeout_s: float, accept_loss: bool
    ) -> AsyncIterator[str]:
        """Take a member out, with a line of text about every `interval_s` seconds; the last one begins with `Done`.

        `timeout_s` bounds the wait for the other members. `accept_loss` allows it although sessions are lost whose only
        copy is at a node that does not run. Raises `ClusterError`, also between lines.
        """
        ...


COUNTERS = (
    "cluster_bytes_received",
    "cluster_bytes_sent",
    "cluster_bytes_dropped",
    *(name for name, (kind, _) in METRICS.items() if kind == "counter"),
)
"""Counters of the cluster and of incidents, since the start of the node. The port of a node has them, and those of
`GAUGES`, as `counters`."""

GAUGES = tuple(name for name, (kind, _) in METRICS.items() if kind == "gauge")
"""Figures of incidents."""


def counters(operator: OperatorPort | None) -> dict[str, int]:
    """Return all of `COUNTERS`; 0 for those that the port does not count."""
    return _of(operator, COUNTERS)


def gauges(operator: OperatorPort | None) -> dict[str, int]:
    """Return all of `GAUGES`; 0 for those that the port does not have."""
    return _of(operator, GAUGES)


def _of(operator: OperatorPort | None, names: tuple[str, ...]) -> dict[str, int]:
    figures: Mapping[str, int] = getattr(operator, "counters", None) or {}
    return {name: figures.get(name, 0) for name in names}
