"""Records the messages that expired before a node sent them to a client, and that it sends as if it had done so before.

DUP says that a message may have been sent before. The simulator knows better: each node records what its queues send.
"""

from __future__ import annotations

from typing import Any

from ..broker.connection.output_buffer import OutputBuffer
from ..broker.node import Node
from ..broker.queues.durable_queue import DurableQueue
from ..broker.queues.queue import Entry
from ..broker.queues.records import decode_entry
from .history import History
from .workload.sender import key_of


def record_sends(history: History, node: Node) -> None:
    """From now on record what the node sends (`History.sent`), and what only seems to come again (`doubtful`)."""

    class Recording(OutputBuffer):
        __slots__ = ()

        def send(self, entry: Entry) -> None:
            assert entry.message is not None
            place = self.owner.client_id, key_of(entry.message.payload)
            if entry.dup and place not in history.sent and _counts_as_sent(self, entry):
                history.doubtful.add(place)
            history.sent.add(place)
            super().send(entry)

    flusher: Any = node.services.flusher
    touch = flusher.touch

    def touching(output: OutputBuffer) -> None:
        output.__class__ = Recording  # its first output is CONNACK
        touch(output)

    flusher.touch = touching


def _counts_as_sent(output: OutputBuffer, entry: Entry) -> bool:
    """Whether an expired entry has DUP because of its place in the queue. Its own record may say it, too: that a former
    primary may have sent it."""
    session: Any = output.session
    queue = session.queue
    if not isinstance(queue, DurableQueue) or queue.lifo or not queue._expired(entry):
        return False
    key = queue.prefix + entry.seq.to_bytes(8, "big")
    value = queue.env.store.get(key)
    return value is not None and not decode_entry(key, value).again
