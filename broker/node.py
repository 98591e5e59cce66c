"""The node: one broker core with everything it is made of, run by a shell or by the simulator.

All effects go through `Ports`. A turn of the loop is: bytes come in to fronts, cores act, `flush` writes once per front
that has something to say, and the store starts the commit of what was written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

import msgspec

from ..cluster.clock import ALARM_MS, ClusterClock
from ..cluster.identity import Numbers
from ..mqtt.reasons import ReasonCode
from ..netsplit.policy import Decision, ViewState, decide
from ..storage.engine import StorageError
from ..storage.keys import retained_prefix
from ..storage.store import Store
from .connection.ack_queue import OPERATION_BITS
from .connection.connection import ClientConnection
from .connection.output_buffer import OutputBuffer
from .connection.refusal import QUEUE_UNREADABLE
from .connection.transport import ClientTransport, ConnectionOrigin
from .connection.turns import Turns
from .failed_logins import FailedLogins
from .observer import Observer
from .options import Options
from .plugins.hooks import Hooks, Verdict
from .queues.message import Message, Origin
from .queues.records import Origins, WillRecord, decode_message, encode, to_record
from .queues.session_cleanup import SessionCleanup
from .reporting.events import Events
from .routing.pending_acks import PendingAcks
from .routing.plans import Plan, PlanCache
from .routing.remote import RemoteMembers, RemoteTarget
from .routing.retained import Refusal, RetainedMessages
from .routing.router import WAIT, Router
from .routing.subscriptions import Subscription
from .sessions.pending_wills import PendingWill, PendingWills
from .sessions.registry import SessionRegistry
from .sessions.retained_replay import ReplayTurns
from .sessions.session import Session
from .timers import Timers


class Random(Protocol):
    """The port for chance: `random.Random` has it."""

    def randrange(self, stop: int, /) -> int:
        """A number from 0 to below `stop`."""
        ...

    def getrandbits(self, bits: int, /) -> int:
        """A number of that many random bits."""
        ...


Forward = Callable[[Message, tuple[RemoteTarget, ...], list[RemoteMembers]], None]


def _nowhere(message: Message, targets: tuple[RemoteTarget, ...], members: list[RemoteMembers]) -> None:
    raise AssertionError("a node alone has no remote targets")


class Pausable(Protocol):
    """A connection that is not read for a reason."""

    mountpoint: str
    client_id: str

    def unpause(self, reason: str) -> None:
        """This reason is gone."""


def _alone(*_: object) -> None:
    """A node alone has nobody to tell."""


def _never(*_: object) -> bool:
    """What a node that is alone says of others."""
    return False


def _always() -> bool:
    """A node alone may promise what it likes."""
    return True


class Ports(msgspec.Struct):
    """All that a node asks of the world.

    `schedule` runs a function at the end of the turn; `wake_at` asks for a call of `Node.wake` at a cluster time in ms;
    `spawn` runs a hook's awaitable and gives its verdict to a function; `log` takes a level and a line.
    """

    clock: ClusterClock
    store: Store
    schedule: Callable[[Callable[[], None]], object]
    wake_at: Callable[[int], None]
    spawn: Callable[[Awaitable[Verdict], Callable[[Verdict], None]], None]
    rng: Random
    log: Callable[[str, str], None]


class Node(Observer):
    """One broker. `epoch` numbers the ownership of its slots: on a node alone, the boot."""

    def __init__(self, name: str, boot: int, options: Options, hooks: Hooks, events: Events, ports: Ports) -> None:
        self.name = name
        self.options = options
        super().__init__(hooks, events, ports.store)
        self.clock = ports.clock
        self.rng = ports.rng
        self.log = ports.log
        self.spawn = ports.spawn
        self._schedule = ports.schedule
        self.now = self.clock.now_ms()
        self.epoch = boot
        self.numbers = Numbers(boot)
        self.failed_logins = FailedLogins()
        self.origins = Origins()
        self.origin: Origin = self.origins.get(name, boot)
        self.timers = Timers(ports.wake_at)
        self.turns = Turns(ports.schedule, ports.clock.now_ms)
        self.router = Router(self)
        self.slots = SessionRegistry(self)
        self.garbage = SessionCleanup(self.store, ports.schedule)
        self.replays = ReplayTurns(self.after_turn, self.tick)
        self.parked_wills = PendingWills(self)
        self._view_state = ViewState.WHOLE
        self.wary = False
        """Something forbids some PUBLISH packets: the disk is full, or the cluster is not whole."""
        self.closing = False
        self.barred = False
        self.settling = False
        """A member that has just started: it does not know yet which other nodes have subscribers."""
        """The cluster does not take this start: what it has forgotten it may have promised. It serves nobody, ever."""
        self.owed: PendingAcks | None = None
        """What the answer to the packet at hand has to wait for on other nodes; whoever answers takes it away."""
        self.answering = True
        """Somebody waits for what is routed now, and sends it again without an answer; False for wills and the like."""
        self.guard: Callable[[OutputBuffer, int, list[bytes]], bool] | None = None
        """Asked before promises of a front leave, whether they may: which (see `answers`), and in what frames."""
        self.leased: Callable[[], bool] = _always
        """Asked before a will is published or a message retained: `view_state` may be older than a pause until then."""
        self.forward: Forward = _nowhere
        """The port to the other nodes: takes a message, the nodes with subscribers, and members of shared groups."""
        self.retain_elsewhere: Callable[[str, str, Message | None], None] | None = None
        """The port that keeps retained messages for the whole cluster; None: this node's store keeps them."""
        self.subscribed: Callable[[Subscription, Subscription | None], None] = _alone
        self.unsubscribed: Callable[[Subscription], None] = _alone
        self.presence: Callable[[Session], None] = _alone
        """Told of subscriptions, the new one and what it replaced, and of sessions that got or lost a connection."""
        self.publishing: Callable[[], None] = _alone
        """Told that a message of QoS 1 or 2 is about to be routed; a client's only if the node may be `wary`."""
        self.congested: Callable[[str, str], str] | None = None
        self.when_relieved: Callable[[str, Pausable], None] = _alone
        """The node that does not take fast enough what this client (mountpoint, client id) has published for it now, ""
        if none; and who is paused until that node does."""
        self.mid_opened: Callable[[int, int], None] = _alone
        self.mid_closed: Callable[[int, int], None] = _alone
        """Told boot and counter of an inbound QoS 2 handshake's mid."""
        self.present: Callable[[str], bool] = _never
        """Whether another node is in the view."""
        self.came_back: Callable[[Message, str], bool] = _never
        """Whether a session here has an own QoS 2 message for this `$share` filter that another node was to have."""
        self.handed_over: Callable[[Message, str], None] = _alone
        """Told that a session gives a QoS 2 message that it had by this `$share` filter to another one."""
        self._retained: dict[str, RetainedMessages] = {}
        self._dirty: list[OutputBuffer] = []
        self._when_accepting: list[Callable[[], None]] = []
        self.store.on_state = self._store_state
        self.store.on_damage = self._store_damaged

    # -- life

    def open(self) -> None:
        """Bring back what the store holds: retained messages, then sessions; wills and deadlines that came due fire."""
        self._load_retained()
        self.parked_wills.load()  # before it, for sessions that end now may park one more
        restored = self.slots.load()
        self.counters.queue_initialized_from_storage = restored
        self.garbage.load()
        if self.options.expire_retain_cache_s:
            self._sweep_retained()
        level = "message" if self.events.messages else "session"
        self.event("node.start", sessions=restored, retained=self.retained_count, level=level)

    def accept(self, link: ClientTransport, origin: ConnectionOrigin) -> ClientConnection:
        """A connection was made."""
        self.now = self.clock.now_ms()
        front = ClientConnection(self, link, origin)
        self.fronts[id(front)] = front
        self.counters.socket_open += 1
        return front

    def close(self) -> None:
        """Close every connection as a restart will: v5 clients are told 0x8B, wills fire (MQTT 5.0 section 4.13)."""
        self.closing = True
        self.now = self.clock.now_ms()
        for front in list(self.fronts.values()):
            front.disconnect(ReasonCode.SERVER_SHUTTING_DOWN)
        self.flush()
        self.emit_stats()
        self.event("node.stop")

    def end_sessions(self, reason: str) -> None:
        """End every session with everything it has: v5 clients are told 0x98 (administrative action)."""
        self.tick()
        for session in self.slots:
            if session.front is not None:
                session.front.disconnect(ReasonCode.ADMINISTRATIVE_ACTION)
            session.end(reason)
        self.flush()

    def wake(self) -> None:
        """A deadline asked for by `wake_at` may be due."""
        self.timers.run(self.tick())

    def follow(self, offset_ms: float | None) -> None:
        """As `ClusterClock.follow`. If that sets cluster time, deadlines that have passed are due. Where it is set back
        they all move with it: the node is a newcomer, and made them itself.
        """
        set_ms = self.clock.follow(offset_ms)
        if not set_ms:
            return
        if set_ms < 0:
            self.timers.shift(round(set_ms))
        if abs(set_ms) > ALARM_MS:
            whose = "the wall clock" if offset_ms is None else "the leader of the cluster"
            self.log("warning", f"cluster time is set by {set_ms / 1000:+.1f} s, to that of {whose}")
        self.wake()

    def tick(self) -> int:
        """Set and return `now`: to be called by whatever the world begins, a packet, a commit, a timer."""
        self.now = now = self.clock.now_ms()
        return now

    # -- output, once per turn

    def after_turn(self, callback: Callable[[], None]) -> None:
        """Call back at the end of the turn."""
        self._schedule(callback)

    def touch(self, front: OutputBuffer) -> None:
        """This front has something to say at the end of the turn."""
        dirty = self._dirty
        dirty.append(front)
        if len(dirty) == 1:
            self._schedule(self.flush)

    def flush(self) -> None:
        """Write what all fronts gathered."""
        dirty, self._dirty = self._dirty, []
        for front in dirty:
            front.flush()

    @property
    def deliver_hooked(self) -> bool:
        """A plugin wants to see deliveries; asked when a connection begins."""
        return self.hooks.has("on_deliver") or self.hooks.has("on_deliver_m5")

    # -- what may be taken

    @property
    def view_state(self) -> ViewState:
        """How much of the cluster this node sees."""
        return self._view_state

    @view_state.setter
    def view_state(self, state: ViewState) -> None:
        self._view_state = state
        self._look_again()

    def _look_again(self) -> None:
        """`wary` is a plain attribute, because every PUBLISH asks for it: 0.12 us less than a property."""
        self.wary = not self.store.accepting or self._view_state is not ViewState.WHOLE
        waiting, self._when_accepting = self._when_accepting, []
        for callback in waiting:
            callback()

    def when_accepting(self, callback: Callable[[], None]) -> None:
        """Call back once more may be accepted than now."""
        self._when_accepting.append(callback)

    def allows(self, operation: str, front: ClientConnection) -> bool:
        """Whether the split policy lets this operation begin; a hook may have set the client's own flag."""
        return self._allowed(operation, front, self._view_state)

    def _allowed(self, operation: str, front: ClientConnection, state: ViewState) -> bool:
        if self.barred or (self.settling and state is ViewState.MINORITY):
            return False
        flag = getattr(self.options, f"allow_{operation}_during_netsplit")
        own = front.modifiers.get(f"allow_{operation}")
        if own is not None:
            flag = own if isinstance(own, str) else "on" if own else "off"
        return decide(flag, state) is not Decision.REFUSE

    def promises_without_lease(self, front: ClientConnection, promised: int) -> bool:
        """Whether the policy lets all these operations be accepted without a lease (`on`, or the hook's word).

        `view_state` is not asked: the lease may have ended with a pause that nobody has noticed yet.
        """
        names = [name for name, bit in OPERATION_BITS.items() if promised & bit]
        if not all(self._allowed(name, front, ViewState.MINORITY) for name in names):
            return False
        if not self.clock.known:
            self.follow(None)  # the leader is not waited for: there is nothing but the wall clock
        return True

    def reopen_mids(self) -> None:
        """Tell `mid_opened` of the inbound QoS 2 handshakes that were open before it listened."""
        for session in self.slots:
            for record in session.inbound.values():
                self.mid_opened(record.boot, record.counter)

    def _store_state(self, state: str, detail: str) -> None:
        self.tick()
        self.event("store.state", state=state, detail=detail)
        self._look_again()
        if state == "serving":
            self.log("warning", "message store: serving again")
        else:
            self.log("error", f"message store: {state}: {detail}")

    def _store_damaged(self, detail: str) -> None:
        self.event("store.state", state="damaged", detail=detail)

    def unreadable(self, session: Session, error: StorageError) -> None:
        """The session's queue cannot be read: its client is told, and everybody else goes on."""
        self.log("error", f"client {session.client_id!r}: its queue cannot be read: {error}")
        front = session.front
        if front is not None and front.connected:
            self.after_turn(lambda: front.disconnect(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, QUEUE_UNREADABLE))

    # -- retained messages

    def retained(self, mountpoint: str) -> RetainedMessages:
        """The retained messages of a mountpoint."""
        found = self._retained.get(mountpoint)
        if found is None:
            found = RetainedMessages(
                self.options.retained_max_messages,
                self.options.retained_max_bytes,
                lambda topic, message: self._store_retained(mountpoint, topic, message),
            )
            self._retained[mountpoint] = found
        return found

    @property
    def retained_mountpoints(self) -> list[str]:
        """The mountpoints that have retained messages, of this node or, in a cluster, of all."""
        return sorted(mountpoint for mountpoint, each in self._retained.items() if len(each))

    @property
    def retained_count(self) -> int:
        """Retained messages of all mountpoints."""
        return sum(len(each) for each in self._retained.values())

    def retain(self, message: Message) -> int:
        """Keep or delete the retained message of a topic; `WAIT`, because its acknowledgement means everywhere (P4)."""
        if not self.store.accepting:
            return self._not_retained(message, f"store_{self.store.state}")
        replaced = self.retained(message.mountpoint).set(message)
        if isinstance(replaced, Refusal):
            return self._not_retained(message, replaced.value)
        if replaced is None and not message.payload and self.retain_elsewhere is not None:
            # what was deleted here a moment ago others may still have: this acknowledgement says that they have not
            self.retain_elsewhere(message.mountpoint, message.topic, None)
        if self.events.messages:
            self.event("ret.set", topic=message.topic, mid=message.mid)
        # what was written by somebody else a moment ago counts, too: this acknowledgement says the same as his
        return WAIT if self.store.bytes_waiting else 0

    def route_retained(self, message: Message, plans: PlanCache, plan: Plan | None = None) -> int:
        """`Router.route` for a message that is to be retained. That comes first: on another node, too, who subscribes
        behind those that it is given to has to find it (H-04)."""
        kept = self.retain(message)
        routed = self.router.route(message, plans, plan)
        # the last encoding would be kept as long as the message
        message.frame_key, message.head, message.tail = -1, b"", b""
        return max(routed, kept)

    def _not_retained(self, message: Message, reason: str) -> int:
        self.counters.drop(reason)
        self.event("ret.refuse", topic=message.topic, client=message.publisher, reason=reason)
        return 0

    def _store_retained(self, mountpoint: str, topic: str, message: Message | None) -> None:
        if self.retain_elsewhere is not None:
            self.retain_elsewhere(mountpoint, topic, message)
            return
        key = retained_prefix(mountpoint) + topic.encode()
        if message is None:
            self.store.delete(key)
        else:
            self.store.put(key, encode(to_record(message)))

    def retained_on_disk(self) -> Iterator[tuple[str, Message]]:
        """Mountpoint and message of all that this node retained while it was alone."""
        for key, value in self.store.scan(b"r", b"s"):
            length = int.from_bytes(key[1:3], "big")
            mountpoint = key[3 : 3 + length].decode()
            yield mountpoint, decode_message(key, value, mountpoint, self.origins)

    def _load_retained(self) -> None:
        for mountpoint, message in self.retained_on_disk():
            self.retained(mountpoint).restore(message.topic, message)

    def _sweep_retained(self) -> None:
        for messages in self._retained.values():
            messages.sweep(self.now, 1000)
        self.owed = None  # nobody is answered
        self.timers.at(self.now + self.options.expire_retain_cache_s * 1000, self._sweep_retained)

    # -- publishing from inside

    def publish(self, message: Message) -> int:
        """Route a message that no client connection sent: a will, `$SYS`, a plugin's."""
        self.answering = False
        if message.qos:
            self.publishing()
        try:
            plans = self.router.plans(message.mountpoint)
            routed = (self.route_retained if message.retain else self.router.route)(message, plans)
        finally:
            self.answering = True
            self.owed = None  # of the retained message's barrier
        return routed

    def publish_will(self, session: Session | PendingWill, will: WillRecord) -> None:
        """Publish a will under a new mid [MQTT-3.1.2-8]; without a lease once there is one (H-13)."""
        if not self.leased() or self._view_state is ViewState.MINORITY:
            self.parked_wills.park(session, will)
            return
        message = Message(
            session.mountpoint,
            will.topic,
            will.payload,
            will.qos,
            will.retain,
            will.properties,
            self.now + will.expiry_s * 1000 if will.expiry_s >= 0 else 0,
            session.client_id,
            self.origin,
            self.numbers.next(),
        )
        self.event("will.fire", client=session.client_id, topic=will.topic, mid=message.mid)
        self.publish(message)

    def new_client_id(self) -> str:
        """A client id for a client that brought none."""
        return f"anon-{self.rng.getrandbits(128):032x}"
