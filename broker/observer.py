"""What happened on a node: one place turns it into counters, events and hooks (P8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..storage.store import Store
from .connection.output_buffer import OutputBuffer
from .plugins.hooks import Hooks, Subscriber
from .queues.message import Message
from .queues.queue import Entry
from .reporting.events import Events
from .reporting.log_line import address
from .reporting.metrics import Counters
from .routing.plans import Plan
from .routing.shared import SharedGroup

if TYPE_CHECKING:
    from .connection.connection import ClientConnection
    from .sessions.session import Session


class Observer:
    """The part of a node that tells what happens. Methods named `message_...` are called at level `message` only."""

    def __init__(self, hooks: Hooks, events: Events, store: Store) -> None:
        self.hooks = hooks
        self.events = events
        self.store = store
        self.counters = Counters()
        self.fronts: dict[int, ClientConnection] = {}
        self._announced = 0

    def event(self, type_: str, **fields: Any) -> None:
        """A domain event at level `session` or `message`; the caller tests `events.messages` for the latter."""
        if self.events.level:
            self.events.emit(type_, **fields)

    def emit_stats(self) -> None:
        """A snapshot of the totals since the start."""
        counters = self.counters
        self.event(
            "node.stats",
            connects=counters.accepted_connects,
            publishes=sum(counters.publish_received) - sum(counters.publish_auth_error) - sum(counters.publish_error),
            deliveries=sum(counters.publish_sent),
            drops=dict(counters.drops_by_reason),
        )

    def front_opened(self, front: ClientConnection, session: Session, present: bool) -> None:
        """A connection has its session."""
        if not present:
            self.counters.queue_setup += 1
        self.event(
            "conn.open",
            client=front.client_id,
            mountpoint=front.mountpoint,
            peer=address(front.peer),
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

    def front_closed(self, front: ClientConnection, reason: str, session: Session | None, detail: str = "") -> None:
        """A connection is given up."""
        if self.fronts.pop(id(front), None) is None:
            return
        self.counters.socket_close += 1
        if session is not None and front.connected:  # one that ends before its CONNACK was never opened
            self.event(
                "conn.close",
                client=front.client_id,
                mountpoint=front.mountpoint,
                reason=reason,
                peer=address(front.peer),
                username=front.username,
                detail=detail or None,
            )

    def connect_refused(self, front: ClientConnection, code: int, reason: str) -> None:
        """CONNECT is answered with this code, or with none (0) where the version has no answer."""
        self.event(
            "conn.refuse",
            client=front.client_id,
            peer=address(front.peer),
            username=front.username,
            mountpoint=front.mountpoint,
            version=front.version,
            code=code,
            reason=reason,
        )

    def taken_over(self, old: ClientConnection, new: ClientConnection) -> None:
        """A connection is about to be closed, because another one has its client id."""
        self.event(
            "sess.takeover.start",
            client=new.client_id,
            mountpoint=new.mountpoint,
            username=new.username,
            peer=address(new.peer),
            old=address(old.peer),
        )

    def reading_paused(self, front: OutputBuffer, reason: str, count: int) -> None:
        """A connection is not read: of what it sent, `count` packets wait for their answers."""
        assert front.session is not None
        self.event(
            "conn.pause",
            client=front.session.client_id,
            mountpoint=front.session.mountpoint,
            reason=reason,
            count=count,
        )

    def denied(self, front: ClientConnection, operation: str, topic: str, reason: str | None = None) -> None:
        """The rules for this client (no `reason`), the split policy or the disk (`reason`) forbid an operation."""
        self.event(
            "policy.deny",
            client=front.client_id,
            mountpoint=front.mountpoint,
            operation=operation,
            topic=topic,
            reason=reason,
            username=front.username,
            peer=address(front.peer),
        )

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
        """A QoS 0 message for a session without a connection: nobody keeps those."""
        self.counters.queue_message_unhandled += 1

    # -- events of messages, only at level `message`

    def message_received(self, front: ClientConnection, message: Message, packet_id: int) -> None:
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

    def message_acked(self, front: ClientConnection, message: Message, frame: bytes) -> Callable[[], None]:
        """Sends the acknowledgement; that is said when it has passed the guard (H-04)."""

        def send() -> None:
            front.write(frame)
            front.acked.append(message)

        return send

    def messages_acked(self, front: OutputBuffer) -> None:
        """The acknowledgements of this turn leave."""
        acked, front.acked = front.acked, []
        for message in acked:
            self.events.emit("pub.ack", mid=message.mid, client=message.publisher)

    def message_sent(self, front: OutputBuffer, entry: Entry) -> None:
        """A QoS 1 or 2 message went to a subscriber."""
        assert entry.message is not None
        self.events.emit(
            "dlv.send",
            mid=entry.message.mid,
            client=front.session.client_id if front.session else "",
            packet_id=entry.packet_id,
            dup=entry.dup,
        )

    def message_sent_qos0(self, front: OutputBuffer, message: Message) -> None:
        """A QoS 0 message went to a subscriber."""
        assert front.session is not None
        self.events.emit("dlv.send", mid=message.mid, client=front.session.client_id, qos=0)
