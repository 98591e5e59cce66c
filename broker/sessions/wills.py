"""Publishes wills. A node without a lease keeps a due will on disk until it has a lease (H-13, H-19; P5).

Meanwhile the session of the will may end, and the node may crash. The batch that routes the will also deletes its
record. The wills of durable sessions move with their slot. Those of other clients stay at this node, their gateway.
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


class WillOwner(ClientName, Protocol):
    """The session of a will."""

    durable: bool


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
        self._waiting: dict[bytes, set[bytes]] = {}
        """The keys of the wills that wait for a lease, by their kind and slot."""
        self._elsewhere: set[int] = set()
        """The slots whose wills another node publishes."""

    def load(self) -> None:
        """Schedule the wills on disk, which wait for a lease, for a later turn. Raises `RecordError`."""
        for kind in (b"z", b"Z"):
            start, stop = kind, keys.after(kind)
            while found := self._env.store.keys(start, stop, 1):
                slot = found[0][1]
                if kind == b"Z" or slot not in self._elsewhere:
                    for key, value in self._rows(kind, slot):
                        self._schedule(key, decode_pending(key, value))
                start = keys.after(keys.of_slot(kind, slot))

    def load_slot(self, slot: int) -> None:
        """The sessions of this slot are here: schedule their wills on disk for a later turn. Raises `StorageError`."""
        self._elsewhere.discard(slot)
        for key, value in self._rows(b"z", slot):
            try:
                self._schedule(key, decode_pending(key, value))
            except RecordError as error:
                self._env.log("error", str(error))

    def drop(self, slot: int) -> None:
        """The sessions of this slot are at another node, or moving: publish none of their wills that wait."""
        self._elsewhere.add(slot)
        self._waiting.pop(keys.of_slot(b"z", slot), None)

    def _rows(self, kind: bytes, slot: int) -> list[tuple[bytes, bytes]]:
        return self._env.store.scan(*keys.slot_range(kind, slot))

    def _schedule(self, key: bytes, pending: PendingWill) -> None:
        self._note(key)
        self._env.timers.at(self._env.now, lambda: self._try(key, pending))

    def _note(self, key: bytes) -> None:
        self._waiting.setdefault(key[:2], set()).add(key)

    def publish(self, client: WillOwner, will: WillRecord) -> None:
        """Publish a will under a new mid [MQTT-3.1.2-8].

        A node without a lease does so once it has one (H-13), a node that starts once it knows all subscriptions.
        """
        self._publish(client, will, client.durable)

    def _publish(self, client: ClientName, will: WillRecord, durable: bool) -> None:
        env = self._env
        if self._policy.loading or not env.cluster.has_lease() or self._policy.view_state is ViewState.MINORITY:
            self._park(client, will, durable)
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

    def _park(self, client: ClientName, will: WillRecord, durable: bool) -> None:
        """Write the will with the open batch, and publish it as soon as the node has a lease."""
        pending = PendingWill(client.mountpoint, client.client_id, will)
        slot = slot_of(client.mountpoint, client.client_id)
        if durable:
            key = keys.will_key(slot, self._counters.next(slot))
        else:
            key = keys.local_will_key(slot, self._env.numbers.unique())
        self._env.store.put(key, encode(pending))
        self._note(key)
        self._policy.when_accepting(lambda: self._try(key, pending))

    def _try(self, key: bytes, pending: PendingWill) -> None:
        waiting = self._waiting.get(key[:2], set())
        if key not in waiting:
            return  # the slot has left this node, or the will was published after its return
        if self._policy.loading or self._policy.view_state is ViewState.MINORITY:
            self._policy.when_accepting(lambda: self._try(key, pending))
            return
        waiting.discard(key)
        self._env.store.delete(key)
        self._publish(pending, pending.will, key[:1] == b"z")
