"""Wills of connections that were taken over through another gateway: nobody knows yet whether the former one lives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strogoff.broker.connection.connection import FAILOVER_GRACE_S, ClientConnection
from strogoff.broker.gateway.relayed_transport import RelayedTransport
from strogoff.broker.sessions import wills
from strogoff.broker.sessions.wills import ANSWER_MS, DOUBT_MS
from strogoff.cluster.identity import slot_of
from strogoff.mqtt import packets
from tests.broker.clustering.copied_cluster import CopiedCluster
from tests.broker.clustering.slot_cluster import SlotCluster
from tests.harness.broker import PacketClient, publish
from tests.harness.thinning import thinned

DOUBT_S = DOUBT_MS / 1000
AFTER_S = DOUBT_S + 2
"""Long enough for every will here."""

CLEAN: dict[str, Any] = {"clean": True, "expiry_s": 0}
DURABLE: dict[str, Any] = {"clean": False, "expiry_s": 600}
RENEWED: dict[str, Any] = {"clean": True, "expiry_s": 600}
LATER = packets.Will("will", b"later", 1)
FORMS: dict[str, tuple[dict[str, Any], dict[str, Any], int, packets.Will | None]] = {
    "a clean client": (CLEAN, CLEAN, 0, LATER),
    "a durable client": (DURABLE, DURABLE, 0, LATER),
    "a durable client with Clean Start": (DURABLE, RENEWED, 0, LATER),
    "a durable client with a delay and Clean Start": (DURABLE, RENEWED, 60, LATER),
    "a durable client without durable state now": (DURABLE, CLEAN, 60, LATER),
    "a durable client without any state now": (DURABLE, CLEAN, 60, None),
    "a clean client without a will now": (CLEAN, CLEAN, 0, None),
}
"""How the client connects at first and then, the delay of its will in s, and its second will."""


class Scene:
    """A client with a will at a gateway that is not the primary, a reader, and the second connection of the client."""

    def __init__(self, form: str = "a clean client", **options: Any) -> None:
        self.cluster = cluster = CopiedCluster(**options)
        self.before, self.after, delay_s, self.second_will = FORMS[form]
        for client_id in ("mortal", "reader"):
            cluster[1].client(client_id, **DURABLE).leave()
            cluster.move(client_id, 1)
        self.follower = cluster.copied("mortal")[1]
        self.gateway = 5 - self.follower
        cluster.all_copied()
        self.reader = cluster[self.follower].client("reader", **DURABLE)
        self.reader.subscribe(("will", 2))
        cluster.pass_s(FAILOVER_GRACE_S)  # every node has had its lease for that time
        properties = {"will_delay_interval": delay_s} if delay_s else None
        self.first = self.connect(self.gateway, self.before, packets.Will("will", b"gone", 1, False, properties))
        cluster.pass_s(0.2)

    def connect(self, number: int, how: dict[str, Any], will: packets.Will | None = None) -> PacketClient:
        client, connack = self.cluster[number].connect("mortal", will=will, **how)
        assert connack.reason == 0
        return client

    def connecting(self) -> PacketClient:
        """The client has sent another CONNECT to the follower."""
        return self.cluster[self.follower].connect_soon("mortal", will=self.second_will, **self.after)

    def unasked(self) -> None:
        """Nobody asks the gateway whether it lives: it does not take the last bytes of the client."""
        self.cluster[1].node.wills.ask_gateway = lambda _ended, _answered: False

    def asked(self) -> None:
        """From now on gateways are asked."""
        self.cluster[1].node.wills.ask_gateway = self.cluster[1].node.gateways.ask

    def back(self, number: int) -> PacketClient:
        """The client connects again, before anybody has noticed the end of its first connection."""
        session = self.cluster[1].node.sessions.known("", "mortal")
        assert session is not None and session.connection is not None
        return self.connect(number, self.after, self.second_will)

    def named(self) -> list[str]:
        """The names of the client's wills at the primary."""
        return [each["will"] for each in self.cluster[1].host.events if each["type"] == "will.arm"]

    def in_view(self) -> bool:
        return self.cluster[1].member.view.incarnation(f"n{self.gateway}") is not None

    def got(self) -> list[bytes]:
        if self.reader.closed:  # its session was at a node that has died
            self.reader = self.cluster[self.follower].client("reader", **DURABLE)
        return [each.payload for each in self.reader.drain()]

    def waiting(self, number: int = 1) -> int:
        """The wills on the disk of a node."""
        return len([key for key in self.cluster.rows(number, "mortal") if key[:1] == b"z"])


def killed(scene: Scene) -> None:
    """The client learns of it before the links to the other nodes break."""
    scene.cluster.isolate(scene.gateway)
    scene.cluster[scene.gateway].kill()


def paused(scene: Scene) -> None:
    scene.cluster[scene.gateway].pause_process()


def cut_off(scene: Scene) -> None:
    scene.cluster.isolate(scene.gateway)


@pytest.mark.parametrize("form", thinned(FORMS, 6))
@pytest.mark.parametrize("fault", thinned([killed, paused, cut_off], 2))
@pytest.mark.parametrize("back_at", thinned(["follower", "primary"], 2))
def test_nobody_gets_the_will_of_a_client_whose_gateway_has_died(
    form: str, fault: Callable[[Scene], None], back_at: str
) -> None:
    """The client is at another node before the cluster has noticed."""
    scene = Scene(form)
    fault(scene)
    client = scene.back(1 if back_at == "primary" else scene.follower)
    assert scene.in_view()
    scene.cluster.pass_s(2 * AFTER_S)
    assert scene.got() == [] and not scene.in_view()
    assert scene.waiting() == scene.waiting(scene.follower) == 0
    client.vanish()
    scene.cluster.pass_s(AFTER_S)
    assert scene.got() == ([b"later"] if scene.second_will is not None else [])


@pytest.mark.parametrize("form", FORMS)
def test_a_will_is_published_before_the_connack_of_the_next_connection(form: str) -> None:
    """The client may publish its present state to the same topic. A client without will and session is not its
    primary's any more: its CONNACK does not wait."""
    scene = Scene(form)
    scene.cluster.network.delay("n1", f"n{scene.gateway}", 0.05)
    client = scene.connecting()
    scene.cluster.pass_s(0.04)
    if scene.second_will is not None:
        assert client.take() == [], "the former gateway has not answered yet"
        client.send(publish("will", b"here", 1, 7))
    scene.cluster.pass_s(0.5)
    assert isinstance(client.take()[0], packets.Connack)
    assert scene.got() == [b"gone", *[b"here"] * (scene.second_will is not None)] and scene.waiting() == 0


def test_a_connack_waits_for_a_former_gateway_for_a_bounded_time() -> None:
    scene = Scene()
    paused(scene)
    client = scene.connecting()
    scene.cluster.pass_s(ANSWER_MS / 1000 - 0.05)
    assert client.take() == []
    scene.cluster.pass_s(0.1)
    assert [type(each) for each in client.take()] == [packets.Connack]
    assert scene.waiting() == 1 and scene.in_view() and not scene.cluster[1].node.wills._connacks


def test_an_answer_says_nothing_about_an_earlier_process_of_the_gateway() -> None:
    scene = Scene("a durable client")
    scene.unasked()
    scene.back(scene.follower)
    killed(scene)
    scene.cluster.until(lambda: not scene.in_view())
    scene.cluster.network.heal()
    scene.cluster[scene.gateway].start()
    scene.cluster.whole()
    assert scene.waiting() == 1, "nobody has decided yet"
    scene.asked()
    scene.connect(scene.gateway, DURABLE)
    scene.connect(scene.follower, DURABLE)
    scene.cluster.pass_s(AFTER_S)
    assert scene.got() == [b"later"] and scene.waiting() == 0


def test_a_gateway_that_has_bytes_for_the_client_is_not_asked() -> None:
    """The question would end the connection before the gateway has sent them."""
    scene = Scene()
    session, gateways = scene.cluster[1].node.sessions.known("", "mortal"), scene.cluster[1].node.gateways
    assert session is not None and isinstance(session.connection, ClientConnection)
    transport = session.connection.output.transport
    assert isinstance(transport, RelayedTransport)
    transport.out.waiting = 1
    assert not gateways.ask(session.connection, lambda _lives: pytest.fail("the gateway was asked"))
    transport.out.waiting = 0
    assert gateways.ask(session.connection, lambda _lives: None)


@pytest.mark.parametrize("form", FORMS)
def test_the_will_of_a_client_whose_gateway_lives_is_published_after_the_doubt(form: str) -> None:
    scene = Scene(form)
    scene.unasked()
    scene.back(scene.follower)
    scene.cluster.pass_s(DOUBT_S - 0.5)
    assert scene.got() == []
    assert scene.waiting() == scene.waiting(scene.follower) == 1
    scene.cluster.pass_s(1)
    assert scene.got() == [b"gone"]
    scene.cluster.pass_s(AFTER_S)
    assert scene.got() == [] and scene.waiting() == 0


@pytest.mark.parametrize("form", FORMS)
def test_a_connection_through_the_same_gateway_proves_that_it_lives(form: str) -> None:
    scene = Scene(form)
    scene.back(scene.gateway)
    scene.cluster.pass_s(0.5)
    assert scene.got() == [b"gone"]


def test_a_socket_of_the_primary_is_not_in_doubt() -> None:
    scene = Scene()
    scene.first.vanish()
    scene.cluster.pass_s(0.5)
    assert scene.got() == [b"gone"]
    scene.connect(1, CLEAN, packets.Will("will", b"here", 1))
    scene.connect(scene.gateway, CLEAN)
    scene.cluster.pass_s(0.5)
    assert scene.got() == [b"here"]


@pytest.mark.parametrize("lives", [False, True])
@pytest.mark.parametrize("form", ["a clean client", "a durable client"])
def test_the_next_primary_decides(form: str, lives: bool) -> None:
    scene = Scene(form)
    if lives:
        scene.unasked()
    else:
        killed(scene)
    scene.back(scene.follower)
    scene.cluster.pass_s(1)
    if not lives:
        scene.cluster.network.heal()
        scene.cluster[scene.gateway].start()  # a majority is left
    scene.cluster[1].kill()
    assert scene.cluster.taken_over(1, "mortal") == scene.follower
    assert scene.waiting(scene.follower) == 1
    again = scene.connect(scene.follower, scene.after, LATER)
    scene.cluster.pass_s(3 * AFTER_S)
    assert scene.got() == ([b"gone"] if lives else [])
    assert scene.waiting(scene.follower) == 0 and not again.closed


def test_a_gateway_that_was_out_of_the_view_in_between_counts_as_dead() -> None:
    scene = Scene()
    scene.cluster[scene.gateway].pause_process()
    scene.back(1)
    scene.cluster.until(lambda: not scene.in_view())
    scene.cluster[scene.gateway].resume_process()
    scene.cluster.until(scene.in_view)
    assert scene.waiting() == 1, "it came back before the decision"
    scene.cluster.pass_s(AFTER_S)
    assert scene.got() == [] and scene.waiting() == 0


def test_a_node_without_a_lease_does_not_decide() -> None:
    """It may be cut off, and knows nothing of the others. It decides when it has had a lease for some time."""
    scene = Scene()
    killed(scene)
    scene.back(1)
    scene.cluster[scene.follower].pause_process()
    scene.cluster.pass_s(DOUBT_S + 3)
    assert scene.in_view() and scene.waiting() == 1, "the majority is gone, so nobody changes the view"
    scene.cluster[scene.follower].resume_process()
    scene.cluster.until(lambda: not scene.in_view())
    scene.cluster.pass_s(3 * AFTER_S)
    assert scene.got() == [] and scene.waiting() == 0


def test_a_will_in_doubt_moves_with_its_slot() -> None:
    scene = Scene()
    scene.unasked()
    scene.back(scene.follower)
    scene.cluster.move("mortal", scene.gateway)
    assert scene.waiting(scene.gateway) == 1
    scene.cluster.pass_s(AFTER_S)
    assert scene.got().count(b"gone") == 1


def test_the_primary_decides_after_its_restart() -> None:
    """The will of a durable session without a copy, too."""
    cluster = SlotCluster(3)
    slot = slot_of("", "mortal")
    primary = cluster.locator(1).primary_of(slot)
    assert primary is not None
    home = int(primary[1:])
    gateway, other = (number for number in (1, 2, 3) if number != home)
    reader = cluster[other].client("reader")
    reader.subscribe(("will", 1))
    cluster.pass_s(FAILOVER_GRACE_S)
    for gone_first in (False, True):
        cluster[gateway].client("mortal", will=packets.Will("will", b"gone", 1), **DURABLE)
        cluster.pass_s(0.2)
        if gone_first:
            cluster.isolate(gateway)
            cluster[gateway].kill()
        cluster[other].client("mortal", **DURABLE).leave()
        cluster.pass_s(0.2)
        cluster.restart(home)
        cluster.pass_s(3 * AFTER_S)
        assert [each.payload for each in reader.drain()] == ([] if gone_first else [b"gone"])


def test_wills_in_doubt_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    scene.unasked()
    monkeypatch.setattr(wills, "DOUBTED_BYTES", 1)
    second = scene.back(scene.follower)
    assert scene.waiting() == 1, "there was room"
    scene.connect(scene.gateway, CLEAN)
    scene.cluster.pass_s(0.5)
    assert second.closed and scene.got() == [b"later"]
    scene.cluster.pass_s(AFTER_S)
    assert scene.got() == [b"gone"]
    assert scene.cluster[1].node.wills._doubted_bytes == 0


def test_a_slot_that_leaves_takes_its_doubt_along() -> None:
    scene = Scene()
    scene.unasked()
    scene.back(scene.follower)
    assert scene.cluster[1].node.wills._doubted_bytes > 0
    scene.cluster[1].pause_process()
    scene.cluster.taken_over(1, "mortal")
    scene.cluster[1].resume_process()
    scene.cluster.whole()
    assert scene.cluster[1].node.wills._doubted_bytes == 0
    scene.cluster.pass_s(3 * AFTER_S)
    assert scene.got().count(b"gone") == 1, "its new primary has published it"


@pytest.mark.parametrize("form", thinned(FORMS, 6))
@pytest.mark.parametrize("news", ["waits behind packets", "is on its way"])
def test_nobody_gets_the_will_of_a_client_whose_gateway_stops(form: str, news: str) -> None:
    """The client is back, and its primary has not handled that the gateway stops. The gateway still answers."""
    scene = Scene(form)
    cluster, (primary, gateway) = scene.cluster, (scene.cluster[1], scene.cluster[scene.gateway])
    session = primary.node.sessions.known("", "mortal")
    assert session is not None and isinstance(session.connection, ClientConnection)
    if news == "is on its way":
        cluster.network.delay(f"n{scene.gateway}", "n1", 0.1)
    else:
        session.connection.flow.pause("test")
        scene.first.send(publish("t", b"", 0))
        cluster.pass_s(0.1)
    gateway.node.gateways.close()
    cluster.pass_s(0.02)
    assert not session.connection.closed and scene.first.closed
    client = scene.connect(scene.follower, scene.after, scene.second_will)
    cluster.pass_s(2 * AFTER_S)
    assert scene.got() == [] and scene.waiting() == scene.waiting(scene.follower) == 0
    client.vanish()
    cluster.pass_s(AFTER_S)
    assert scene.got() == ([b"later"] if scene.second_will is not None else [])


def test_the_event_log_says_why_a_will_is_not_published() -> None:
    scene = Scene()
    killed(scene)
    scene.back(1)
    scene.cluster.pass_s(AFTER_S)
    rows = [each for each in scene.cluster[1].host.events if each["type"] == "will.cancel"]
    assert [(each["client"], each["topic"], each["reason"]) for each in rows] == [("mortal", "will", "gateway_lost")]
    assert rows[0]["will"] == scene.named()[0]


def test_a_will_in_doubt_keeps_its_name_when_its_slot_leaves() -> None:
    """Its client is back with another will, which has another name."""
    scene = Scene()
    scene.unasked()
    scene.back(scene.follower)
    first, second = scene.named()
    scene.cluster[1].kill()
    scene.cluster.taken_over(1, "mortal")
    scene.cluster[1].start()
    scene.cluster.pass_s(3 * AFTER_S)
    fired = [
        each["will"]
        for number in (1, 2, 3)
        for each in scene.cluster[number].host.events
        if each["type"] == "will.fire"
    ]
    assert first in fired and first != second


def test_a_setting_without_wills_at_takeovers_has_no_doubt() -> None:
    scene = Scene(suppress_lwt_on_session_takeover=True)
    scene.back(scene.follower)
    assert scene.waiting() == 0
    scene.cluster.pass_s(AFTER_S)
    assert scene.got() == []
