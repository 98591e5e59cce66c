"""Open QoS 2 handshakes of a publisher: on disk for a durable session, known to the cluster, forgotten at PUBREL."""

from __future__ import annotations

import pytest

from strogoff.broker.cluster_port import Standalone
from strogoff.broker.queues.records import InboundRecord
from strogoff.broker.routing.pending_acks import PendingAcks
from strogoff.broker.routing.remote import RemoteMembers
from strogoff.broker.sessions.inbound_qos2 import InboundHandshakes
from tests.harness.broker import BrokerHarness

ELSEWHERE = [("g", "t", "n2")]


class Handshakes(Standalone):
    """A cluster that records which handshakes are open."""

    def __init__(self) -> None:
        self.open: list[tuple[int, int]] = []

    def handshake_opened(self, boot: int, counter: int) -> None:
        self.open.append((boot, counter))

    def handshake_closed(self, boot: int, counter: int) -> None:
        self.open.remove((boot, counter))


def session(durable: bool = True) -> tuple[BrokerHarness, InboundHandshakes, Handshakes]:
    broker = BrokerHarness()
    (broker.persistent if durable else broker.client)("c", 5)
    cluster = Handshakes()
    broker.node.env.cluster = cluster
    found = broker.node.sessions.get("", "c")
    assert found is not None
    return broker, found.inbound, cluster


def record(routed: bool = False) -> InboundRecord:
    return InboundRecord(1, 7, routed)


@pytest.mark.parametrize("durable", [True, False])
def test_an_open_handshake_is_on_the_disk_of_a_durable_session_until_pubrel(durable: bool) -> None:
    broker, inbound, cluster = session(durable)
    assert inbound.open(5, record()) is durable
    assert cluster.open == [(1, 7)] and len(inbound.records) == 1
    assert len(broker.keys(b"i")) == durable
    assert inbound.close(5) is durable
    assert cluster.open == [] and not inbound.records and broker.keys(b"i") == []
    assert not inbound.close(5)


def test_a_handshake_that_was_routed_before_a_restart_is_forwarded_again() -> None:
    _, inbound, cluster = session()
    inbound.restore(5, record())
    inbound.restore(6, InboundRecord(1, 8, True))
    assert inbound.forward_again == {6} and cluster.open == [(1, 7), (1, 8)]


def test_what_was_routed_is_noted_with_its_members() -> None:
    _, inbound, _ = session()
    inbound.open(5, record())
    pending = PendingAcks()
    inbound.routed(5, ELSEWHERE, pending)
    assert inbound.records[5].routed and inbound.records[5].elsewhere == ELSEWHERE
    assert inbound.pending_acks == {5: pending}
    assert pending.reselected is not None
    assert pending.reselected(RemoteMembers("g", "t", "n2", 1, 0), "n3")
    assert inbound.records[5].elsewhere == [("g", "t", "n3")]
    assert pending.reselected(RemoteMembers("g", "t", "n3", 1, 0), None)
    assert inbound.records[5].elsewhere == []
    inbound.close(5)
    assert not pending.reselected(RemoteMembers("g", "t", "n3", 1, 0), "n2")


def test_other_members_are_on_the_disk_before_a_copy_leaves() -> None:
    _, inbound, _ = session()
    made = record()
    inbound.open(5, made)
    assert inbound.reselected(5, made, ELSEWHERE)
    assert made.elsewhere == ELSEWHERE


def test_a_node_that_left_the_view_forwards_again_what_it_had_routed() -> None:
    _, inbound, _ = session()
    inbound.open(5, record())
    inbound.open(6, InboundRecord(1, 8, False))
    inbound.routed(5, [], PendingAcks())
    inbound.cancel_forwards()
    assert inbound.forward_again == {5} and not inbound.pending_acks


def test_an_ended_session_has_no_handshakes() -> None:
    broker, inbound, cluster = session()
    inbound.open(5, record())
    inbound.routed(5, [], PendingAcks())
    inbound.discard()
    assert cluster.open == [] and not inbound.records and not inbound.pending_acks and broker.keys(b"i") == []
