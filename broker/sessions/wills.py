"""Publishes wills. A node without a lease keeps a due will on disk until it has a lease (H-13, H-19; P5).

Meanwhile the session of the will may end, and the node may crash. The batch that routes the will also deletes its
record.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from ...cluster.identity import slot_of
from ...netsplit.policy import ViewState
from ...storage import keys
from ..environment import Environment
from ..operation_policy import OperationPolicy
from ..queues.message import Message
from ..queues.records import RecordError, WillRecord, encode
from ..routing.publisher import Publisher
from .slot_counters import SlotCounters


class ClientName(Protocol):
    """The client of a will: a `Session`, or a `PendingWill`, whose session may have ended."""

    mountpoint: str
    client_id: str


class PendingWill(msgspec.Struct, array_like=True):
    """A due will that waits for a lease, and its client."""

    mountpoint: str
    client_id: str
    will: WillRecord


_decoder = msgspec.msgpack.Decoder(PendingWill)


def decode_pending(key: bytes, value: bytes) -> PendingWill:
    """The will found at `key`. Raises `RecordError`."""
    try:
        return _decoder.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RecordError(f"message database: the will at key {key!r} cannot be read: {error}") from None


class Wills:
    """Publishes the wills of a node."""

    def __init__(self, env: Environment, policy: OperationPolicy, publisher: Publisher, counters: SlotCounters) -> None:
        self._env = env
        self._policy = policy
        self._publisher = publisher
        self._counters = counters

    def waiting(self, slot: int) -> bool:
        """True if a will of a client in this slot waits for a lease. Raises `StorageError`."""
        prefix = keys.of_slot(b"z", slot)
        return bool(self._env.store.keys(prefix, keys.after(prefix), 1))

    def load(self) -> None:
        """Schedule the wills on disk, which wait for a lease, for a later turn. Raises `RecordError`."""
        env = self._env
        for key, value in env.store.scan(b"z", b"{"):
            pending = decode_pending(key, value)
            env.timers.at(env.now, lambda key=key, pending=pending: self._try(key, pending))  # type: ignore[misc]

    def publish(self, client: ClientName, will: WillRecord) -> None:
        """Publish a will under a new mid [MQTT-3.1.2-8].

        A node without a lease does so once it has one (H-13), a node that starts once it knows all subscriptions.
        """
        env = self._env
        if self._policy.loading or not env.cluster.has_lease() or self._policy.view_state is ViewState.MINORITY:
            self._park(client, will)
            return
        message = Message(
            client.mountpoint,
            will.topic,
            will.payload,
            will.qos,
            will.retain,
            will.properties,
            env.now + will.expiry_s * 1000 if will.expiry_s >= 0 else 0,
            client.client_id,
            env.origin,
            env.numbers.next(),
        )
        env.event("will.fire", client=client.client_id, topic=will.topic, mid=message.mid)
        self._publisher.publish(message)

    def _park(self, client: ClientName, will: WillRecord) -> None:
        """Write the will with the open batch, and publish it as soon as the node has a lease."""
        pending = PendingWill(client.mountpoint, client.client_id, will)
        slot = slot_of(client.mountpoint, client.client_id)
        key = keys.will_key(slot, self._counters.next(slot))
        self._env.store.put(key, encode(pending))
        self._policy.when_accepting(lambda: self._try(key, pending))

    def _try(self, key: bytes, pending: PendingWill) -> None:
        if self._policy.loading or self._policy.view_state is ViewState.MINORITY:
            self._policy.when_accepting(lambda: self._try(key, pending))
            return
        self._env.store.delete(key)
        self.publish(pending, pending.will)
