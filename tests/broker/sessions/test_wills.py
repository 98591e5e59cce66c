"""Wills on the disk of a node without a lease."""

from __future__ import annotations

import pytest

from strogoff.broker.cluster_port import Standalone
from strogoff.broker.queues.message import Message, Mid
from strogoff.broker.queues.records import RecordError, WillRecord, encode
from strogoff.broker.routing.ack_context import AckContext
from strogoff.broker.routing.pending_acks import PendingAcks
from strogoff.broker.routing.remote import RemoteMembers, RemoteTarget
from strogoff.broker.routing.remote_table import RemoteMatch
from strogoff.broker.routing.waking import PER_TURN
from strogoff.broker.sessions.wills import DOUBT_MS, PendingWill
from strogoff.cluster.identity import slot_of, slot_origin
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from strogoff.storage import keys
from tests.harness.broker import BrokerHarness, PacketClient
from tests.harness.forwarding import live
from tests.harness.sleepers import messages_waiting, most_made, sleepers, slow_steps


def test_a_will_waits_for_the_lease_over_a_restart_and_fires_once() -> None:
    broker = BrokerHarness()
    reader = broker.persistent("reader", 5)
    reader.subscribe(("will", 1))
    mortal = broker.client("mortal", 5, will=packets.Will("will", b"gone", 1))
    broker.node.policy.view_state = ViewState.MINORITY
    mortal.vanish()
    assert reader.payloads() == []
    assert [key[1] for key in broker.keys(b"Z")] == [slot_of("", "mortal")]
    broker.node.policy.view_state = ViewState.MAJORITY
    assert reader.payloads() == [b"gone"]
    assert broker.keys(b"Z") == []


def test_a_waiting_will_is_sent_after_a_restart() -> None:
    broker = BrokerHarness()
    broker.persistent("reader", 5).subscribe(("will", 1))
    mortal = broker.client("mortal", 5, will=packets.Will("will", b"gone", 1))
    broker.node.policy.view_state = ViewState.MINORITY
    mortal.vanish()
    broker.restart()
    broker.pass_s(0.1)
    assert broker.persistent("reader", 5).payloads() == [b"gone"]
    assert broker.keys(b"Z") == []


def test_a_record_that_cannot_be_read_is_named() -> None:
    broker = BrokerHarness()
    broker.node.env.store.put(b"z\x07x", b"\xc1")
    with pytest.raises(RecordError, match="will at key"):
        broker.node.wills.load()


def waits(broker: BrokerHarness, text: str = "gone") -> int:
    """A will of a durable session waits for a lease on the disk; returns its slot."""
    slot = slot_of("", "mortal")
    record = WillRecord("will", text.encode(), 1, False, None, -1, 0)
    broker.node.env.store.put(keys.will_key(slot, 1), encode(PendingWill("", "mortal", record)))
    return slot


def client_is_gone(broker: BrokerHarness) -> PacketClient:
    """A client with a session vanishes while its node has no majority: its will waits. Returns a reader of the will."""
    reader = broker.client("reader")
    reader.subscribe(("will", 1))
    mortal = broker.persistent("mortal", will=packets.Will("will", b"gone", 1))
    broker.node.policy.view_state = ViewState.MINORITY
    mortal.vanish()
    return reader


class Copied(Standalone):
    """A cluster with copies of slots, of which this node is the primary. The sessions here seem to lack each message.
    Another node has subscribers, and acknowledges nothing."""

    def __init__(self) -> None:
        self.counter = 0

    def mid_of_slot(self, slot: int, has_rows: bool) -> Mid | None:
        self.counter += 1
        return slot_origin(slot), 1, self.counter

    def take_own(self, message: Message, slots: list[int]) -> list[int]:
        return slots

    def remote_matches(self, mountpoint: str, topic: str) -> RemoteMatch:
        return RemoteMatch((live("n2"),), ())

    def forward(
        self, message: Message, targets: tuple[RemoteTarget, ...], members: list[RemoteMembers], context: AckContext
    ) -> None:
        context.need().open += 1


def test_only_a_will_that_may_have_been_delivered_has_dup() -> None:
    """Nobody can have got a will to which this process has just given its mid (H-51)."""
    broker = BrokerHarness()
    broker.node.env.cluster = Copied()
    reader = broker.persistent("reader")
    reader.subscribe(("will", 1))
    broker.persistent("mortal", will=packets.Will("will", b"1", 1)).vanish()
    assert [(each.payload, each.dup) for each in reader.drain()] == [(b"1", False)]
    slot, record = slot_of("", "mortal"), WillRecord("will", b"2", 1, False, None, -1, 0)
    broker.node.env.store.put(keys.will_key(slot, 9), encode(PendingWill("", "mortal", record, 1, 2)))
    broker.node.wills.load_slot(slot)
    assert [(each.payload, each.dup) for each in reader.drain()] == [(b"2", True)]
    broker.node.wills.route_again()  # the node was out of the view
    broker.node.policy.look_again()
    assert [(each.payload, each.dup) for each in reader.drain()] == [(b"1", True), (b"2", True)]


class Confirming(Copied):
    """As `Copied`. The other node confirms a retained message when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[PendingAcks] = []

    def retain(self, mountpoint: str, topic: str, message: Message | None, context: AckContext) -> bool:
        self.waits.append(context.need().add())
        return False


@pytest.mark.parametrize("late", [False, True])
def test_a_will_replaces_no_later_retained_message(late: bool) -> None:
    """It waits for a node, and this node was out of the view, or another one is the primary."""
    broker = BrokerHarness()
    broker.node.env.cluster = cluster = Confirming()
    reader = broker.persistent("reader")
    reader.subscribe(("will", 1))
    broker.persistent("mortal", will=packets.Will("will", b"gone", 1, True)).vanish()
    broker.settle()
    (wait,) = cluster.waits
    if late:
        wait.fail(lambda again: again.complete())
    else:
        wait.complete()
    assert retained(broker) == [b"gone"]
    broker.client("other").publish("will", b"back", retain=True)
    send_again(broker)
    assert retained(broker) == [b"back"]
    (slot,) = [key[1] for key in broker.keys(b"z")]
    broker.node.wills.drop(slot)
    broker.node.wills.load_slot(slot)
    broker.settle()
    assert retained(broker) == [b"back"]
    found = [(b"gone", False), (b"back", False), (b"gone", True), (b"gone", True)]
    assert [(each.payload, each.dup) for each in reader.drain()] == found


def test_a_will_is_retained_again_until_all_nodes_have_confirmed_that() -> None:
    broker = BrokerHarness()
    broker.node.env.cluster = cluster = Confirming()
    broker.persistent("mortal", will=packets.Will("will", b"gone", 1, True)).vanish()
    broker.settle()
    broker.client("other").publish("will", b"back", retain=True)
    former = cluster.waits.pop(0)
    send_again(broker)
    assert retained(broker) == [b"gone"]
    former.complete()
    broker.client("other").publish("will", b"back", retain=True)
    send_again(broker)
    assert retained(broker) == [b"gone"]


def send_again(broker: BrokerHarness) -> None:
    """The node was out of the view."""
    broker.node.wills.route_again()
    broker.node.policy.look_again()
    broker.settle()


def retained(broker: BrokerHarness) -> list[bytes]:
    """The retained messages of the node."""
    return [each.payload for each in broker.node.retained.table("").match("#", broker.node.env.now)]


def test_a_will_that_waits_with_its_mid_has_no_dup() -> None:
    broker = BrokerHarness()
    broker.node.env.cluster = cluster = Copied()
    reader = broker.persistent("reader")
    reader.subscribe(("will", 1))
    mortal = broker.persistent("mortal", will=packets.Will("will", b"1", 1))
    broker.hold_disk()
    mortal.vanish()
    assert cluster.counter == 1
    broker.node.policy.view_state = ViewState.MINORITY
    broker.free_disk()
    assert reader.drain() == [] and len(broker.keys(b"z")) == 1
    broker.node.policy.view_state = ViewState.MAJORITY
    assert [(each.payload, each.dup) for each in reader.drain()] == [(b"1", False)]


def test_the_will_of_a_session_waits_in_its_slot_and_that_of_another_client_at_the_node() -> None:
    broker = BrokerHarness()
    durable = broker.persistent("durable", will=packets.Will("will", b"1", 1))
    clean = broker.client("clean", will=packets.Will("will", b"2", 1))
    broker.node.policy.view_state = ViewState.MINORITY
    durable.vanish()
    clean.vanish()
    assert [key[1] for key in broker.keys(b"z")] == [slot_of("", "durable")]
    assert [key[1] for key in broker.keys(b"Z")] == [slot_of("", "clean")]
    assert [key[1] for key in broker.keys(b"k")] == [slot_of("", "durable")], "the other slot may be another node's"


def test_a_will_that_waits_again_stays_on_disk_and_is_published_once() -> None:
    broker = BrokerHarness()
    reader = broker.persistent("reader")
    reader.subscribe(("will", 1))
    durable = broker.persistent("durable", will=packets.Will("will", b"1", 1))
    clean = broker.client("clean", will=packets.Will("will", b"2", 1))
    broker.node.policy.view_state = ViewState.MINORITY
    durable.vanish()
    clean.vanish()
    before = broker.keys(b"z") + broker.keys(b"Z")
    assert len(before) == 2
    has_lease = broker.node.env.cluster.has_lease
    broker.node.env.cluster.has_lease = lambda: False  # type: ignore[method-assign]
    broker.node.policy.view_state = ViewState.MAJORITY
    assert broker.keys(b"z") + broker.keys(b"Z") == before
    broker.node.env.cluster.has_lease = has_lease  # type: ignore[method-assign]
    broker.node.policy.look_again()
    assert sorted([each.payload for each in reader.drain()]) == [b"1", b"2"]
    assert broker.keys(b"z") + broker.keys(b"Z") == []


def test_a_start_publishes_no_will_of_a_slot_that_is_elsewhere() -> None:
    broker = BrokerHarness()
    broker.persistent("reader", 5).subscribe(("will", 1))
    slot = waits(broker)
    broker.client("clean", will=packets.Will("will", b"local", 1))
    broker.node.slot_sessions.mark(slot, b"leaving")
    broker.settle()
    broker.restart()
    reader = broker.persistent("reader", 5)
    assert [each.payload for each in reader.drain()] == [b"local"] and len(broker.keys(b"z")) == 1
    broker.node.slot_sessions.open(slot)
    assert [each.payload for each in reader.drain()] == [b"gone"] and broker.keys(b"z") == []


def test_a_will_of_a_slot_that_left_and_came_back_is_published_once() -> None:
    broker = BrokerHarness()
    reader = client_is_gone(broker)
    slot = slot_of("", "mortal")
    broker.node.wills.drop(slot)
    for _ in range(2):
        broker.node.wills.load_slot(slot)
    broker.settle()
    broker.node.policy.view_state = ViewState.MAJORITY
    assert [each.payload for each in reader.drain()] == [b"gone"] and broker.keys(b"z") == []


def test_a_will_of_a_slot_that_has_left_is_not_published() -> None:
    broker = BrokerHarness()
    reader = client_is_gone(broker)
    broker.node.wills.drop(slot_of("", "mortal"))
    broker.node.policy.view_state = ViewState.MAJORITY
    broker.pass_s(10)
    assert reader.drain() == [] and len(broker.keys(b"z")) == 1


def test_a_slot_opens_although_a_will_cannot_be_read() -> None:
    broker = BrokerHarness()
    broker.node.env.store.put(keys.will_key(7, 1), b"\xc1")
    broker.node.wills.load_slot(7)
    broker.settle()
    assert len(broker.keys(b"z")) == 1


@pytest.mark.parametrize("decided_in_ms", [-1, DOUBT_MS, 1000 * DOUBT_MS])
def test_a_will_in_doubt_is_decided_in_time_whatever_the_clock_does(decided_in_ms: int) -> None:
    """A node without a cluster has no gateway in its view: the will is dropped."""
    broker = BrokerHarness()
    reader = broker.client("reader")
    reader.subscribe(("will", 1))
    slot, record = slot_of("", "mortal"), WillRecord("will", b"gone", 1, False, None, -1, 0)
    pending = PendingWill("", "mortal", record, gateway="n2", decided_at=broker.node.env.now + decided_in_ms)
    broker.node.env.store.put(keys.will_key(slot, 1), encode(pending))
    broker.node.wills.load_slot(slot)
    broker.pass_s(0.9 * DOUBT_MS / 1000)
    assert len(broker.keys(b"z")) == (decided_in_ms > 0)
    broker.pass_s(0.2 * DOUBT_MS / 1000)
    assert reader.payloads() == [] and broker.keys(b"z") == []


def test_a_row_of_a_version_without_doubt_is_read() -> None:
    broker = BrokerHarness()
    reader = broker.client("reader")
    reader.subscribe(("will", 1))
    slot, record = slot_of("", "mortal"), WillRecord("will", b"gone", 1, False, None, -1, 0)
    broker.node.env.store.put(keys.will_key(slot, 1), encode(("", "mortal", record, 0, 0, 0)))
    broker.node.wills.load_slot(slot)
    broker.settle()
    assert reader.payloads() == [b"gone"]


@pytest.mark.parametrize("kept", [False, True])
def test_a_will_for_many_absent_clients_waits_until_their_sessions_are_made(kept: bool) -> None:
    """Some are made in each turn (P8). Meanwhile the will is on disk: a kill does not lose it (P5)."""
    broker = BrokerHarness()
    count = 3 * PER_TURN
    sleepers(broker, count, ("will", 1))
    mortal = broker.persistent if kept else broker.client
    mortal("mortal", 4, will=packets.Will("will", b"gone", 1)).break_off()
    assert 0 < most_made(broker) <= PER_TURN
    assert broker.keys(b"z") + broker.keys(b"Z") == []
    assert messages_waiting(broker, count) == [[b"gone"]] * count


def test_a_kill_while_a_will_waits_for_sessions_does_not_lose_it() -> None:
    broker = BrokerHarness()
    sleepers(broker, 9 * PER_TURN, ("will", 1))
    mortal = broker.client("mortal", 4, will=packets.Will("will", b"gone", 1))
    slow_steps(broker)
    mortal.vanish()
    broker.pass_s(0.25)
    assert len(broker.node.router.waking) == 1
    broker.restart()
    broker.pass_s(1)
    assert messages_waiting(broker, 2) == [[b"gone"]] * 2
