"""The observer of a node: turns all events into counters, event log entries and hook calls (P8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from ..cluster.identity import left_out
from ..storage.store import Store
from .plugins.hooks import Hooks, Subscriber
from .queues.message import Message, Mid
from .reporting.choice import Choice
from .reporting.events import Events
from .reporting.log_line import VALUE_LIMIT, address
from .reporting.metrics import Counters


class Session(Protocol):
    """The fields of a session that events report."""

    mountpoint: str
    client_id: str

    @property
    def epoch(self) -> int:
        """Which durable session of its client it is; 0 if it ends with its connection."""
        ...

    @property
    def durable(self) -> bool:
        """True if the session outlives its connections."""
        ...


class QueueOwner(Session, Protocol):
    """The session of a queue."""

    @property
    def lost(self) -> bool:
        """True if another node has the session now."""
        ...


class Entry(Protocol):
    """The fields of a queue's entry that events report."""

    message: Message | None
    qos: int
    retain: bool
    group: str
    batch: int


class Sender(Protocol):
    """The fields of a connection that events of messages report."""

    client_id: str

    @property
    def number(self) -> int:
        """The number of the connection, unique in this start of the node."""
        ...


class Receiver(Sender, Protocol):
    """The fields of a connection that events of its output report."""

    mountpoint: str


class Connection(Protocol):
    """The fields of a client connection that events report."""

    mountpoint: str
    client_id: str
    username: str | None
    peer: tuple[str, int]
    subscriber: Subscriber

    @property
    def number(self) -> int:
        """The number of the connection, unique in this start of the node."""
        ...

    @property
    def version(self) -> int:
        """The protocol version: 3, 4 or 5."""
        ...

    @property
    def gateway(self) -> str:
        """As `ConnectionOrigin.gateway`."""
        ...


class Asked(NamedTuple):
    """What a client and its node have agreed on with CONNECT and CONNACK. `expiry_s`: 0xFFFFFFFF stands for never.
    `receive_max`: messages under way to the client. `will_delay_s`: None without a will. `will`: its id. `properties`:
    those of CONNECT, for plugins."""

    clean: bool
    expiry_s: int
    receive_max: int
    keepalive_s: int
    will_delay_s: int | None
    will: str | None
    properties: Mapping[str, Any]


class Observer:
    """Counts, logs and passes on the events of a node.

    Each method reports one event; the part of the broker that caused the event calls it. Callers call the methods named
    `message_...` only at event log level `message`. `copied` tells whether another node has all that is safe in a slot.
    `later(ms, function)` calls a function after so many milliseconds.
    """

    def __init__(
        self,
        hooks: Hooks,
        events: Events,
        store: Store,
        copied: Callable[[int], bool],
        later: Callable[[int, Callable[[], None]], object],
    ) -> None:
        self.hooks = hooks
        self.events = events
        self.store = store
        self.counters = Counters()
        self.choice = Choice(events, self.counters, later)
        self._copied = copied
        self._announced = 0
        self._synced_bytes = 0

    def _event(self, type_: str, **fields: Any) -> None:
        if self.events.level:
            self.events.emit(type_, **fields)

    def session_event(self, type_: str, session: Session, **fields: Any) -> None:
        """Emit an event of a session: its row names the session, and has these fields."""
        if self.events.level:
            name, mountpoint = session.client_id, session.mountpoint
            self.events.emit(type_, client=name, mountpoint=mountpoint, epoch=session.epoch, **fields)

    def emit_stats(self) -> None:
        """Emit the totals since the start of the node."""
        counters = self.counters
        self._event(
            "node.stats",
            connects=counters.accepted_connects,
            publishes=sum(counters.publish_received) - sum(counters.publish_auth_error) - sum(counters.publish_error),
            deliveries=sum(counters.publish_sent),
            drops=dict(counters.drops_by_reason),
            left_out=counters.eventlog_messages_left_out or None,
        )

    def connection_opened(self, connection: Connection, session: Session, present: bool, asked: Asked) -> None:
        """A client has its session and its CONNACK. `present` is True if the session existed before."""
        if not present:
            self.counters.queue_setup += 1
        self._event(
            "conn.open",
            client=connection.client_id,
            mountpoint=connection.mountpoint,
            epoch=session.epoch,
            conn=connection.number,
            peer=address(connection.peer),
            version=connection.version,
            username=connection.username,
            present=present,
            clean=asked.clean,
            expiry_s=asked.expiry_s,
            receive_max=asked.receive_max,
            keepalive_s=asked.keepalive_s,
            will_delay_s=asked.will_delay_s,
            will=asked.will,
        )
        self.session_event("sess.resume" if present else "sess.create", session)
        if connection.version == 5:
            who = connection.peer, connection.subscriber, connection.username
            self.hooks.notify("on_register_m5", *who, asked.properties)
        else:
            self.hooks.notify("on_register", connection.peer, connection.subscriber, connection.username)
        if session.durable:
            self.hooks.notify("on_client_wakeup", connection.subscriber)

    def connection_closed(self, connection: Connection, reason: str, opened: bool, detail: str = "") -> None:
        """The broker closed a connection. `opened` is True if its client had got a CONNACK and a session."""
        if not connection.gateway:
            self.counters.socket_close += 1
        if opened:
            self._event(
                "conn.close",
                client=connection.client_id,
                mountpoint=connection.mountpoint,
                conn=connection.number,
                reason=reason,
                peer=address(connection.peer),
                username=connection.username,
                detail=detail or None,
            )

    def relay_opened(self, connection: Connection, node: str, slot: int) -> None:
        """This node relays a connection to the node that serves its client."""
        self._event(
            "gateway.open",
            client=connection.client_id,
            mountpoint=connection.mountpoint,
            target=node,
            slot=slot,
            username=connection.username,
            peer=address(connection.peer),
        )

    def relay_closed(self, connection: Connection, node: str, reason: str) -> None:
        """This node relays a connection no more."""
        self._event(
            "gateway.close",
            client=connection.client_id,
            mountpoint=connection.mountpoint,
            target=node,
            reason=reason,
            peer=address(connection.peer),
        )

    def connect_refused(self, connection: Connection, code: int, reason: str) -> None:
        """The broker refused a client with this code; 0 if the client gets no CONNACK."""
        self._event(
            "conn.refuse",
            client=connection.client_id,
            peer=address(connection.peer),
            username=_cut(connection.username),
            mountpoint=connection.mountpoint,
            version=connection.version,
            code=code,
            reason=reason,
        )

    def taken_over(self, old: Connection, new: Connection) -> None:
        """The broker is about to close the `old` connection: the `new` one has the same client id."""
        self._event(
            "sess.takeover.start",
            client=new.client_id,
            mountpoint=new.mountpoint,
            username=new.username,
            peer=address(new.peer),
            old=address(old.peer),
        )

    def reading_paused(self, connection: Connection, reason: str, count: int) -> None:
        """The broker stops reading a connection: `count` packets of its client wait for their answers."""
        self._event(
            "conn.pause",
            client=connection.client_id,
            mountpoint=connection.mountpoint,
            reason=reason,
            count=count,
        )

    def output_unread(self, connection: Receiver) -> None:
        """A client has not read for a while what was sent to it: the broker sends it nothing more."""
        self._delivery("dlv.pause", connection)

    def output_read(self, connection: Receiver) -> None:
        """A client reads again, after `output_unread`."""
        self._delivery("dlv.resume", connection)

    def _delivery(self, type_: str, connection: Receiver) -> None:
        name, mountpoint = connection.client_id, connection.mountpoint
        self._event(type_, client=name, mountpoint=mountpoint, conn=connection.number)

    def denied(
        self,
        connection: Connection,
        operation: str,
        topic: str,
        reason: str | None = None,
        policy: str | None = None,
        state: str | None = None,
    ) -> None:
        """A plugin (no `reason`), or what `OperationPolicy.deny` knows, forbids an operation."""
        self._event(
            "policy.deny",
            client=connection.client_id,
            mountpoint=connection.mountpoint,
            operation=operation,
            topic=_cut(topic),
            reason=reason,
            policy=policy,
            state=state,
            username=_cut(connection.username),
            peer=address(connection.peer),
        )

    def client_offline(self, session: Session) -> None:
        """A durable session lost its connection."""
        self.hooks.notify("on_client_offline", Subscriber(session.mountpoint, session.client_id))

    def kept_offline(self, session: Session, entry: Entry) -> None:
        """The queue of a durable session keeps a message, because no client is connected."""
        message = entry.message
        if message is not None and self.hooks.has("on_offline_message"):
            subscriber = Subscriber(session.mountpoint, session.client_id)
            self.hooks.notify("on_offline_message", subscriber, entry.qos, message.topic, message.payload, entry.retain)

    def all_unsubscribed(self, session: Session) -> None:
        """A session ends: it loses all its subscriptions."""
        if self.hooks.has("on_topic_unsubscribed"):
            subscriber = Subscriber(session.mountpoint, session.client_id)
            self.hooks.notify("on_topic_unsubscribed", subscriber, "all_topics")

    def session_ended(self, session: Session, reason: str) -> None:
        """A session has ended."""
        self.counters.queue_teardown += 1
        self.session_event("sess.end", session, reason=reason)
        hook = "on_session_expired" if reason == "expired" else "on_client_gone"
        self.hooks.notify(hook, Subscriber(session.mountpoint, session.client_id))

    def dropped(self, session: Session, message: Message, reason: str) -> None:
        """The broker drops a message for this session: its queue is full, or the client cannot receive it (P8)."""
        self.counters.drop(reason)
        self.session_event("q.drop", session, topic=message.topic, reason=reason, mid=message.mid, qos=message.qos)
        if self.hooks.has("on_message_drop"):
            self.hooks.notify("on_message_drop", Subscriber(session.mountpoint, session.client_id), message, reason)

    def dropped_for_group(self, group: str, message: Message) -> None:
        """The broker drops a message because no member of the group, named by its `$share` filter, can take it."""
        self.counters.drop("no_member")
        self._event("q.drop", client=group, topic=message.topic, reason="no_member", mid=message.mid)

    def expired(self, session: Session, message: Message) -> None:
        """A message expired before the broker could send it to this session [MQTT5-3.3.2-5]."""
        self.counters.queue_message_expired += 1
        self.session_event("q.expire", session, topic=message.topic, mid=message.mid)
        if self.hooks.has("on_message_drop"):
            self.hooks.notify("on_message_drop", Subscriber(session.mountpoint, session.client_id), message, "expired")

    def unhandled(self, session: Session, message: Message) -> None:
        """The broker drops a QoS 0 message: no client is connected, or the message would follow entries on disk. Queues
        never keep those. It has a row only at event log level `message`, because this is how QoS 0 works."""
        self.counters.queue_message_unhandled += 1
        if self.events.messages and not left_out(message.counter):
            self.session_event("q.drop", session, topic=message.topic, reason="unhandled", mid=message.mid, qos=0)

    # -- events of messages, only at level `message`

    def message_received(self, connection: Connection, message: Message, packet_id: int) -> None:
        """The broker accepted a PUBLISH."""
        self.events.emit(
            "pub.recv",
            mid=message.mid,
            client=connection.client_id,
            conn=connection.number,
            topic=message.topic,
            qos=message.qos,
            packet_id=packet_id,
            retain=message.retain,
            bytes=len(message.payload),
        )

    def message_routed(self, message: Message, targets: list[str], nodes: list[str], group: str = "") -> None:
        """The router knows who gets a message: sessions of this node (`targets`, client ids) and other nodes; or, with
        `group`, the member or the node that was chosen for this shared subscription."""
        self.events.emit("pub.route", mid=message.mid, targets=targets, nodes=nodes or None, group=group or None)

    def message_queued(self, session: QueueOwner, entry: Entry, slot: int = -1) -> None:
        """A session's queue took a message. If the entry is written, also report the commit that makes it safe; `slot`
        is then the session's."""
        message, commit = entry.message, entry.batch
        assert message is not None
        if left_out(message.counter):
            return
        whose: dict[str, Any] = {
            "mid": message.mid,
            "client": session.client_id,
            "mountpoint": session.mountpoint,
            "epoch": session.epoch,
        }
        self.events.emit("q.enq", **whose, topic=message.topic, qos=entry.qos, group=entry.group or None)
        if not commit:
            return

        def safe() -> None:
            if session.lost:
                return  # its next primary may lack the message
            durability, copied = self.store.durability, self._copied(slot)
            self.events.emit("q.durable", **whose, lsn=commit, durability=durability, copied=copied)

        self.store.when_committed(commit, safe)
        if self._announced < commit and self.store.durability == "sync":
            self._announced = commit
            self.store.when_landed(commit, lambda: self._synced(commit))

    def _synced(self, lsn: int) -> None:
        total = self.store.bytes_landed
        self.events.emit("store.sync", lsn=lsn, bytes=total - self._synced_bytes)
        self._synced_bytes = total

    def message_depth(self, session: Session, count: int) -> None:
        """The queue of a session has so many messages, those in flight included."""
        self.session_event("q.depth", session, count=count)

    def message_answered(self, connection: Connection, packet_id: int, message: Message, code: int) -> None:
        """A subscriber answered a message in flight with PUBACK or PUBREC; `code` is its reason code."""
        self.events.emit(
            "dlv.ack",
            client=connection.client_id,
            conn=connection.number,
            packet_id=packet_id,
            mid=message.mid,
            code=code,
        )

    def message_released(self, type_: str, connection: Sender, packet_id: int, mid: Mid) -> None:
        """A step after PUBREC of a QoS 2 handshake with the publisher: `pub.rel` or `pub.comp`."""
        self.events.emit(type_, mid=mid, client=connection.client_id, conn=connection.number, packet_id=packet_id)

    def delivery_released(self, type_: str, connection: Sender, packet_id: int) -> None:
        """A step after PUBREC of a QoS 2 handshake with a subscriber: `dlv.rel` or `dlv.comp`."""
        self.events.emit(type_, client=connection.client_id, conn=connection.number, packet_id=packet_id)

    def subscription_added(self, session: Session, text: str, qos: int, write: int = 0) -> None:
        """A session has a subscription more, or has replaced one. `write`: as in `AckContext`."""
        self.session_event("sub.add", session, filter=text, qos=qos, write=write or None)

    def maps_compared(self, peer: str, exchange: int, behind: int | None, context: str, digest: str) -> None:
        """This node has compared its replicated map with that of another one, or is asked to. The arguments are those
        of `Reports.compared`."""
        which = {"source": peer} if behind is None else {"target": peer}
        self._event("map.sync", **which, exchange=exchange, behind=behind, context=context, digest=digest)

    def map_learned(self, source: str, boot: int, write: int) -> None:
        """This node tells another one that it has all that this boot of it wrote into the replicated map up to
        `write`."""
        if self.events.messages:
            self.events.emit("map.learn", source=source, source_boot=boot, write=write)

    def subscription_removed(self, session: Session, text: str) -> None:
        """A session has a subscription less."""
        self.session_event("sub.del", session, filter=text)

    def subscription_answered(
        self, connection: Connection, filters: list[str], codes: list[int], write: int, right: str
    ) -> None:
        """SUBACK leaves, with a reason code for each filter. `write`: as in `AckContext`; `right`: as
        `ClusterPort.right`."""
        self._answered("sub.ack", connection, filters, codes, right=right, write=write or None)

    def unsubscription_answered(self, connection: Connection, filters: list[str], codes: list[int], right: str) -> None:
        """UNSUBACK leaves, with a reason code for each filter. `right`: as `ClusterPort.right`."""
        self._answered("unsub.ack", connection, filters, codes, right=right)

    def _answered(self, type_: str, connection: Connection, filters: list[str], codes: list[int], **more: Any) -> None:
        if self.events.level:
            self.events.emit(
                type_,
                client=connection.client_id,
                mountpoint=connection.mountpoint,
                conn=connection.number,
                filters=filters,
                codes=[str(int(code)) for code in codes],
                **more,
            )

    def message_acked(
        self, connection: Connection, message: Message, packet_id: int, qos: int, code: int, right: str
    ) -> None:
        """The broker sends the acknowledgement of a PUBLISH (H-04). `qos` is that of the PUBLISH, `right` as
        `ClusterPort.right`."""
        self.events.emit(
            "pub.ack",
            mid=message.mid,
            client=message.publisher,
            conn=connection.number,
            packet_id=packet_id,
            qos=qos,
            code=code,
            right=right,
        )

    def message_sent(self, connection: Sender, message: Message, packet_id: int, qos: int, dup: bool) -> None:
        """The broker sends a message to a subscriber. Without QoS it has no packet id."""
        self.events.emit(
            "dlv.send",
            mid=message.mid,
            client=connection.client_id,
            conn=connection.number,
            packet_id=packet_id or None,
            qos=qos,
            dup=dup,
        )


def _cut(text: str | None) -> str | None:
    """The beginning of a user name or topic: what a stranger sends in vain takes little room in the event log."""
    return text if text is None else text[:VALUE_LIMIT]
