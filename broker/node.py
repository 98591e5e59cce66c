"""The node: one broker core with everything it is made of, run by a shell or by the simulator.

All effects go through `Ports`. A turn of the loop is: bytes come in to fronts, cores act, `flush` writes once per front
that has something to say, and the store starts the commit of what was written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from ..cluster.clock import ClusterClock
from ..cluster.identity import Numbers
from ..mqtt.reasons import ReasonCode
from ..netsplit.policy import Decision, ViewState, decide
from ..storage.keys import retained_prefix
from ..storage.store import Store
from .events import Events
from .front import Front
from .garbage import Garbage
from .hooks import Hooks, Subscriber, Verdict
from .link import ConnectionOrigin, Link
from .message import Message, Origin
from .metrics import Counters
from .options import Options
from .outlet import Outlet
from .plans import Plan
from .queue import Entry
from .records import Origins, WillRecord, decode_message, encode, to_record
from .retained import Refusal, RetainedMessages
from .router import WAIT, Router
from .session import Session
from .shared import SharedGroup
from .slots import Slots
from .timers import Timers


class Random(Protocol):
    """The port for chance: `random.Random` has it."""

    def randrange(self, stop: int, /) -> int:
        """A number from 0 to below `stop`."""
        ...

    def getrandbits(self, bits: int, /) -> int:
        """A number of that many random bits."""
        ...


class Ports(msgspec.Struct):
    """All that a node asks of the world.

    `schedule` runs a function at the end of the turn; `wake_at` asks for a call of `Node.wake` at a cluster time in ms;
    `spawn` runs a hook's awaitable and gives its verdict to a function; `log` takes a level and a line.
    """

    clock: ClusterClock
    store: Store
    schedule: Callable[[Callable[[], None]], None]
    wake_at: Callable[[int], None]
    spawn: Callable[[Awaitable[Verdict], Callable[[Verdict], None]], None]
    rng: Random
    log: Callable[[str, str], None]


class Node:
    """One broker. `epoch` numbers the ownership of its slots: on a node alone, the boot."""

    def __init__(self, name: str, boot: int, options: Options, hooks: Hooks, events: Events, ports: Ports) -> None:
        self.name = name
        self.options = options
        self.hooks = hooks
        self.events = events
        self.clock = ports.clock
        self.store = ports.store
        self.rng = ports.rng
        self.log = ports.log
        self.spawn = ports.spawn
        self._schedule = ports.schedule
        self.now = self.clock.now_ms()
        self.epoch = boot
        self.numbers = Numbers(boot)
        self.origins = Origins()
        self.origin: Origin = self.origins.get(name, boot)
        self.counters = Counters()
        self.timers = Timers(ports.wake_at)
        self.router = Router(self)
        self.slots = Slots(self)
        self.garbage = Garbage(self.store, ports.schedule)
        self.view_state = ViewState.WHOLE
        self.fronts: dict[int, Front] = {}
        self.closing = False
        self._retained: dict[str, RetainedMessages] = {}
        self._dirty: list[Outlet] = []
        self._announced = 0
        self._when_accepting: list[Callable[[], None]] = []
        self.store.on_state = self._store_state

    # -- life

    def open(self) -> None:
        """Bring back what the store holds: retained messages, then sessions; wills and deadlines that came due fire."""
        self._load_retained()
        restored = self.slots.load()
        self.counters.queue_initialized_from_storage = restored
        self.garbage.load()
        if self.options.expire_retain_cache_s:
            self._sweep_retained()
        self.event("node.start", sessions=restored, retained=self.retained_count)

    def accept(self, link: Link, origin: ConnectionOrigin) -> Front:
        """A connection was made."""
        self.now = self.clock.now_ms()
        front = Front(self, link, origin)
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

    def wake(self) -> None:
        """A deadline asked for by `wake_at` may be due."""
        self.now = self.clock.now_ms()
        self.timers.run(self.now)

    # -- output, once per turn

    def touch(self, front: Outlet) -> None:
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
    def accepting(self) -> bool:
        """A first PUBLISH of QoS 1 or 2 is taken: the store works and no split forbids it."""
        return self.store.accepting and self.view_state is ViewState.WHOLE

    def when_accepting(self, callback: Callable[[], None]) -> None:
        """Call back once `accepting` may have become true."""
        self._when_accepting.append(callback)

    def allows(self, operation: str, front: Front) -> bool:
        """Whether the split policy lets this operation begin (INV 7.3); a hook may have set the client's own flag."""
        flag = getattr(self.options, f"allow_{operation}_during_netsplit")
        own = front.modifiers.get(f"allow_{operation}")
        if own is not None:
            flag = "on" if own else "off"
        return decide(flag, self.view_state) is not Decision.REFUSE

    def _store_state(self, state: str, detail: str) -> None:
        self.event("store.state", state=state, detail=detail)
        if state == "serving":
            self.log("warning", "message store: serving again")
            waiting, self._when_accepting = self._when_accepting, []
            for callback in waiting:
                callback()
        else:
            self.log("error", f"message store: {state}: {detail}")

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
    def retained_count(self) -> int:
        """Retained messages of all mountpoints."""
        return sum(len(each) for each in self._retained.values())

    def retain(self, message: Message) -> int:
        """Keep or delete the retained message of a topic; `WAIT`, because its acknowledgement means everywhere (P4)."""
        if not self.store.accepting:
            return 0
        before = self.store.bytes_waiting
        problem = self.retained(message.mountpoint).set(message)
        if isinstance(problem, Refusal):
            self.counters.drop(problem.value)
            self.event("ret.refuse", topic=message.topic, client=message.publisher, reason=problem.value)
            return 0
        # the last encoding would be kept as long as the message
        message.frame_key, message.head, message.tail = -1, b"", b""
        if self.events.messages:
            self.event("ret.set", topic=message.topic, mid=message.mid)
        return WAIT if self.store.bytes_waiting != before else 0

    def _store_retained(self, mountpoint: str, topic: str, message: Message | None) -> None:
        key = retained_prefix(mountpoint) + topic.encode()
        if message is None:
            self.store.delete(key)
        else:
            self.store.put(key, encode(to_record(message)))

    def _load_retained(self) -> None:
        for key, value in self.store.scan(b"r", b"s"):
            length = int.from_bytes(key[1:3], "big")
            mountpoint = key[3 : 3 + length].decode()
            message = decode_message(key, value, mountpoint, self.origins)
            self.retained(mountpoint).restore(message.topic, message)

    def _sweep_retained(self) -> None:
        for messages in self._retained.values():
            messages.sweep(self.now, 1000)
        self.timers.at(self.now + self.options.expire_retain_cache_s * 1000, self._sweep_retained)

    # -- publishing from inside

    def publish(self, message: Message) -> int:
        """Route a message that no client connection sent: a will, `$SYS`, a plugin's."""
        routed = self.router.route(message, self.router.plans(message.mountpoint))
        return max(routed, self.retain(message)) if message.retain else routed

    def publish_will(self, session: Session, will: WillRecord) -> None:
        """Publish a will under a new mid [MQTT-3.1.2-8]; in a split without a lease it waits for the heal."""
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

    # -- what happened

    def event(self, type_: str, **fields: Any) -> None:
        """A domain event at level `session` or `message`; the caller tests `events.messages` for the latter."""
        if self.events.level:
            self.events.emit(type_, **fields)

    def emit_stats(self) -> None:
        """A snapshot of the totals since the start."""
        counters = self.counters
        self.event(
            "node.stats",
            connects=sum(counters.connect_received),
            publishes=sum(counters.publish_received),
            deliveries=sum(counters.publish_sent),
            drops=dict(counters.drops_by_reason),
        )

    def front_opened(self, front: Front, session: Session, present: bool) -> None:
        """A connection has its session."""
        if not present:
            self.counters.queue_setup += 1
        self.event(
            "conn.open",
            client=front.client_id,
            mountpoint=front.mountpoint,
            peer=f"{front.peer[0]}:{front.peer[1]}",
            version=front.version,
            username=front.username,
        )
        self.event("sess.resume" if present else "sess.create", client=front.client_id, mountpoint=front.mountpoint)
        if session.will is not None:
            self.event("will.arm", client=front.client_id, topic=session.will.topic)
        if front.version == 5:
            self.hooks.notify("on_register_m5", front.peer, front.subscriber, front.username, {})
        else:
            self.hooks.notify("on_register", front.peer, front.subscriber, front.username)
        if session.durable:
            self.hooks.notify("on_client_wakeup", front.subscriber)

    def front_closed(self, front: Front, reason: str, session: Session | None) -> None:
        """A connection is given up."""
        if self.fronts.pop(id(front), None) is None:
            return
        self.counters.socket_close += 1
        if session is not None:
            self.event("conn.close", client=front.client_id, mountpoint=front.mountpoint, reason=reason)

    def client_offline(self, session: Session) -> None:
        """A persistent session lost its connection."""
        self.hooks.notify("on_client_offline", Subscriber(session.mountpoint, session.client_id))

    def session_ended(self, session: Session, reason: str) -> None:
        """A session is over."""
        self.counters.queue_teardown += 1
        self.event("sess.end", client=session.client_id, mountpoint=session.mountpoint, reason=reason)
        hook = "on_session_expired" if reason == "expired" else "on_client_gone"
        self.hooks.notify(hook, Subscriber(session.mountpoint, session.client_id))

    def dropped(self, session: Session, message: Message, reason: str) -> None:
        """A message did not find room, or cannot be sent to this client (P8)."""
        self.counters.drop(reason)
        self.event("q.drop", client=session.client_id, topic=message.topic, reason=reason, mid=message.mid)
        if self.hooks.has("on_message_drop"):
            self.hooks.notify("on_message_drop", Subscriber(session.mountpoint, session.client_id), message, reason)

    def dropped_for_group(self, group: SharedGroup, message: Message) -> None:
        """No member of a shared subscription could take a message."""
        self.counters.drop("no_member")
        self.event("q.drop", client=group.text, topic=message.topic, reason="no_member", mid=message.mid)

    def expired(self, session: Session, message: Message) -> None:
        """A message's expiry interval was over before it could be sent [MQTT5-3.3.2-5]."""
        self.counters.queue_message_expired += 1
        self.event("q.expire", client=session.client_id, topic=message.topic, mid=message.mid)
        if self.hooks.has("on_message_drop"):
            self.hooks.notify("on_message_drop", Subscriber(session.mountpoint, session.client_id), message, "expired")

    def unhandled(self, session: Session, message: Message) -> None:
        """A QoS 0 message for a session without a connection: nobody keeps those (INV 6.1)."""
        self.counters.queue_message_unhandled += 1

    # -- events of messages, only at level `message`

    def message_received(self, front: Front, message: Message, packet_id: int) -> None:
        """A PUBLISH was accepted."""
        self.events.emit(
            "pub.recv",
            mid=message.mid,
            client=front.client_id,
            topic=message.topic,
            qos=message.qos,
            packet_id=packet_id,
            retain=message.retain,
            bytes=len(message.payload),
        )

    def message_routed(self, message: Message, plan: Plan) -> None:
        """The sessions that a message goes to are known."""
        targets = [target.session.client_id for target in plan.targets]
        self.events.emit("pub.route", mid=message.mid, targets=targets)

    def message_queued(self, message: Message, session: Session) -> None:
        """A session's queue was given a message; what of it is on disk is safe with the open batch."""
        self.events.emit("q.enq", mid=message.mid, client=session.client_id, topic=message.topic, qos=message.qos)
        if not session.durable or not message.qos:
            return
        commit = self.store.open_commit
        fields = {"mid": message.mid, "client": session.client_id, "lsn": commit}
        self.store.when_committed(commit, lambda: self.events.emit("q.durable", **fields))
        if self._announced < commit:
            self._announced = commit
            self.store.when_committed(commit, lambda: self.events.emit("store.sync", lsn=commit))

    def message_answered(self, session: Session, packet_id: int) -> None:
        """PUBACK or PUBREC of a message in flight: the subscriber has it."""
        entry = session.queue.inflight.get(packet_id)
        if entry is not None and entry.message is not None:
            self.events.emit("dlv.ack", client=session.client_id, packet_id=packet_id, mid=entry.message.mid)

    def message_acked(self, front: Front, message: Message, frame: bytes) -> Callable[[], None]:
        """Sends the acknowledgement and says so."""

        def send() -> None:
            front.write(frame)
            self.events.emit("pub.ack", mid=message.mid, client=front.client_id)

        return send

    def message_sent(self, front: Outlet, entry: Entry) -> None:
        """A QoS 1 or 2 message went to a subscriber."""
        assert entry.message is not None
        self.events.emit(
            "dlv.send",
            mid=entry.message.mid,
            client=front.session.client_id if front.session else "",
            packet_id=entry.packet_id,
            dup=entry.dup,
        )
