"""The target of forwards: it puts each message into the queues once, and acknowledges in order when all is safe."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.clustering.forward_codec import Head, MalformedForward, encode_forward, encode_open_mids
from strogoff.broker.clustering.forward_receiver import ForwardReceiver
from strogoff.broker.clustering.slot_gate import SlotGate
from strogoff.broker.queues.message import Message
from strogoff.broker.routing.ack_context import AckContext
from strogoff.broker.routing.remote import RemoteMembers
from strogoff.broker.routing.remote_table import RemoteMatch
from strogoff.cluster.links.ports import Refuse
from strogoff.storage import keys
from tests.harness.forwarding import ForwardingHarness


class Target(ForwardingHarness):
    """A node that receives forwards; `told` has each acknowledgement: origin, number, boot."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.elsewhere: set[int] = set()
        self.begin()

    def begin(self) -> None:
        self.told: list[tuple[str, int, int]] = []
        self.serving = True
        self.gate = SlotGate(self.node.env.store, lambda slot: None if slot in self.elsewhere else 0)
        self.gate.entered = True
        self.receiver = ForwardReceiver(
            self.node, lambda origin, seq, boot: self.told.append((origin, seq, boot)), lambda: self.serving, self.gate
        )
        self.receiver.load()

    def again(self, power: bool = False) -> None:
        """Kill the process and start a new one."""
        self.restart(power)
        self.wire()
        self.begin()

    def message(self, payload: bytes, qos: int, counter: int, boot: int, topic: str = "t") -> Message:
        return Message("", topic, payload, qos, False, None, 0, "p", self.node.env.origins.get("n9", boot), counter)

    def take(
        self,
        seq: int,
        payload: bytes = b"m",
        qos: int = 1,
        counter: int = 0,
        boot: int = 1,
        plain: bool = True,
        groups: tuple[str, ...] = (),
        stable: tuple[int, int] = (0, 0),
        topic: str = "t",
        number: int | None = None,
    ) -> None:
        message = self.message(payload, qos, counter or seq, boot, topic)
        slots = tuple(sorted({key[1] for key in self.node.env.store.keys(b"s", b"t")})) if plain else ()
        head = Head(0, plain, slots, seq if number is None else number)
        self.receiver.deliver("n9", seq, head, encode_forward(message, groups, stable))

    def acknowledged(self) -> list[int]:
        self.settle()
        told, self.told = self.told, []
        return [seq for _, seq, _ in told]


@pytest.fixture
def target() -> Target:
    made = Target()
    made.receiver.watermark("n9", 1)
    return made


def test_a_message_for_clean_sessions_is_acknowledged_at_the_end_of_the_turn(target: Target) -> None:
    reader = target.client("reader", 5)
    reader.subscribe(("t", 1))
    target.take(1, b"1")
    target.take(2, b"2")
    assert target.told == []
    assert target.acknowledged() == [2]
    assert reader.payloads() == [b"1", b"2"]


def test_a_message_for_a_durable_session_is_acknowledged_after_the_commit(target: Target) -> None:
    reader = target.persistent("reader", 5)
    reader.subscribe(("t", 1))
    target.hold_disk()
    target.take(1, b"1")
    target.take(2, b"2", topic="nobody")
    assert target.acknowledged() == []
    target.free_disk()
    assert target.acknowledged()[-1] == 2
    assert reader.payloads() == [b"1", b"2"][:1]


def test_acknowledgements_never_overtake(target: Target) -> None:
    """One waits for the disk, one for another node, one for nothing: all are acknowledged in the order of the lane."""
    target.persistent("reader", 5).subscribe(("t", 1))
    target.matches["g"] = _group("n3")
    target.hold_disk()
    target.take(1, b"disk")
    target.take(2, b"relay", topic="g", plain=False, groups=("$share/x/g",))
    target.take(3, b"nothing", topic="nobody")
    assert target.acknowledged() == []
    target.free_disk()
    assert target.acknowledged() == [1]
    target.acked("n3", 1)
    assert target.acknowledged() == [3]


def test_only_an_unfinished_relay_is_taken_again_after_a_restart(target: Target) -> None:
    reader = target.persistent("reader", 5)
    reader.subscribe(("t", 1))
    target.matches["g"] = _group("n3")
    target.take(1, b"before")
    target.take(2, b"relay", topic="g", plain=False, groups=("$share/x/g",))
    target.take(3, b"behind")
    assert target.acknowledged() == [1]
    assert [each.payload for each in reader.drain()] == [b"before", b"behind"]
    target.again()
    assert target.receiver.watermark("n9", 1) == 1
    target.take(2, b"relay", topic="g", plain=False, groups=("$share/x/g",))
    target.take(3, b"behind")
    assert target.acknowledged() == []
    target.acked("n3", 1)
    assert target.acknowledged() == [3]
    assert target.persistent("reader", 5).payloads() == []
    target.again()
    assert target.receiver.watermark("n9", 1) == 3


def test_a_repeated_copy_waits_for_the_pending_relay(target: Target) -> None:
    """P1: the origin was restarted, and gets its acknowledgement only when the message is safe."""
    target.matches["g"] = _group("n3")
    target.take(1, b"relay", qos=2, counter=7, topic="g", plain=False, groups=("$share/x/g",))
    assert target.acknowledged() == []
    target.receiver.watermark("n9", 2)
    target.take(1, b"relay", qos=2, counter=7, topic="g", plain=False, groups=("$share/x/g",))
    assert target.acknowledged() == []
    assert len(target.links.payloads("n3")) == 1
    assert target.keys(b"w") == [keys.owed_key("n9", 2, 1)]
    target.acked("n3", 1)
    assert target.acknowledged() == [1]
    assert target.keys(b"w") == []


def test_a_pending_relay_is_repeated_after_a_restart_despite_later_messages(target: Target) -> None:
    """P1: a session here got the same message for another group, and its disk knows that."""
    target.persistent("reader", 5).subscribe(("$share/y/g", 2))
    target.matches["g"] = _group("n3")
    target.take(1, b"m", qos=2, counter=7, topic="g", plain=False, groups=("$share/x/g",))
    target.take(2, b"m", qos=2, counter=7, topic="g", plain=False, groups=("$share/y/g",))
    assert target.acknowledged() == []
    target.again()
    assert target.receiver.watermark("n9", 1) == 0
    target.take(1, b"m", qos=2, counter=7, topic="g", plain=False, groups=("$share/x/g",))
    target.take(2, b"m", qos=2, counter=7, topic="g", plain=False, groups=("$share/y/g",))
    assert len(target.links.payloads("n3")) == 1
    assert target.acknowledged() == []
    target.acked("n3", 1)
    assert target.acknowledged() == [2]
    assert len(target.persistent("reader", 5).drain()) == 1


@pytest.mark.parametrize("skipped", [True, False])
def test_a_voided_relay_is_no_longer_pending(target: Target, skipped: bool) -> None:
    """The origin was out of the view meanwhile: the message arrives as void, or the lane continues behind it."""
    target.matches["g"] = _group("n3")
    target.take(1, b"relay", topic="g", plain=False, groups=("$share/x/g",))
    target.settle()
    target.again()
    assert target.receiver.watermark("n9", 1) == 0
    if skipped:
        target.receiver.skip("n9", 1)
        target.receiver.skip("n9", 2)
    else:
        target.take(2)
    assert target.acknowledged() == [2]
    assert target.receiver.watermark("n9", 1) == 2
    assert target.keys(b"w") in ([], [keys.watermark_key("n9", 1)])


def _group(node: str) -> RemoteMatch:
    return RemoteMatch((), (RemoteMembers("x", "g", node, 1, 0),))


def test_a_watermark_survives_a_restart_and_is_valid_for_one_boot(target: Target) -> None:
    target.persistent("reader", 5).subscribe(("t", 1))
    for seq in (1, 2, 3):
        target.take(seq)
    target.settle()
    target.again(power=True)
    assert target.receiver.watermark("n9", 1) == 3
    assert target.receiver.watermark("n9", 2) == 0
    target.settle()
    assert target.keys(b"w") == []  # the watermark of the earlier boot
    target.take(1, boot=2)
    target.settle()
    target.again()
    assert target.receiver.watermark("n9", 2) == 1


def test_the_watermark_excludes_uncommitted_messages(target: Target) -> None:
    reader = target.persistent("reader", 5)
    reader.subscribe(("t", 1))
    target.take(1, b"1")
    target.settle()
    target.hold_disk()
    target.take(2, b"2")
    target.settle()
    target.again()
    watermark = target.receiver.watermark("n9", 1)
    if watermark == 1:  # the write under way did not land
        target.take(2, b"2")
    assert target.persistent("reader", 5).payloads() == [b"1", b"2"]


@pytest.mark.parametrize("durable", [False, True])
def test_a_qos_2_message_on_two_lanes_is_taken_once(target: Target, durable: bool) -> None:
    """H-12 (a): the origin was restarted in the middle of the handshake."""
    reader = target.persistent("reader", 5) if durable else target.client("reader", 5)
    reader.subscribe(("t", 2))
    target.take(1, b"1", qos=2, counter=5)
    assert target.acknowledged() == [1]
    target.receiver.watermark("n9", 2)
    target.take(1, b"1", qos=2, counter=5)
    assert target.acknowledged() == [1]
    assert [each.payload for each in reader.drain()] == [b"1"]


def test_the_second_copy_waits_for_the_same_commit(target: Target) -> None:
    target.persistent("reader", 5).subscribe(("t", 2))
    target.hold_disk()
    target.take(1, b"1", qos=2, counter=5)
    target.receiver.watermark("n9", 2)
    target.take(1, b"1", qos=2, counter=5)
    assert target.acknowledged() == []
    target.free_disk()
    assert target.acknowledged() == [1]


def test_the_mid_is_known_after_a_restart_of_the_target(target: Target) -> None:
    reader = target.persistent("reader", 5)
    reader.subscribe(("t", 2))
    target.take(1, b"1", qos=2, counter=5)
    target.settle()
    target.again(power=True)
    target.receiver.watermark("n9", 2)
    target.take(1, b"1", qos=2, counter=5)
    target.settle()
    assert [each.payload for each in target.persistent("reader", 5).drain()] == [b"1"]


def test_a_mid_is_forgotten_when_its_origin_has_finished_it(target: Target) -> None:
    target.persistent("reader", 5).subscribe(("t", 2))
    for seq in (1, 2, 3):
        target.take(seq, qos=2, counter=seq)
    target.settle()
    assert len(target.keys(b"a")) == 3
    target.take(4, qos=1, counter=9, stable=(1, 3))
    assert len(target.keys(b"a")) == 1
    target.take(5, qos=1, counter=10, stable=(2, 1))
    assert target.keys(b"a") == []


def test_a_group_assigned_later_gets_a_message_that_other_sessions_here_have(target: Target) -> None:
    """The first member of the group was on a node that is gone; the mid alone does not tell which groups got the
    message.
    """
    plain, member = target.client("plain", 5), target.client("member", 5)
    plain.subscribe(("t", 2))
    member.subscribe(("$share/g/t", 2))
    target.take(1, b"1", qos=2, counter=5)
    target.take(2, b"1", qos=2, counter=5, plain=False, groups=("$share/g/t",))
    target.take(3, b"1", qos=2, counter=5, groups=("$share/g/t",))
    assert target.acknowledged() == [3]
    assert [each.payload for each in plain.drain()] == [b"1"]
    assert [each.payload for each in member.drain()] == [b"1"]


def test_sessions_that_got_a_message_are_known_after_a_restart(target: Target) -> None:
    target.persistent("plain", 5).subscribe(("t", 2))
    target.persistent("member", 5).subscribe(("$share/g/t", 2))
    target.take(1, b"1", qos=2, counter=5)
    target.settle()
    target.again()
    target.receiver.watermark("n9", 2)
    target.take(1, b"1", qos=2, counter=5, groups=("$share/g/t",))
    target.settle()
    assert [each.payload for each in target.persistent("plain", 5).drain()] == [b"1"]
    assert [each.payload for each in target.persistent("member", 5).drain()] == [b"1"]


def test_void_items_move_the_lane_on(target: Target) -> None:
    reader = target.client("reader", 5)
    reader.subscribe(("t", 1))
    target.receiver.skip("n9", 1)
    target.take(2, b"2")
    assert target.acknowledged() == [2]
    assert target.receiver.watermark("n9", 1) == 2
    assert reader.payloads() == [b"2"]


def test_a_departed_boot_is_forgotten_and_a_later_boot_is_kept(target: Target) -> None:
    """The log is replayed after a restart: an earlier departure of the node does not concern its present boot."""
    target.receiver.watermark("n9", 4)
    target.persistent("reader", 5).subscribe(("t", 2))
    target.take(1, qos=2, boot=4)
    target.settle()
    target.again()
    target.receiver.forget("n9", before=4)
    target.settle()
    assert target.receiver.watermark("n9", 4) == 1
    target.take(2, qos=2, boot=4, counter=1)
    assert target.acknowledged() == [2]
    target.receiver.forget("n9", before=5)
    target.settle()
    assert target.keys(b"w") + target.keys(b"a") == []
    assert target.receiver.watermark("n9", 5) == 0


def test_an_acknowledgement_for_an_earlier_boot_is_not_sent_to_the_next(target: Target) -> None:
    target.persistent("reader", 5).subscribe(("t", 1))
    target.hold_disk()
    target.take(1)
    target.settle()
    target.receiver.watermark("n9", 2)
    target.free_disk()
    assert target.told == []


def test_a_message_for_clean_sessions_does_not_wait_for_a_full_disk(target: Target) -> None:
    """It is acknowledged early after a quarter of a second, then in the same turn, until the disk has written the
    earlier items.
    """
    early: list[tuple[str, list[int], int]] = []
    target.receiver.ack_early = lambda origin, seqs, boot: early.append((origin, seqs, boot))
    target.persistent("lasting", 5).subscribe(("kept", 1))
    target.client("clean", 5).subscribe(("t", 1))
    target.disk.full = True
    target.take(1, topic="t")
    assert target.acknowledged() == [1]
    target.take(2, topic="kept")
    target.take(3, topic="t")
    target.take(4, topic="kept")
    target.take(5, topic="t")
    target.pass_s(0.2)
    assert early == [] and target.acknowledged() == []
    target.pass_s(0.2)
    assert early == [("n9", [3, 5], 1)]
    target.take(6, topic="t")
    assert target.acknowledged() == [] and early[1:] == [("n9", [6], 1)]
    target.disk.full = False
    target.pass_s(5.0)
    assert target.acknowledged()[-1] == 6
    target.take(7, topic="t")
    target.pass_s(1.0)
    assert target.acknowledged()[-1] == 7 and len(early) == 2


def test_what_is_finished_behind_a_relay_is_acknowledged_early(target: Target) -> None:
    """The node of the relay may be absent for days."""
    early: list[list[int]] = []
    target.receiver.ack_early = lambda origin, seqs, boot: early.append(seqs)
    for number in range(3, 6):
        target.matches[f"n{number}"] = _group(f"n{number}")
    reader = target.persistent("reader", 5)
    reader.subscribe(("t", 1), ("n5", 1))
    target.take(1, topic="n3", plain=False, groups=("$share/x/g",))
    target.hold_disk()
    target.take(2, b"2")
    target.take(3, topic="n4", plain=False, groups=("$share/x/g",))
    target.take(4, b"4", topic="n5", groups=("$share/x/g",))
    target.take(5, b"5", topic="n5", groups=("$share/x/g",))
    target.acked("n5", 1)
    target.pass_s(1.0)
    assert early == []
    target.free_disk()
    target.pass_s(1.0)
    assert early == [[2, 4]]
    target.acked("n4", 1)
    target.acked("n5", 2)
    assert target.acknowledged() == [] and early[1:] == [[3], [5]]
    target.again()
    assert target.receiver.watermark("n9", 1) == 0
    assert [each.payload for each in target.persistent("reader", 5).drain()] == [b"2", b"4", b"5"]


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x90", b"text"])
def test_random_bytes_are_refused_without_effect(target: Target, payload: bytes) -> None:
    with pytest.raises(MalformedForward):
        target.receiver.deliver("n9", 1, Head(0, True), payload)
    assert target.receiver.watermark("n9", 1) == 0
    assert target.acknowledged() == []


def test_keys_on_disk_follow_the_layout(target: Target) -> None:
    target.persistent("reader", 5).subscribe(("t", 2))
    target.take(1, qos=2, counter=5)
    assert target.keys(b"w") == [keys.watermark_key("n9", 1)]
    assert target.keys(b"a") == [keys.seen_in_slot_key(target.keys(b"s")[0][1], "n9", 1, 5)]


def test_a_group_without_local_members_is_refused_before_this_node_serves(target: Target) -> None:
    target.serving = False
    with pytest.raises(Refuse, match="no member of \\$share/g/t"):
        target.take(1, groups=("$share/g/t",))
    reader = target.client("reader", 5)
    reader.subscribe(("$share/g/t", 1))
    target.take(1, plain=False, groups=("$share/g/t",))
    assert target.acknowledged() == [1] and reader.payloads() == [b"m"]


def _remembered(target: Target) -> list[int]:
    """Returns the counters of the QoS 2 mids of n9 on disk."""
    return [keys.parse_seen_in_slot_key(key)[3] for key in target.keys(b"a")]


@pytest.mark.parametrize("power", [None, False, True])
def test_finished_mids_are_forgotten_although_an_older_handshake_is_open(power: bool | None) -> None:
    """Also mids that a restart or a loss of power brought back. The open handshake is remembered until it is over."""
    target = Target()
    target.receiver.watermark("n9", 1)
    reader = target.client("reader", 5, clean=False, expiry_s=1000)
    reader.subscribe(("t", 2))
    for seq in range(1, 101):
        target.take(seq, b"%d" % seq, 2, seq, stable=(1, 7))
    assert target.acknowledged()[-1] == 100 and len(_remembered(target)) == 94
    if power is not None:
        target.again(power)
        assert target.receiver.watermark("n9", 1) == 100
    for seq, payload in enumerate(encode_open_mids((1, 98), [(1, 7), (1, 50)]), 101):
        target.receiver.deliver("n9", seq, Head(0, False), payload)
    assert target.acknowledged() == [101]
    assert _remembered(target) == [7, 50, 98, 99, 100]
    if power is not None:
        target.commit_late_writes()
        target.again(power)
        assert _remembered(target) == [7, 50, 98, 99, 100]
    again = target.client("reader", 5, clean=False, expiry_s=1000)
    before = len(again.drain())
    target.receiver.watermark("n9", 2)
    target.take(1, b"7", 2, 7, boot=1, stable=(1, 7))
    assert before == 100 and again.drain() == []


def test_slots_that_are_elsewhere_get_nothing(target: Target) -> None:
    """Their present node gets a copy for them."""
    reader = target.persistent("reader", 5)
    reader.subscribe(("t", 1))
    (slot,) = {key[1] for key in target.node.env.store.keys(b"s", b"t")}
    target.elsewhere = {slot}
    target.take(1, b"1")
    assert reader.payloads() == [] and target.acknowledged() == [1]
    target.elsewhere = set()
    target.take(2, b"2")
    assert reader.payloads() == [b"2"]


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("power", [None, False, True])
def test_a_slot_takes_a_routing_number_once(target: Target, qos: int, power: bool | None) -> None:
    """A copy for the slot that the former node of the slot has taken, too, changes nothing."""
    reader = target.persistent("reader", 5)
    reader.subscribe(("t", 1))
    target.take(1, b"1", qos, number=7)
    assert target.acknowledged() == [1] and reader.payloads() == [b"1"]
    if power is not None:
        target.again(power)
        reader = target.client("reader", 5, clean=False, expiry_s=1000)
        reader.drain()
        target.receiver.watermark("n9", 1)
    target.take(2, b"1", qos, counter=99, number=7)
    target.take(3, b"0", qos, counter=98, number=6)
    assert target.acknowledged() == [3] and reader.payloads() == []
    target.take(4, b"2", qos, number=8)
    assert reader.payloads() == [b"2"]


def test_a_copy_for_slots_waits_for_the_table_of_its_origin(target: Target) -> None:
    target.persistent("reader", 5).subscribe(("t", 1))
    head = Head(0, False, (1,), 1, 5)
    with pytest.raises(Refuse, match="slot table 5"):
        target.receiver.deliver("n9", 1, head, encode_forward(target.message(b"m", 1, 1, 1), (), (0, 0)))
    assert target.receiver.watermark("n9", 1) == 0


def test_the_table_of_an_acknowledgement_outlives_the_process(target: Target) -> None:
    target.persistent("reader", 5).subscribe(("t", 1))
    target.gate.table = 12
    target.take(1)
    assert target.acknowledged() == [1]
    target.again()
    assert target.gate.table == 0 and target.gate.applied == 12


def test_a_qos_2_message_of_a_slot_is_remembered_with_the_slot(target: Target) -> None:
    """So the node to which the slot moves knows it, too."""
    reader = target.persistent("reader", 5)
    reader.subscribe(("t", 2))
    target.take(1, b"1", 2, counter=5)
    (slot,) = {key[1] for key in target.node.env.store.keys(b"s", b"t")}
    assert target.keys(b"a") == [keys.seen_in_slot_key(slot, "n9", 1, 5)] and target.keys(b"x") == []
    target.take(2, b"1", 2, counter=5)
    assert len(reader.drain()) == 1
    target.receiver.settle("n9", (1, 6))
    assert target.keys(b"a") == []


def test_both_receivers_know_the_mids_of_each_other(target: Target) -> None:
    """A QoS 2 message may come again on the other lane, also after a start."""
    target.persistent("reader", 5).subscribe(("t", 2))
    target.take(1, b"1", 2, counter=5)
    assert target.acknowledged() == [1]
    relayed = ForwardReceiver(target.node, target.receiver._acknowledge, lambda: True, target.gate, target.receiver)
    target.receiver.load()
    target.take(2, b"2", 2, counter=6)
    for counter in (5, 6):
        assert relayed._known(target.message(b"", 2, counter, 1)) is not None


@pytest.mark.parametrize("power", [None, False])
def test_the_part_of_a_group_is_forgotten_if_another_node_takes_over_the_slot_of_its_member(power: bool | None) -> None:
    """The other node may lack what the member got last; a slot that moves takes it along (H-46)."""
    target = Target()
    target.receiver.watermark("n9", 1)
    target.persistent("reader", 5).subscribe(("$share/x/g", 2))
    target.client("other", 5).subscribe(("g", 2))

    def parts() -> list[bytes]:
        return [value for _, value in target.node.env.store.scan(b"x", b"y")]

    def take(number: int) -> None:
        target.take(number, b"m", qos=2, counter=7, topic="g", groups=("$share/x/g",))
        target.pass_s(1.0)

    take(1)
    slot = target.keys(b"s")[0][1]
    assert parts() == [f"\0{slot} $share/x/g".encode()]
    if power is not None:
        target.again(power)
    target.receiver.lose_slot(slot + 1 & 255)
    target.receiver.drop_slot(slot)
    take(2)
    assert len(target.keys(b"q")) == 1
    target.receiver.lose_slot(slot)
    assert parts() == [b""]
    take(3)
    assert len(target.keys(b"q")) == 2 and parts() == [f"\0{slot} $share/x/g".encode()]


@pytest.mark.parametrize("lost", [False, True])
def test_the_part_of_a_group_from_this_node_is_on_disk_when_the_publishers_slot_is_lost(lost: bool) -> None:
    """Before that it costs no row. If the slot of the member is lost as well, its part counts as not taken (H-47)."""
    target = Target()
    target.persistent("reader", 5).subscribe(("$share/x/g", 2))
    target.client("other", 5).subscribe(("$share/y/g", 2))
    slot = target.keys(b"s")[0][1]
    home = slot + 1 & 255
    message = Message("", "g", b"m", 2, False, None, 0, "p", target.node.env.origins.get(f"#{home}", 1), 7)
    target.node.router.route(message, target.node.router.plans(""), AckContext())
    texts = ["$share/x/g", "$share/y/g"]
    for text in texts:
        target.receiver.given(message, text, False)
        assert target.receiver.took(message, text)
    target.receiver.lose_slot(slot + 2 & 255)
    assert target.keys(b"x") == []
    for each in (slot, home) if lost else (home,):
        target.receiver.lose_slot(each)
    rows = [value.decode().split("\0") for _, value in target.node.env.store.scan(b"x", b"y")]
    assert rows == ([] if lost else [[f"{slot} $share/x/g", "$share/y/g"]])
    assert [target.receiver.took(message, text) for text in texts] == [not lost, True]
    if not lost:
        target.receiver.lose_slot(slot)
        assert [target.receiver.took(message, text) for text in texts] == [False, True]
    target.receiver.settle_one(*message.mid[:1], message.mid[1:])
    assert target.keys(b"x") == []


@pytest.mark.parametrize("closed", [False, True])
def test_a_member_of_an_earlier_process_has_the_message_unless_its_slot_was_leaving(closed: bool) -> None:
    target = Target()
    message = Message("", "g", b"m", 2, False, None, 0, "p", target.node.env.origins.get("#3", 1), 7)
    if closed:
        target.node.sessions.elsewhere.add(4)
    target.receiver.members_had(message.mid, {})
    assert not target.receiver._seen
    target.receiver.members_had(message.mid, {"$share/x/g": 4})
    assert target.receiver.took(message, "$share/x/g") is not closed
    target.receiver.lose_slot(4)
    assert not target.receiver.took(message, "$share/x/g") and target.keys(b"x") == []
