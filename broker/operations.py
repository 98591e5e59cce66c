"""The operations of an operator on a node: commands and listings.

A long loop is a generator that yields after a bounded number of rows; the caller lets other work run in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..mqtt.reasons import ReasonCode
from ..storage import keys
from .plugins.hooks import Subscriber
from .queues import shared_payloads
from .queues.durable_queue import DurableQueue
from .queues.message import Message
from .queues.queue import Queue
from .queues.records import RELEASED, RecordError, decode_entry, to_message
from .routing.ack_context import unanswered

if TYPE_CHECKING:
    from .node import Node
    from .sessions.session import Session

STEP = 50
"""Rows that a step reads; few, because each may hold a large payload."""
_COUNT_STEP = 2000
_SWEEP_STEP = 500


def disconnect(node: Node, mountpoint: str, client_id: str, cleanup: bool) -> bool:
    """Close a client's connection; a v5 client gets 0x98. With `cleanup` also end its session. False: no session."""
    node.env.wake()
    session = node.sessions.get(mountpoint, client_id)
    if session is None:
        return False
    if session.connection is not None:
        session.connection.disconnect(ReasonCode.ADMINISTRATIVE_ACTION)
    if cleanup:
        # a session that ends with its connection has ended already; then this does nothing
        session.end("administrative_action")
    return True


def unsubscribe(node: Node, session: Session, text: str) -> bool:
    """Remove a client's subscription to this filter; False if the client has none."""
    node.env.wake()
    if not session.unsubscribe(text):
        return False
    node.env.observer.subscription_removed(session, text)
    if node.env.hooks.has("on_topic_unsubscribed"):
        node.env.hooks.notify("on_topic_unsubscribed", Subscriber(session.mountpoint, session.client_id), [text])
    return True


def retained_bytes(node: Node) -> int:
    """About how many bytes of memory all retained messages take."""
    return sum(node.retained.table(mountpoint).bytes for mountpoint in node.retained.mountpoints)


def retained_messages(node: Node, mountpoint: str) -> Iterator[list[Message]]:
    """The retained messages of a mountpoint by topic, in steps; expired ones are left out."""
    start = ""
    while True:
        found = node.retained.table(mountpoint).page(start, STEP)
        now = node.env.clock.now_ms()
        yield [each for each in found if not 0 < each.expires_at <= now]
        if len(found) < STEP:
            return
        start = found[-1].topic + "\x00"


def delete_retained(node: Node, mountpoint: str, topic: str) -> bool:
    """Delete the retained message of a topic, in a cluster on all nodes; False if this node has none."""
    if mountpoint not in node.retained.mountpoints:
        return False
    return node.retained.delete(mountpoint, topic, unanswered())


def delete_expired_retained(node: Node) -> Iterator[int]:
    """Delete all expired retained messages in steps; yield how many each step deleted. A node that does not know
    cluster time deletes none (H-17)."""
    now = node.env.clock.now_ms()
    for mountpoint in node.retained.mountpoints if node.env.clock.known else ():
        messages = node.retained.table(mountpoint)
        while 0 < messages.next_expiry <= now:
            yield node.retained.sweep(mountpoint, now, _SWEEP_STEP, unanswered())


def queue_size(queue: Queue) -> Iterator[int | None]:
    """Yield None for each step of counting, then the number of messages that wait in the queue."""
    if not isinstance(queue, DurableQueue) or queue.low == queue.high or queue.on_disk >= 0:
        yield queue.size
        return
    start = queue.prefix + queue.low.to_bytes(8, "big")
    stop = queue.prefix + queue.high.to_bytes(8, "big")
    total = len(queue.waiting)
    while True:
        found = queue.env.store.keys(start, stop, _COUNT_STEP)
        total += len(found)
        if len(found) < _COUNT_STEP:
            yield total
            return
        yield None
        start = found[-1] + b"\x00"


def queued_messages(queue: Queue) -> Iterator[list[tuple[Message, int, bool]]]:
    """The messages of a queue with QoS and DUP, those in flight first, in steps. It skips unreadable ones."""
    if not isinstance(queue, DurableQueue):
        entries = [*queue.inflight.values(), *queue.waiting]
        yield [(each.message, each.qos, each.dup) for each in entries if each.message is not None]
        return
    yield [(each.message, 0, False) for each in queue.waiting if each.message is not None and not each.qos]
    start, stop = queue.prefix, keys.after(queue.prefix)
    while True:
        found = queue.env.store.scan(start, stop, STEP)
        yield [entry for key, value in found if (entry := _stored(queue, key, value)) is not None]
        if len(found) < STEP:
            return
        start = found[-1][0] + b"\x00"


def _stored(queue: DurableQueue, key: bytes, value: bytes) -> tuple[Message, int, bool] | None:
    node, mountpoint = queue.env, queue.session.mountpoint
    try:
        record = decode_entry(key, value)
        if record.message is not None:
            message = to_message(record.message, mountpoint, node.origins)
        elif record.state != RELEASED:
            message = shared_payloads.load(node.store, queue.slot, record.mid, mountpoint, node.origins)
        else:
            return None
    except RecordError as error:
        node.log("error", str(error))
        return None
    return message, record.qos, record.again or int.from_bytes(key[-8:], "big") < queue.sent_below
