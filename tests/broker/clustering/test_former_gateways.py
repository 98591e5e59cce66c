"""A client publishes at one gateway, goes, and publishes at another one: subscribers get both in order (H-38).

One link is slow. Otherwise no node has a fault.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial

import pytest

from strogoff.broker.gateway.local_clients import UNKNOWN
from strogoff.cluster.identity import slot_of
from strogoff.mqtt import packets
from tests.broker.clustering.copied_cluster import CopiedCluster
from tests.broker.clustering.slot_cluster import SlotCluster
from tests.harness.broker import PacketClient, publish

SLOW_S = 0.95


class Scene:
    """Clients with the id `c`, and a reader at the last node."""

    def __init__(self, slot_at: int) -> None:
        self.cluster = cluster = SlotCluster(3)
        cluster.put(reader=3)
        self.reader = cluster[3].client("reader")
        self.reader.subscribe(("t", 1))
        cluster.give("c", cluster[slot_at])
        self.places = {slot_of("", "c"): f"n{slot_at}"}
        for harness in cluster.nodes:
            clustering = harness.host.clustering
            assert clustering is not None
            clustering.slots.handover.place = partial(self._place, harness.host.name)
        cluster.pass_s(5)

    def _place(self, own: str, slot: int, _zones: Mapping[str, str]) -> str:
        return self.places.get(slot, own)

    def slow(self, number: int, delay_s: float = SLOW_S) -> None:
        """The link from a node to that of the reader is slow."""
        self.cluster.network.delay(f"n{number}", "n3", delay_s)

    def connect(self, number: int) -> PacketClient:
        return self.cluster[number].client("c")

    def publish(self, client: PacketClient, payload: bytes) -> None:
        """Publish without waiting for the answer."""
        client.send(publish("t", payload, 1))
        self.cluster.settle()

    def end(self, client: PacketClient) -> None:
        client.vanish()
        self.cluster.settle()

    def hand_over(self, number: int) -> None:
        """The slot of the clients, which is empty, should be at another node: wait until it is there."""
        self.wish(number)
        self.cluster.until(lambda: {place[0] for place in self.cluster.places("c")} == {f"n{number}"})

    def wish(self, number: int) -> None:
        self.places[slot_of("", "c")] = f"n{number}"
        for harness in self.cluster.nodes:
            assert harness.host.clustering is not None
            harness.host.clustering.slots.handover.table_changed()

    def payloads(self) -> list[bytes]:
        """Returns what the reader has got in the end."""
        self.cluster.pass_s(3)
        return self.reader.payloads()


@pytest.mark.parametrize("slot_at", [1, 2, 3])
@pytest.mark.parametrize("between", [None, b"1b"])
def test_a_client_that_was_at_its_gateway_once_more(between: bytes | None, slot_at: int) -> None:
    scene = Scene(slot_at)
    first = scene.connect(1)
    scene.slow(1)
    scene.publish(first, b"1")
    scene.end(first)
    scene.cluster.pass_s(0.5)
    second = scene.connect(1)
    if between is not None:
        scene.publish(second, between)
    scene.end(second)
    third = scene.connect(2)
    scene.publish(third, b"2")
    assert scene.payloads() == [each for each in (b"1", between, b"2") if each]


@pytest.mark.parametrize("vanishes", [False, True])
def test_a_gateway_becomes_the_registrar_while_the_client_is_there(vanishes: bool) -> None:
    scene = Scene(2)
    first = scene.connect(1)
    scene.hand_over(1)
    scene.cluster.pass_s(5)
    scene.slow(1)
    scene.publish(first, b"1")
    if vanishes:
        scene.end(first)
    second = scene.connect(2)
    scene.publish(second, b"2")
    assert scene.payloads() == [b"1", b"2"]


@pytest.mark.parametrize(("slot_at", "next_slot_at"), [(2, 1), (2, 3), (1, 3)])
def test_an_empty_slot_is_handed_over_before_the_answer(slot_at: int, next_slot_at: int) -> None:
    scene = Scene(slot_at)
    first = scene.connect(2)
    scene.slow(2)
    scene.publish(first, b"1")
    scene.end(first)
    scene.hand_over(next_slot_at)
    assert scene.cluster[2].node.gateways.registration.local.ended() and not scene.reader.payloads()
    second = scene.connect(1)
    scene.publish(second, b"2")
    assert scene.payloads() == [b"1", b"2"]


def test_a_client_waits_only_for_answers_that_can_still_come() -> None:
    """Its former node was out of the view: the other nodes drop what it has published there (H-14)."""
    cluster = SlotCluster(3)
    cluster.put(c=2, reader=3)
    cluster[3].client("reader").subscribe(("t", 1))
    first = cluster[1].client("c")
    cluster.isolate(1)
    first.send(publish("t", b"1", 1))
    cluster.until(lambda: cluster[2].member.view.incarnation("n1") is None)
    newer = cluster[2].client("c")
    cluster.network.heal()
    cluster.until(lambda: first.closed)
    assert not cluster[1].node.gateways.registration.local.ended()
    cluster.whole()
    assert not newer.closed


def test_the_report_of_an_ended_connection_ends_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session is there for the will of a client without durable state, whose gateway has died."""
    cluster = CopiedCluster()
    primary, follower = cluster.copied("sub")
    other = ({1, 2, 3} - {primary, follower}).pop()
    cluster[other].client("sub", will=packets.Will("will", b"gone", 1))
    cluster[other].kill()
    registration = cluster[primary].node.gateways.registration
    cluster.until(lambda: not cluster[primary].node.gateways.counts["relayed_sessions"])
    session = cluster[primary].node.sessions.known("", "sub")
    assert session is not None and not session.durable and session.connection is None
    local = cluster[follower].node.gateways.registration.local
    monkeypatch.setattr(local, "clients_in", lambda slots: [(session.key, 7, UNKNOWN, 0)])
    monkeypatch.setattr(local, "knows", lambda number: True)
    registration.registrar.ask_again(f"n{follower}")
    cluster.pass_s(0.1)
    owner = registration.registrar.owner(session.key)
    assert owner is not None and owner.number == 7
    assert cluster[primary].node.sessions.known("", "sub") is session


SEEDS = [13, 41, 50, 131]
"""In these orders of steps a message overtakes another one if a gateway or a registrar forgets whom to wait for."""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_client_goes_from_gateway_to_gateway_while_its_slot_moves(seed: int) -> None:
    rng = random.Random(seed)
    scene = Scene(rng.randint(1, 3))
    cluster = scene.cluster
    for number in (1, 2):
        if rng.random() < 0.7:
            scene.slow(number, rng.uniform(0.1, 0.8))
    sent = 0
    for _ in range(8):
        if rng.random() < 0.35:
            scene.wish(rng.randint(1, 3))
            cluster.pass_s(rng.choice([0, 0.05, 0.5, 1]))
        client = scene.connect(rng.randint(1, 3))
        for _ in range(rng.choice([0, 1, 1, 2])):
            sent += 1
            scene.publish(client, b"%d" % sent)
            cluster.pass_s(rng.choice([0, 0.1, 0.3]))
        if rng.random() < 0.7:
            scene.end(client)
        cluster.pass_s(rng.choice([0, 0, 0.1]))
    got = [int(each) for each in scene.payloads()]
    assert got == sorted(got)
