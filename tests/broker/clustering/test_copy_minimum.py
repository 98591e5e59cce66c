"""`queue_min_in_sync = 2`: a slot with one copy accepts nothing new, and what was accepted before goes on (H-13)."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.clustering import slot_replicator
from strogoff.broker.clustering.copy_minimum import copies
from strogoff.cluster.identity import slot_of
from strogoff.cluster.slots.table import Holder, SlotRow
from strogoff.mqtt import packets
from strogoff.netsplit.policy import REFUSALS, ViewState
from tests.broker.clustering.copied_cluster import CopiedCluster, subscriber
from tests.harness.broker import PacketClient, publish
from tests.harness.thinning import thinned

CODES = {(each.packet, 3): each.v3 for each in REFUSALS} | {(each.packet, 5): each.v5 for each in REFUSALS}
"""Packet and version -> the code in the answer to a refused one, as with the split policy `off`."""
ORIGINS = ["here", "elsewhere"]
"""Where the client is connected whose operation is refused: at the primary of the slot, or at another node."""


class FewCopies(CopiedCluster):
    """Three nodes. After `lose` the slot of client `sub` has one copy until `copy_again`; its primary is n1."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self._monkeypatch = monkeypatch

    def ask_for_two(self) -> None:
        """An operator sets `queue_min_in_sync = 2`."""
        self.all_copied()
        for harness in self.nodes:
            harness.node.options.queue_min_in_sync = 2

    def lose(self) -> None:
        """Kill the follower, and make no other copy. Each node knows that."""
        self.ask_for_two()
        self._monkeypatch.setattr(slot_replicator, "FILLS", 0)
        self.lost = self.lose_follower()
        self.other = 5 - self.lost
        self.until(lambda: all(self.slot in self[number].node.policy.few_copies for number in (1, self.other)))

    def back(self) -> None:
        """Start the lost node again: each node sees the whole cluster, and the slots still have one copy."""
        self[self.lost].start()
        self.whole()
        assert self.slot in self[1].node.policy.few_copies and self[1].node.policy.view_state is ViewState.WHOLE

    def copy_again(self) -> None:
        """Let the slots have second copies, and time pass until each node knows that."""
        self._monkeypatch.undo()
        self.until(lambda: not any(self[number].node.policy.few_copies for number in (1, self.other)), 60)

    def at(self, origin: str) -> int:
        """The number of a node: the primary of the slot, or another one."""
        return 1 if origin == "here" else self.other

    def id_of(self, lost: bool) -> str:
        """Returns a client id whose slot has one copy now, or two."""
        few = self[1].node.policy.few_copies
        return next(name for name in (f"c{n}" for n in range(1000)) if (slot_of("", name) in few) is lost)

    def denied(self) -> list[tuple[str, str]]:
        """Returns the operation and the topic of each operation that some node refused for the lack of copies."""
        rows = [row for harness in self.nodes for row in harness.host.events if row["type"] == "policy.deny"]
        return [(row["operation"], row["topic"]) for row in rows if row["reason"] == "copies"]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FewCopies:
    return FewCopies(monkeypatch)


def pubacks(client: PacketClient) -> list[tuple[int, int]]:
    return [(each.packet_id, each.reason) for each in client.take()]


def test_the_copies_that_count_are_those_in_the_view() -> None:
    here, there, away = Holder("n1", "d1", 3), Holder("n2", "d2", 4), Holder("n3", "d3", 0)
    assert copies(SlotRow(0, 1, 1, here, (here, there))) == 2
    assert copies(SlotRow(0, 1, 1, here, (here,))) == 1
    assert copies(SlotRow(0, 1, 1, None, (away, here))) == 1


# -- PUBLISH


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("qos", [1, 2])
def test_a_publish_of_mqtt_5_for_a_slot_with_one_copy_is_refused(cluster: FewCopies, qos: int, origin: str) -> None:
    reader = subscriber(cluster, qos=2)
    cluster.lose()
    writer = cluster[cluster.at(origin)].client("writer", clean=True)
    (answer,) = writer.publish("t", b"1", qos, 7)
    assert answer.reason == CODES[f"PUBLISH QoS {qos}", 5]
    assert cluster.denied() == [("publish", "t")]
    assert cluster[cluster.at(origin)].node.env.counters.publish_error == [0, 1]
    cluster.copy_again()
    assert writer.publish("t", b"2", qos, 7)[0].reason == 0
    assert [each.payload for each in reader.drain()] == [b"2"]


@pytest.mark.parametrize("origin", ORIGINS)
def test_publishes_of_mqtt_3_wait_in_order_until_the_slot_has_two_copies(cluster: FewCopies, origin: str) -> None:
    """Those behind a packet that waits wait as well, although their own slot has two copies."""
    reader = subscriber(cluster)
    cluster.all_copied()
    cluster.lose()
    clean = cluster[1].client("clean")
    clean.subscribe(("u", 1))
    writer = cluster[cluster.at(origin)].client("writer", 4)
    writer.send(publish("t", b"1", 1, 1), publish("u", b"2", 1, 2), publish("t", b"3", 2, 3), publish("u", b"4", 1, 4))
    cluster.pass_s(1.0)
    assert writer.take() == []
    assert cluster[cluster.at(origin)].node.env.counters.publish_parked == 4
    cluster.copy_again()
    cluster.until(lambda: len(writer.received) == 4)
    answers = writer.take()
    assert [each.packet_id for each in answers if isinstance(each, packets.Puback)] == [1, 2, 4]
    assert [each.packet_id for each in answers if isinstance(each, packets.Pubrec)] == [3]
    assert [each.payload for each in reader.drain()] == [b"1", b"3"]
    assert [each.payload for each in clean.drain()] == [b"2", b"4"]


def test_a_deferred_publish_stays_first_when_only_later_ones_could_be_accepted(cluster: FewCopies) -> None:
    """The view has changed, so the node looks at what waits: the first one still lacks its copies."""
    reader = subscriber(cluster)
    cluster.lose()
    node = cluster[1].node
    clean = cluster[1].client("clean")
    clean.subscribe(("u", 1))
    writer = cluster[1].client("writer", 4)
    writer.send(publish("u", b"0", 1, 1), publish("t", b"1", 1, 2), publish("u", b"2", 1, 3))
    cluster.pass_s(0.5)
    assert [packet_id for packet_id, _ in pubacks(writer)] == [1]
    node.policy.look_again()
    cluster.pass_s(0.5)
    assert writer.take() == [] and clean.payloads() == [b"0"]
    assert node.env.counters.publish_unparked == 0
    cluster.copy_again()
    cluster.until(lambda: len(writer.received) == 2)
    assert [each.payload for each in reader.drain()] == [b"1"]


def test_a_publish_that_no_slot_with_one_copy_gets_is_accepted(cluster: FewCopies) -> None:
    subscriber(cluster)
    cluster.lose()
    safe = cluster[1].client(cluster.id_of(False), clean=False, expiry_s=600)
    assert safe.subscribe(("safe", 1))[0].reasons == [1]
    clean = cluster[1].client("clean")
    clean.subscribe(("clean", 1))
    writer = cluster[cluster.other].client("writer", 4)
    for number, topic in enumerate(("safe", "clean", "nobody"), 1):
        writer.send(publish(topic, b"m", 1, number))
        cluster.until(lambda: bool(writer.received))
        assert pubacks(writer) == [(number, 0)]
    writer.send(publish("kept", b"m", 1, 9, retain=True))
    cluster.until(lambda: bool(writer.received))
    assert pubacks(writer) == [(9, 0)]
    assert cluster.denied() == []


@pytest.mark.parametrize("version", [4, 5])
def test_a_publish_of_qos_0_is_delivered(cluster: FewCopies, version: int) -> None:
    reader = subscriber(cluster)
    cluster.lose()
    cluster[cluster.other].client("writer", version).publish("t", b"m")
    cluster.until(lambda: bool(reader.received))
    assert reader.payloads() == [b"m"]


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("version", thinned([4, 5], 2))
@pytest.mark.parametrize("qos", [1, 2])
def test_a_publish_with_dup_may_have_been_accepted_and_is(
    cluster: FewCopies, qos: int, version: int, whole: bool, origin: str
) -> None:
    reader = subscriber(cluster, qos=2)
    cluster.lose()
    if whole:
        cluster.back()
    writer = cluster[cluster.at(origin)].client("writer", version)
    writer.send(publish("t", b"m", qos, 7, dup=True))
    cluster.until(lambda: bool(writer.received))
    assert pubacks(writer) == [(7, 0)]
    assert [each.payload for each in reader.drain()] == [b"m"]


def test_a_publish_with_dup_does_not_overtake_those_that_wait(cluster: FewCopies) -> None:
    reader = subscriber(cluster)
    cluster.lose()
    writer = cluster[1].client("writer", 4)
    writer.send(publish("t", b"1", 1, 1), publish("t", b"2", 1, 2, dup=True))
    cluster.pass_s(0.5)
    assert writer.take() == []
    cluster.copy_again()
    assert [each.payload for each in reader.drain()] == [b"1", b"2"]


def test_an_open_handshake_goes_on(cluster: FewCopies) -> None:
    """PUBREC, PUBREL and the repetition of the PUBLISH of a session that continues."""
    reader = subscriber(cluster, qos=2)
    name = "writer"
    writer = cluster[1].client(name, clean=False, expiry_s=600)
    (pubrec,) = _answers(cluster, writer, publish("t", b"m", 2, 7))
    assert pubrec.reason == 0
    cluster.lose()
    writer.vanish()
    writer = cluster[cluster.other].client(name, clean=False, expiry_s=600)
    (pubrec,) = _answers(cluster, writer, publish("t", b"m", 2, 7, dup=True))
    assert (type(pubrec), pubrec.reason) == (packets.Pubrec, 0)
    (pubcomp,) = _answers(cluster, writer, packets.Pubrel(7))
    assert pubcomp.reason == 0
    assert [each.payload for each in reader.drain()] == [b"m"]
    assert cluster.denied() == []


def test_a_packet_id_is_kept_in_the_slot_of_its_publisher(cluster: FewCopies) -> None:
    """QoS 2 of a durable publisher, although nobody subscribes. QoS 1 keeps nothing of the publisher."""
    writer = cluster[1].client("sub", clean=False, expiry_s=600)
    cluster.lose()
    assert writer.publish("t", b"m", 1, 1)[0].reason == 0x10
    assert writer.publish("t", b"m", 2, 2)[0].reason == CODES["PUBLISH QoS 2", 5]
    clean = cluster[1].client(cluster.id_of(True))
    assert clean.publish("t", b"m", 2, 1)[0].reason == 0x10


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_member_of_a_shared_subscription_in_a_slot_with_one_copy(cluster: FewCopies, origin: str) -> None:
    subscriber(cluster, text="$share/g/t")
    cluster.lose()
    writer = cluster[cluster.at(origin)].client("writer")
    assert writer.publish("t", b"m", 1)[0].reason == CODES["PUBLISH QoS 1", 5]
    cluster.copy_again()
    assert writer.publish("t", b"m", 1)[0].reason == 0


def test_what_was_accepted_before_is_acknowledged_with_one_copy(cluster: FewCopies) -> None:
    reader = subscriber(cluster)
    _, follower = cluster.copied()
    writer = cluster[5 - follower].client("writer")
    cluster.ask_for_two()
    cluster[follower].disks[0].stall_until = cluster.loop.now_s + 60
    assert writer.publish("t", b"m", 1) == []
    cluster.lose()
    cluster.until(lambda: bool(writer.received))
    assert pubacks(writer) == [(1, 0)]
    assert [each.payload for each in reader.drain()] == [b"m"]


# -- SUBSCRIBE, UNSUBSCRIBE


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("gateway", ORIGINS)
def test_a_durable_session_with_one_copy_gets_no_new_subscription(
    cluster: FewCopies, version: int, gateway: str
) -> None:
    cluster[1].client("sub", version, clean=False, **({"expiry_s": 600} if version == 5 else {})).leave()
    cluster.lose()
    number = cluster.at(gateway)
    session = cluster[number].client("sub", version, clean=False, **({"expiry_s": 600} if version == 5 else {}))
    (suback,) = _answers(cluster, session, packets.Subscribe(1, _options("a", "b"), None))
    assert suback.reasons == [CODES["SUBSCRIBE", 5 if version == 5 else 3]] * 2
    assert cluster.denied() == [("subscribe", "")]
    assert cluster[1].node.router.subscriptions == 0
    cluster.copy_again()
    assert _answers(cluster, session, packets.Subscribe(2, _options("a"), None))[0].reasons == [1]


@pytest.mark.parametrize("version", [4, 5])
def test_a_durable_session_with_one_copy_keeps_its_subscription(cluster: FewCopies, version: int) -> None:
    session = cluster[1].client("sub", version, clean=False, **({"expiry_s": 600} if version == 5 else {}))
    session.subscribe(("t", 1))
    cluster.lose()
    answers = session.unsubscribe("t", packet_id=2)
    assert [each.reasons for each in answers] == ([[CODES["UNSUBSCRIBE", 5]]] if version == 5 else [])
    assert cluster[1].node.router.subscriptions == 1
    assert cluster[1].node.env.counters.unsubscribe_error == [int(version != 5), int(version == 5)]


def test_a_clean_session_subscribes_and_unsubscribes(cluster: FewCopies) -> None:
    cluster.lose()
    session = cluster[1].client(cluster.id_of(True))
    assert session.subscribe(("t", 1))[0].reasons == [1]
    assert session.unsubscribe("t", packet_id=2)[0].reasons == [0]
    assert cluster.denied() == []


# -- CONNECT


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("gateway", ORIGINS)
def test_no_durable_session_begins_in_a_slot_with_one_copy(cluster: FewCopies, version: int, gateway: str) -> None:
    cluster.lose()
    wanted: dict[str, Any] = {"expiry_s": 600} if version == 5 else {}
    harness = cluster[cluster.at(gateway)]
    client, connack = harness.connect("sub", version, clean=False, **wanted)
    assert connack.reason == CODES["CONNECT", 5 if version == 5 else 3]
    cluster.pass_s(0.1)
    assert client.closed
    assert cluster.denied() == [("register", "")]
    assert cluster[1].node.env.counters.connect_error == 1 and cluster[1].node.sessions.durable == 0
    cluster.copy_again()
    assert harness.connect("sub", version, clean=False, **wanted)[1].reason == 0


@pytest.mark.parametrize("gateway", ORIGINS)
def test_a_session_that_exists_continues_and_its_clean_start_is_refused(cluster: FewCopies, gateway: str) -> None:
    subscriber(cluster).leave()
    cluster.lose()
    harness = cluster[cluster.at(gateway)]
    _, connack = harness.connect("sub", clean=True, expiry_s=600)
    assert connack.reason == CODES["CONNECT", 5]
    _, connack = harness.connect("sub", clean=False, expiry_s=600)
    assert (connack.reason, connack.session_present) == (0, True)
    assert cluster[1].node.router.subscriptions == 1


def test_a_client_without_durable_state_does_not_become_durable(cluster: FewCopies) -> None:
    """It takes over its own connection, and asks for a session this time."""
    cluster.lose()
    name = cluster.id_of(True)
    first = cluster[1].client(name)
    assert cluster[1].connect(name, clean=False, expiry_s=600)[1].reason == CODES["CONNECT", 5]
    assert not first.closed


@pytest.mark.parametrize("gateway", ORIGINS)
def test_a_client_without_durable_session_is_served(cluster: FewCopies, gateway: str) -> None:
    """Also with a will, which the slot keeps, and with a Clean Start that ends a session."""
    reader = cluster[1].client("reader")
    reader.subscribe(("will", 1))
    subscriber(cluster).leave()
    cluster.lose()
    will = packets.Will("will", b"gone", 1, False, None)
    client = cluster[cluster.at(gateway)].client("sub", clean=True, will=will)
    client.vanish()
    cluster.until(lambda: bool(reader.received))
    assert reader.payloads() == [b"gone"]
    assert cluster.denied() == []


def test_a_will_for_a_slot_with_one_copy_is_published(cluster: FewCopies) -> None:
    reader = subscriber(cluster)
    client = cluster[1].client("dying", will=packets.Will("t", b"gone", 1, False, None))
    cluster.lose()
    client.vanish()
    cluster.until(lambda: bool(reader.received))
    assert [each.payload for each in reader.drain()] == [b"gone"]


# -- begin and end


def test_each_node_says_once_when_the_refusing_begins_and_ends(cluster: FewCopies) -> None:
    cluster.lose()
    cluster.copy_again()
    for number in (1, cluster.other):
        counts = [row["count"] for row in cluster[number].host.events if row["type"] == "slot.few"]
        assert len(counts) == 2 and counts[0] > 0 and counts[1] == 0
    cluster[cluster.lost].start()
    cluster.whole()
    cluster.all_copied()
    cluster.pass_s(1.0)
    assert not any(harness.node.policy.restricted for harness in cluster.nodes)


def test_an_operator_ends_the_refusing(cluster: FewCopies) -> None:
    subscriber(cluster)
    cluster.lose()
    writer = cluster[1].client("writer", 4)
    writer.send(publish("t", b"m", 1, 7))
    cluster.pass_s(0.5)
    assert writer.take() == []
    cluster[1].node.options.queue_min_in_sync = 1
    cluster.until(lambda: bool(writer.received), 2.0)
    assert pubacks(writer) == [(7, 0)]


def test_by_default_one_copy_is_enough(cluster: FewCopies) -> None:
    reader = subscriber(cluster)
    cluster.all_copied()
    cluster.lose_follower()
    assert not any(harness.node.policy.few_copies for harness in cluster.nodes if harness.host.up)
    writer = cluster[1].client("writer")
    assert writer.publish("t", b"m", 1)[0].reason == 0
    assert [each.payload for each in reader.drain()] == [b"m"]


def test_a_process_decides_nothing_by_the_tables_that_it_reads_again(cluster: FewCopies) -> None:
    """In those of the begin of the cluster no slot has two copies. In the one of its own view each has."""
    cluster.ask_for_two()
    cluster[3].kill()
    cluster.until(lambda: "n3" not in str([row.in_sync for row in cluster[1].member.slots.rows]))
    cluster.all_copied()
    before = len(cluster[3].host.events)
    cluster[3].start()
    cluster.whole()
    assert [row for row in cluster[3].host.events[before:] if row["type"] == "slot.few"] == []


def test_a_table_counts_from_the_moment_in_which_it_is_applied(
    cluster: FewCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of the work on a new table may take many turns."""
    cluster.ask_for_two()
    clustering = cluster[1].host.clustering
    assert clustering is not None
    _, follower = cluster.copied()
    cluster.pass_s(1.0)
    monkeypatch.setattr(clustering.slots, "tick", lambda: None)
    cluster[follower].kill()
    cluster.until(lambda: len(cluster[1].member.slots.row(cluster.slot).in_sync) == 1)
    assert cluster.slot in cluster[1].node.policy.few_copies


def _answers(cluster: CopiedCluster, client: PacketClient, packet: Any) -> list[Any]:
    client.send(packet)
    cluster.until(lambda: bool(client.received))
    return client.take()


def _options(*filters: str) -> list[packets.SubscribeOptions]:
    return [packets.SubscribeOptions(text, 1) for text in filters]
