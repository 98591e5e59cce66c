"""Publishes wills, and what members of shared subscriptions leave behind.

A node without a lease keeps a due will on disk until it has a lease (H-13, H-19; P5).

Meanwhile the session of the will may end, and the node may crash. The wills of sessions whose record is in a slot move
with the slot. Those of other clients stay at this node, their gateway.

If the slot has copies, a due will is a row of the slot until all receivers have acknowledged it. So whoever is primary
goes on with it, under the same mid, and receivers recognise what they have (H-50). The primary of a receiver may have
died, too; so the will then comes with DUP (H-51):

    due        the row has the will; the record of the session has it no more
    named      the row also has the mid
    routed     the row with the mid is safe, and the message is on its way
    kept       all nodes have it as a retained message, if it is one: it is not stored again
    over       all receivers have acknowledged the message: the row is deleted

Without copies the batch that routes the will also deletes its record or its row.

A member of a shared subscription that ends or disconnects leaves messages to other members. If its slot has copies,
each is a row of the slot in the same way. The batch that deletes it from the member's queue writes the row, and the row
stays until another member has the message (H-56).

If a client connects again through another gateway, its former gateway may have died a moment ago. Then the will of the
former connection is *in doubt*: its row waits until it is certain whether that gateway lives. If the gateway has died,
the will is dropped, because the client is well (H-39).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import msgspec

from ...cluster.identity import left_out, slot_of, slot_origin
from ...netsplit.policy import ViewState
from ...storage import keys
from ..environment import Environment
from ..observer import Connection
from ..operation_policy import OperationPolicy
from ..queues.message import Message, Mid, Origin
from ..queues.records import RecordError, WillRecord, encode
from ..routing.ack_context import AckContext
from ..routing.pending_acks import PendingAcks
from ..routing.publisher import Publisher
from ..routing.router import AFTER_COMMIT, LeavingMember
from .slot_counters import SlotCounters

DOUBT_MS = 5_000
"""How long a will is in doubt at least: longer than the cluster needs to take a node that has died out of the view."""
ANSWER_MS = 200
"""How long the CONNACK of a client may wait for the former gateway, and then for its former will."""
DOUBTED_BYTES = 64 << 20
"""About the most memory for wills in doubt. Without room a will is published at once."""
WILL_COST = 1_000
"""Bytes of memory that a will takes in addition to the length of its row."""


class ClientName(Protocol):
    """The client of a will: a `Session`, or a `PendingWill`, whose session may have ended."""

    mountpoint: str
    client_id: str


class WillOwner(ClientName, Protocol):
    """The session of a will. `in_slot`: its record is in its slot."""

    in_slot: bool


class PendingWill(msgspec.Struct, array_like=True):
    """A due will that no receiver may have yet, and its client.

    `epoch` and `counter` are the last two parts of its mid, whose origin is the slot; 0 while it has none.
    `expires_at` is cluster time in ms, 0 for never; it counts with the mid.

    A will in doubt has the `gateway` of the connection, the view in which the process of that node had entered, and
    from when on it may be decided, in cluster time in ms. `gateway` is "" for any other will.

    If it has a `group`, a `$share` filter, it is no will: a member of that group has left the message behind, and the
    client is its publisher.

    `kept`: all nodes have it as the retained message of its topic, or had it before a later one.
    """

    mountpoint: str
    client_id: str
    will: WillRecord
    epoch: int = 0
    counter: int = 0
    expires_at: int = 0
    gateway: str = ""
    entered_in_view: int = 0
    decided_at: int = 0
    group: str = ""
    kept: bool = False


_decoder = msgspec.msgpack.Decoder(PendingWill)


def decode_pending(key: bytes, value: bytes) -> PendingWill:
    """The will found at `key`. Raises `RecordError`."""
    try:
        return _decoder.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"message database: the will at key {key!r} cannot be read: {error}") from None


class Wills:
    """Publishes the wills of a node."""

    def __init__(self, env: Environment, policy: OperationPolicy, publisher: Publisher, counters: SlotCounters) -> None:
        self._env = env
        self._policy = policy
        self._publisher = publisher
        self._counters = counters
        self._waiting: dict[bytes, dict[bytes, PendingWill]] = {}
        """The wills on disk by key, by kind and slot of the key."""
        self._routed: dict[bytes, PendingAcks] = {}
        """Key -> what the will on its way waits for."""
        self._elsewhere: set[int] = set()
        """The slots whose wills another node publishes."""
        self._doubted: dict[bytes, int] = {}
        """Key -> bytes of memory for a will in doubt; `_doubted_bytes` is the sum."""
        self._doubted_bytes = 0
        self.ask_gateway: Callable[[Connection, Callable[[bool], None]], bool] = lambda _ended, _answered: False
        """Calls a function once the gateway of a connection that has just ended answers; False if it is not asked."""
        self._held: dict[bytes, tuple[bytes, PendingAcks]] = {}
        """Key -> client key, and what the CONNACK of that client waits for: that the will is published."""
        self._connacks: dict[bytes, PendingAcks] = {}
        """The same by client key."""

    def load(self) -> None:
        """Schedule the wills on disk for a later turn. Raises `RecordError`."""
        for kind in (b"z", b"Z"):
            start, stop = kind, keys.after(kind)
            while found := self._env.store.keys(start, stop, 1):
                slot = found[0][1]
                if kind == b"Z" or slot not in self._elsewhere:
                    for key, value in self._rows(kind, slot):
                        self._schedule(key, decode_pending(key, value), len(value))
                start = keys.after(keys.of_slot(kind, slot))

    def load_slot(self, slot: int) -> None:
        """The sessions of this slot are here: schedule their wills on disk for a later turn. Raises `StorageError`."""
        self._elsewhere.discard(slot)
        for key, value in self._rows(b"z", slot):
            try:
                self._schedule(key, decode_pending(key, value), len(value))
            except RecordError as error:
                self._env.log("error", str(error))

    def drop(self, slot: int) -> None:
        """The sessions of this slot are at another node, or moving: publish none of their wills that wait."""
        self._elsewhere.add(slot)
        for key in self._waiting.pop(keys.of_slot(b"z", slot), ()):
            self._routed.pop(key, None)
            self._end_doubt(key)
            self._let_go(key)

    def reopen_handshakes(self) -> None:
        """Report the mids of wills that were loaded before this node had its cluster port."""
        for wills in self._waiting.values():
            for key, pending in wills.items():
                if pending.counter:
                    self._env.cluster.handshake_opened(_mid(key, pending))

    @property
    def waiting(self) -> int:
        """Number of wills on this disk that are in doubt, wait for a lease, or lack a receiver."""
        return sum(map(len, self._waiting.values()))

    def on_its_way(self, slot: int) -> str:
        """Return what of this slot some receiver may have and another may lack, in words; "" if nothing."""
        found = [each for each in self._waiting.get(keys.of_slot(b"z", slot), {}).values() if each.counter]
        if not found:
            return ""
        if found[0].group:
            return f"a message of client {found[0].client_id}, which a member of {found[0].group} left behind"
        return f"the will of client {found[0].client_id}"

    def route_again(self) -> None:
        """This node left the view: other nodes may have skipped the copies of its wills (H-14)."""
        for key in list(self._routed):
            self._when_accepting(key, self._waiting[key[:2]][key])
        self._routed.clear()

    def _rows(self, kind: bytes, slot: int) -> list[tuple[bytes, bytes]]:
        return self._env.store.scan(*keys.slot_range(kind, slot))

    def _schedule(self, key: bytes, pending: PendingWill, size: int) -> None:
        self._note(key, pending)
        self._end_doubt(key)
        if pending.gateway:
            self._doubted[key] = size + WILL_COST
            self._doubted_bytes += size + WILL_COST
        if pending.counter:
            self._env.cluster.handshake_opened(_mid(key, pending))
        now = self._env.now
        due_at = min(max(now, pending.decided_at), now + DOUBT_MS)  # the time of the cluster may have been set back
        self._env.timers.at(due_at, lambda: self._try(key, pending))

    def _note(self, key: bytes, pending: PendingWill) -> None:
        self._waiting.setdefault(key[:2], {})[key] = pending

    def _is_waiting(self, key: bytes, pending: PendingWill) -> bool:
        """False if the slot has left this node, even if it has come back since."""
        return self._waiting.get(key[:2], {}).get(key) is pending

    def _over(self, key: bytes) -> None:
        del self._waiting[key[:2]][key]

    # -- a will is due

    def publish(self, client: WillOwner, will: WillRecord, doubted: str = "") -> None:
        """Publish a will under a new mid [MQTT-3.1.2-8].

        A node without a lease does so once it has one (H-13), a node that starts once it knows all subscriptions.
        `doubted` is the gateway of the client if it may have died; then the will is in doubt first.
        """
        slot = slot_of(client.mountpoint, client.client_id)
        pending = PendingWill(client.mountpoint, client.client_id, will)
        if doubted and self._doubted_bytes < DOUBTED_BYTES:
            self._doubt(self._new_key(slot, client.in_slot), pending, doubted)
            return
        accepts = self._accepts()
        has_rows = accepts and self._has_rows(pending)
        mid = self._env.cluster.mid_of_slot(slot, has_rows) if accepts and client.in_slot else None
        if accepts and mid is None and self._publisher.is_ready(client.mountpoint, will.topic):
            self._publish(pending, has_rows)
            return
        key = self._new_key(slot, client.in_slot)
        self._note(key, pending)
        if mid is not None:
            self._name(key, pending, mid)
        else:
            self._env.store.put(key, encode(pending))
            self._try(key, pending)

    def leave_behind(self, member: LeavingMember, message: Message, group: str, sent: bool) -> bool:
        """Keep a message that a member of a group leaves to another one until that one has it. Returns False, and does
        nothing, if the member's slot has no copies. The open batch has to delete the message from the member's queue.

        `sent`: the member may have got it. It may get it again, for it may be back before another one has it (H-51).
        """
        slot = member.key[0]
        mid = self._env.cluster.mid_of_slot(slot, not left_out(message.counter))
        if mid is None:
            return False
        record = WillRecord(message.topic, message.payload, message.qos, message.retain, message.properties, -1, 0)
        pending = PendingWill(message.mountpoint, message.publisher, record, expires_at=message.expires_at, group=group)
        key = self._new_key(slot, True)
        self._note(key, pending)
        self._name(key, pending, mid, fresh=not sent)
        return True

    def _new_key(self, slot: int, in_slot: bool) -> bytes:
        if in_slot:
            return keys.will_key(slot, self._counters.next(slot))
        return keys.local_will_key(slot, self._env.numbers.unique())

    def _accepts(self) -> bool:
        """True if this node may accept a will for routing now."""
        policy = self._policy
        return not policy.loading and self._env.cluster.has_lease() and policy.view_state is not ViewState.MINORITY

    def _when_accepting(self, key: bytes, pending: PendingWill, fresh: bool = False) -> None:
        self._policy.when_accepting(lambda: self._try(key, pending, fresh))

    def _try(self, key: bytes, pending: PendingWill, fresh: bool = False) -> None:
        """Go on with a will if this node may. `fresh`: this process has given it its mid, so nobody has got it."""
        if not self._is_waiting(key, pending):
            return
        if not self._accepts():
            self._when_accepting(key, pending, fresh)
            return
        again = partial(self._try, key, pending, fresh)
        if self._publisher.waits(pending.mountpoint, pending.will.topic, again):
            return
        if pending.counter:
            self._route(key, pending, again=not fresh)
            return
        if pending.gateway and not self._decide(key, pending):
            return
        has_rows = self._has_rows(pending)
        mid = self._env.cluster.mid_of_slot(key[1], has_rows) if key[:1] == b"z" else None
        if mid is not None:
            self._name(key, pending, mid)
            return
        self._over(key)
        self._env.store.delete(key)
        self._publish(pending, has_rows)
        self._let_go(key)

    def _has_rows(self, pending: PendingWill) -> bool:
        return self._env.has_rows(pending.client_id, pending.will.topic)

    def _publish(self, pending: PendingWill, has_rows: bool) -> None:
        """Route a will at once, under a mid of this node."""
        env = self._env
        message = _message(pending, self._expires_at(pending), env.origin, env.numbers.next(has_rows))
        env.event("will.fire", **_facts(pending), mid=message.mid)
        self._publisher.publish(message)

    def _expires_at(self, pending: PendingWill) -> int:
        expiry_s = pending.will.expiry_s
        return self._env.now + expiry_s * 1000 if expiry_s >= 0 else 0

    # -- a will in doubt

    def _doubt(self, key: bytes, pending: PendingWill, gateway: str) -> None:
        """Let the will wait until it is certain whether the gateway lives, here or at the next primary."""
        env = self._env
        pending.gateway = gateway
        pending.entered_in_view = env.cluster.entrance_of(gateway)
        pending.decided_at = env.now + DOUBT_MS
        value = encode(pending)
        env.store.put(key, value)
        self._schedule(key, pending, len(value))

    def _decide(self, key: bytes, pending: PendingWill) -> bool:
        """Returns True if the gateway has lived all the time: publish the will now. If it has died, drop the will.

        A node knows who lives only when it has had a lease for some time: else it waits.
        """
        env = self._env
        pause_ms = env.cluster.expiry_pause_ms()
        if pause_ms:
            env.timers.at(env.now + pause_ms, lambda: self._try(key, pending))
            return False
        entrance = env.cluster.entrance_of(pending.gateway)
        self._end_doubt(key)
        pending.gateway = ""
        if entrance and entrance == pending.entered_in_view:
            return True
        self._gateway_lost(key, pending)
        return False

    def _gateway_lost(self, key: bytes, pending: PendingWill) -> None:
        """The cluster ended the connection, and the client is well: drop the will."""
        self._env.event("will.cancel", **_facts(pending), reason="gateway_lost")
        self._over(key)
        self._env.store.delete(key)
        self._let_go(key)

    def _end_doubt(self, key: bytes) -> None:
        self._doubted_bytes -= self._doubted.pop(key, 0)

    def ask(self, client_key: bytes, ended: Connection) -> None:
        """The client has connected again through another gateway. If its former will is in doubt, ask the gateway of
        the connection that has just ended. If that one answers that it lives, the will is published: before CONNACK,
        because the client may publish a later state to the same topic. If it answers that it has stopped, the will is
        dropped."""
        wanted = ended.mountpoint, ended.client_id, ended.gateway, self._env.cluster.entrance_of(ended.gateway)
        found = [
            (key, pending)
            for kind in (b"z", b"Z")
            for key, pending in self._waiting.get(keys.of_slot(kind, client_key[0]), {}).items()
            if key in self._doubted
            and (pending.mountpoint, pending.client_id, pending.gateway, pending.entered_in_view) == wanted
        ]
        if not found:
            return
        key, pending = found[-1]
        if self.ask_gateway(ended, lambda lives: self._gateway_answers(key, pending, lives)):
            held = client_key, PendingAcks().add()
            self._held[key], self._connacks[client_key] = held, held[1]
            self._env.timers.at(self._env.now + ANSWER_MS, lambda: self._let_go(key, held))

    def before_connack(self, client_key: bytes) -> PendingAcks | None:
        """What the CONNACK of this client waits for; None if it need not wait."""
        return self._connacks.get(client_key)

    def _gateway_answers(self, key: bytes, pending: PendingWill, lives: bool) -> None:
        if self._is_waiting(key, pending) and pending.gateway:
            self._end_doubt(key)
            pending.gateway = ""
            if lives:
                self._try(key, pending)
            else:
                self._gateway_lost(key, pending)

    def _let_go(self, key: bytes, overdue: tuple[bytes, PendingAcks] | None = None) -> None:
        """The will is published, or the client has waited for long enough (`overdue`): its CONNACK may leave."""
        held = self._held.get(key)
        if held is None or overdue not in (None, held):
            return
        del self._held[key]
        client_key, connack = held
        if self._connacks.get(client_key) is connack:
            del self._connacks[client_key]
        connack.complete()

    # -- a will of a slot with copies

    def _name(self, key: bytes, pending: PendingWill, mid: Mid, fresh: bool = True) -> None:
        """Give the will its mid. No copy leaves before that is safe: the next primary has to use the same mid. `fresh`
        as in `_try`."""
        env = self._env
        _, pending.epoch, pending.counter = mid
        if not pending.group:
            pending.expires_at = self._expires_at(pending)
            env.event("will.fire", **_facts(pending), mid=mid)
        env.store.put(key, encode(pending))
        env.cluster.handshake_opened(mid)
        env.store.when_committed(env.store.open_commit, lambda: self._try(key, pending, fresh))

    def _route(self, key: bytes, pending: PendingWill, again: bool) -> None:
        """Send the will to all that lack it. A receiver that has it from an earlier time recognises the mid.

        `again`: it may have been sent before. The primary of a receiver may have died since, and the next one not know
        that it was delivered (H-51).
        """
        if key in self._routed:
            return
        env = self._env
        env.tick()
        origin = env.origins.get(slot_origin(key[1]), pending.epoch)
        context = AckContext()
        pending_acks = self._routed[key] = context.need().add()
        message = _message(pending, pending.expires_at, origin, pending.counter)
        retaining = None
        if message.retain and not (pending.group or pending.kept):
            retaining = self._retain(message)
        if pending.group:
            routed = self._publisher.publish_left(message, pending.group, context, again)
        else:
            routed = self._publisher.publish_inherited(message, context, again)
        if routed == AFTER_COMMIT:
            env.store.when_committed(env.store.open_commit, pending_acks.add().complete)
        pending_acks.waiter = lambda: self._acknowledged(key, pending, pending_acks)
        if retaining is not None:
            self._when_kept(key, pending, retaining, pending_acks.add())
            retaining.complete()
        pending_acks.complete()
        self._let_go(key)

    def _retain(self, message: Message) -> PendingAcks:
        """Store the retained message. Returns what that waits for, with one more condition."""
        context = AckContext()
        retaining = context.need().add()
        if self._publisher.retain(message, context) == AFTER_COMMIT:
            self._env.store.when_committed(self._env.store.open_commit, retaining.add().complete)
        return retaining

    def _when_kept(self, key: bytes, pending: PendingWill, retaining: PendingAcks, pending_acks: PendingAcks) -> None:
        """Once all nodes have the retained message, note that: if the will is sent again, by the next primary perhaps,
        it must not replace a later one."""

        def done() -> None:
            if retaining.failed:  # a node has not confirmed it in time
                retaining.waiter = done
                retaining.retry()
                return
            if self._routed.get(key) is pending_acks and self._is_waiting(key, pending):
                pending.kept = True
                if pending_acks.open > 1:  # else its row is deleted now
                    self._env.store.put(key, encode(pending))
            pending_acks.complete()

        retaining.waiter = done

    def _acknowledged(self, key: bytes, pending: PendingWill, pending_acks: PendingAcks) -> None:
        """All receivers have the will: forget it."""
        if self._routed.get(key) is not pending_acks or not self._is_waiting(key, pending):
            return
        del self._routed[key]
        self._over(key)
        store, mid = self._env.store, _mid(key, pending)
        store.delete(key)
        # its receivers must know the will as long as a later primary may send it again
        store.when_committed(store.open_commit, lambda: self._env.cluster.handshake_closed(mid))


def _mid(key: bytes, pending: PendingWill) -> Mid:
    return slot_origin(key[1]), pending.epoch, pending.counter


def _facts(pending: PendingWill) -> dict[str, Any]:
    will = pending.will
    client, mountpoint = pending.client_id, pending.mountpoint
    return {"client": client, "mountpoint": mountpoint, "topic": will.topic, "will": will.id or None}


def _message(pending: PendingWill, expires_at: int, origin: Origin, counter: int) -> Message:
    will = pending.will
    return Message(
        pending.mountpoint,
        will.topic,
        will.payload,
        will.qos,
        will.retain,
        will.properties,
        expires_at,
        pending.client_id,
        origin,
        counter,
    )
