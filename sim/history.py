"""The history of one simulation: clients, faults and disks write it, and checkers read it afterwards.

Every entry has a number from one counter, so the order of two events is a comparison of numbers. Times are true time in
seconds since the begin. A `key` with the writer's own counter identifies a message, never an identifier of the broker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from ..cluster.identity import slot_of
from ..netsplit.policy import ViewState
from .engine.pipe import Pipe

NEVER = 1 << 60
"""The number of an event that did not happen."""
FIRST = "n1"
"""The name of the first node, which is the only one in simulations of one node."""


@dataclass(slots=True)
class Attempt:
    """A PUBLISH as its writer knows it.

    `acked` is the number of its PUBACK or PUBREC, `refused` the number of one with an error. `mark`: the number of
    commits of all disks when the node sent the acknowledgement. `without_lease`: the node had no lease then. `resent`
    counts the repetitions of the PUBLISH, `node_changes` the changes of the writer to another node before it.
    `resent_to`: the node of the last repetition, and the time of the first one there; None without a repetition.
    """

    key: str
    writer: str
    counter: int
    topic: str
    qos: int
    retain: bool
    expiry_s: int
    sent: int
    sent_at: float
    acked: int = NEVER
    acked_at: float = 0.0
    refused: int = NEVER
    mark: int = 0
    resent: int = 0
    without_lease: bool = False
    node: str = FIRST
    node_changes: int = 0
    resent_to: tuple[str, float] | None = None


@dataclass(slots=True)
class Delivery:
    """A PUBLISH that arrived at a client; `sent_at` is when the node wrote it.

    `first`: the client passed it to the application. It drops a QoS 2 PUBLISH whose packet id is in use.
    """

    key: str
    client: str
    epoch: int
    connection: int
    number: int
    sent_at: float
    qos: int
    dup: bool
    retained: bool
    packet_id: int
    first: bool
    topic: str


class IdReuse(NamedTuple):
    """A packet id that arrived on this connection with another message while it was in use."""

    client: str
    connection: int
    text: str


@dataclass(slots=True)
class Subscribed:
    """One filter of one client's session.

    Numbers of events: `asked` is SUBSCRIBE, `granted` is SUBACK, `given_up` is UNSUBSCRIBE, `gone` is UNSUBACK; NEVER
    if it did not happen. `without_lease`: the node had no lease at the SUBACK, so other nodes get the route later.
    """

    client: str
    epoch: int
    filter: str
    qos: int
    asked: int
    granted: int = NEVER
    granted_at: float = 0.0
    given_up: int = NEVER
    gone: int = NEVER
    without_lease: bool = False
    node: str = FIRST
    asked_at: float = 0.0


@dataclass(slots=True)
class Will:
    """The will of one connection; `delay_s` is its will delay interval."""

    key: str
    topic: str
    qos: int
    delay_s: int


@dataclass(slots=True)
class Connection:
    """One connection of one client, from its CONNECT to its end.

    `expiry_s` is the session's expiry after this connection (None: never). `present` is the flag of CONNACK, None
    without a CONNACK and for MQTT 3.1, which has no flag. `polite`: DISCONNECT was sent, and `final_expiry_s` is the
    expiry in it. `came_back_at` is the node's next start, if the connection ended with the node's process.
    `without_lease`: the node accepted it without a lease. `node` has the session, and `gateway` the socket.
    """

    client: str
    number: int
    version: int
    clean: bool
    expiry_s: int | None
    asked: int
    asked_at: float
    will: Will | None = None
    epoch: int = 0
    opened: int = NEVER
    opened_at: float = 0.0
    present: bool | None = None
    closed: int = NEVER
    closed_at: float = 0.0
    polite: bool = False
    final_expiry_s: int | None = None
    pipe: Pipe | None = None
    came_back_at: float | None = None
    node: str = FIRST
    without_lease: bool = False
    gateway: str = FIRST

    @property
    def relayed(self) -> bool:
        """Whether another node than that of the session has the socket."""
        return self.gateway != self.node

    @property
    def arrived(self) -> bool:
        """Whether the node has certainly received all bytes of the client."""
        return self.pipe is not None and not self.pipe.to_node.under_way and not self.relayed

    @property
    def noticed_at(self) -> float | None:
        """When the node noticed the end of the connection; None if it has not noticed."""
        over_at = None if self.pipe is None else self.pipe.over_at
        return self.came_back_at if over_at is None else over_at


@dataclass(slots=True)
class Answer:
    """A subscriber finished a QoS 1 or 2 PUBLISH: it sent PUBACK or PUBCOMP."""

    client: str
    epoch: int
    connection: int
    packet_id: int
    key: str
    number: int


@dataclass(slots=True)
class Dropped:
    """The node dropped a message for a session, and gave the reason."""

    client: str
    key: str
    reason: str
    number: int
    at_s: float


@dataclass(slots=True)
class Fault:
    """A fault of a node, or of the whole world (node "")."""

    kind: str
    number: int
    at_s: float
    node: str = FIRST


@dataclass(slots=True)
class Life:
    """The processes of one node: times of their starts and ends, of losses of the disk, and of entries into a view.

    `full_until` is the last time at which its store could not write; infinite while it cannot.
    """

    starts: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    emptied: list[float] = field(default_factory=list)
    entered: list[float] = field(default_factory=list)
    full_until: float = -1.0


@dataclass(slots=True)
class ViewLog:
    """How much of the cluster each node saw: (time in s, state) of each change, in the order of time."""

    states: dict[str, list[tuple[float, ViewState]]] = field(default_factory=dict)

    def note(self, node: str, at_s: float, state: ViewState) -> None:
        """Record the state of a node, if it has changed."""
        known = self.states.setdefault(node, [])
        if not known or known[-1][1] is not state:
            known.append((at_s, state))

    def between(self, node: str, begin_s: float, end_s: float) -> set[ViewState]:
        """The states that the node was in from the first time to the second."""
        found: set[ViewState] = set()
        for at_s, state in self.states.get(node, []):
            if at_s <= begin_s:
                found = {state}
            elif at_s <= end_s:
                found.add(state)
        return found

    def lacked_whole_view(self, node: str, since_s: float) -> bool:
        """Whether the node did not see the whole cluster at some time since then."""
        last = ViewState.MINORITY
        for at_s, state in self.states.get(node, []):
            if at_s <= since_s:
                last = state
            elif state is not ViewState.WHOLE:
                return True
        return last is not ViewState.WHOLE


@dataclass(slots=True)
class CopyLog:
    """When each node began and ceased to refuse operations because some slots had too few copies: (time in s, whether
    it refuses)."""

    changes: dict[str, list[tuple[float, bool]]] = field(default_factory=dict)

    def note(self, node: str, at_s: float, few: bool) -> None:
        """Record a change at a node."""
        self.changes.setdefault(node, []).append((at_s, few))

    def were_few(self, node: str, since_s: float) -> bool:
        """Whether the node refused such operations at some time since then."""
        last = False
        for at_s, few in self.changes.get(node, []):
            if at_s <= since_s:
                last = few
            elif few:
                return True
        return last


@dataclass(slots=True)
class History:
    """Everything that happened in one simulation.

    `lines` is the readable trace; None means no trace. `commits` counts the finished batches on all disks. `assigned`
    has (`$share` filter, client, key) for each shared message and the member whose queue got it. `sent` has (client,
    key) of what nodes have sent with QoS 1 and 2, `doubtful` what had expired and came with DUP at its first time, only
    because its queue took it for sent. `durable` maps
    (client, key) to the commit that stored the message for this client; `copies` has the same for each disk, by its
    name. `holders` has the in-sync sets of each slot, as (finished batches, disks). `problems` are violations found
    during the simulation. `given_up` has for each client when a primary last gave up the gateway of its connection.
    `leaving` has when nodes were seen with the last packets of a client that has closed its connection, and the nodes.
    `copied`: slots have two copies. `rotten`: copies whose rows a disk has changed. `slot_losses`: slot -> when the
    cluster gave up its last copy. `slot_arrivals`: slot -> when a node took it over. `power_lost`: what the nodes have
    acknowledged may be lost. `gappy`: the nodes that have lost power under `os`, and have not got the others' metadata
    since. `metadata_lost`: all nodes that served at some time were among them. `refused_by_full` has for each client
    when a node with a full disk last refused its CONNECT; `refused_as_older` when a node last did so because another
    CONNECT of the client seemed to be newer.
    """

    now: Callable[[], float]
    lines: list[str] | None = None
    count: int = 0
    attempts: dict[str, Attempt] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)
    subscriptions: list[Subscribed] = field(default_factory=list)
    connections: dict[str, list[Connection]] = field(default_factory=dict)
    drops: list[Dropped] = field(default_factory=list)
    assigned: set[tuple[str, str, str]] = field(default_factory=set)
    sent: set[tuple[str, str]] = field(default_factory=set)
    doubtful: set[tuple[str, str]] = field(default_factory=set)
    faults: list[Fault] = field(default_factory=list)
    lives: dict[str, Life] = field(default_factory=dict)
    events: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    durable: dict[tuple[str, str], int] = field(default_factory=dict)
    copies: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    holders: dict[int, list[tuple[int, tuple[str, ...]]]] = field(default_factory=dict)
    given_up: dict[str, float] = field(default_factory=dict)
    leaving: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    refused_by_full: dict[str, float] = field(default_factory=dict)
    refused_as_older: dict[str, float] = field(default_factory=dict)
    ids: list[IdReuse] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    views: ViewLog = field(default_factory=ViewLog)
    few_copies: CopyLog = field(default_factory=CopyLog)
    slot_losses: dict[int, list[float]] = field(default_factory=dict)
    slot_arrivals: dict[int, list[float]] = field(default_factory=dict)
    copied: bool = False
    rotten: int = 0
    power_lost: bool = False
    gappy: set[str] = field(default_factory=set)
    metadata_lost: bool = False
    commits: int = 0
    healed: int = NEVER
    healed_at: float = 0.0

    def losses(self, node: str, client: str, durable: bool = True) -> list[float]:
        """The times at which the session of a client may have been lost, which was at this node.

        With one copy of each slot it is lost with the disk of this node. If an operator has moved the slot since the
        client was here, it is lost when the cluster says that it has given up the slot. With two copies that is the
        only way.
        """
        if not durable:
            return self.life(node).emptied
        of_slot = self.slot_losses.get(slot_of("", client), [])
        return of_slot if self.copied else [*self.life(node).emptied, *of_slot]

    def stored(self, client: str, key: str, disk: str) -> None:
        """The last finished batch has made a message durable for a client, on this disk."""
        self.durable.setdefault((client, key), self.commits)
        self.copies.setdefault((client, key), {}).setdefault(disk, self.commits)

    def in_sync(self, slot: int, commits: int) -> list[tuple[str, ...]]:
        """Returns the in-sync set of a slot after so many finished batches; several if it changed before the next."""
        known = self.holders.get(slot, [])
        last = [disks for number, disks in known if number < commits][-1:]
        return last + [disks for number, disks in known if number == commits]

    def life(self, node: str = FIRST) -> Life:
        """Returns the starts and ends of a node."""
        found = self.lives.get(node)
        if found is None:
            found = self.lives[node] = Life()
        return found

    def next(self) -> int:
        """Returns the number for a new event."""
        self.count += 1
        return self.count

    def healed_until(self, seconds: float) -> float:
        """Returns the time so many seconds after the end of all faults; infinite while there are faults."""
        return inf if self.healed == NEVER else self.healed_at + seconds

    def trace(self, who: str, what: str) -> None:
        """Add a line to the trace. Callers that build long texts check `lines` first."""
        if self.lines is not None:
            self.lines.append(f"{self.now():12.6f}  {who:<8} {what}")

    def fault(self, kind: str, node: str = FIRST) -> None:
        """Record the begin or end of a fault."""
        self.faults.append(Fault(kind, self.next(), self.now(), node))
        self.trace("FAULT", kind)

    def problem(self, what: str) -> None:
        """Record a violation."""
        self.problems.append(what)
        self.trace("PROBLEM", what)
