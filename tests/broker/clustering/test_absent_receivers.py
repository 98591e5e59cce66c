"""Messages of other nodes for many absent clients: the lane is held until their sessions are made (P8)."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering import forward_receiver
from strogoff.broker.routing.waking import PER_TURN
from strogoff.cluster.identity import slot_of
from strogoff.cluster.links.ports import Refuse
from strogoff.mqtt.packets import Puback
from tests.broker.clustering.copied_cluster import CopiedCluster, durable
from tests.broker.clustering.test_forward_receiver import Target
from tests.harness.broker import publish
from tests.harness.sleepers import asleep, messages_waiting, most_made, sleepers, slow_steps


def test_a_message_for_many_absent_clients_waits_until_their_sessions_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lane is held, nothing overtakes, and the sender is asked for the message once all are there (P8)."""
    monkeypatch.setattr(forward_receiver, "FOR_A_LANE", 20)
    target = Target()
    sleepers(target, 2 * PER_TURN + 20, ("t", 1))
    target.begin()
    target.receiver.watermark("n9", 1)
    asked = list[int]()
    target.receiver.try_again = lambda: asked.append(asleep(target))
    for _ in range(2):  # the links ask by themselves as well
        with pytest.raises(Refuse, match="not in memory"):
            target.take(1, b"1")
    assert target.told == []
    assert 0 < most_made(target) <= PER_TURN
    assert asked == [0, 0]
    target.take(1, b"1")
    target.take(2, b"2")
    assert target.acknowledged()[-1] == 2
    assert messages_waiting(target, 2) == [[b"1", b"2"]] * 2


def test_a_message_does_not_wait_again_for_sessions_that_the_disk_fails_to_return(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forward_receiver, "FOR_A_LANE", 20)
    target = Target()
    sleepers(target, 30, ("t", 1))
    target.begin()
    target.receiver.watermark("n9", 1)
    monkeypatch.setattr(target.node.sessions, "wake", lambda client: None)
    for seq in (1, 2):
        with pytest.raises(Refuse):
            target.take(seq)
        target.settle()
        target.take(seq)
    assert target.acknowledged()[-1] == 2


COUNT = PER_TURN + 10


@pytest.fixture
def failed_over(monkeypatch: pytest.MonkeyPatch) -> tuple[CopiedCluster, int, list[str]]:
    """The primary of a slot has died: all its sessions are on the disk of the next one, whose number is returned with
    their clients."""
    monkeypatch.setattr(forward_receiver, "FOR_A_LANE", 5)
    cluster = CopiedCluster()
    names = [name for name in map("c{}".format, range(256 * 3 * COUNT)) if slot_of("", name) == cluster.slot][:COUNT]
    for name in names:
        durable(cluster, 1, name, ("news", 1)).leave()
    cluster.copied(names[0])
    cluster[1].kill()
    primary = cluster.taken_over(1, names[0])
    cluster.pass_s(10)
    return cluster, primary, names


def payloads(cluster: CopiedCluster, number: int, names: list[str]) -> list[list[bytes]]:
    return [[each.payload for each in durable(cluster, number, name).drain()] for name in names]


@pytest.mark.parametrize("here", [False, True])
def test_the_first_message_after_a_failover(failed_over: tuple[CopiedCluster, int, list[str]], here: bool) -> None:
    cluster, primary, names = failed_over
    sessions = cluster[primary].node.sessions
    assert not [name for name in names if sessions.known("", name)]
    publisher = cluster[primary if here else 5 - primary].client("p")
    publisher.send(*[publish("news", b"%d" % number, 1, number) for number in (1, 2, 3)])
    cluster.pass_s(5)
    assert publisher.take() == [Puback(number) for number in (1, 2, 3)]
    assert payloads(cluster, primary, names) == [[b"1", b"2", b"3"]] * COUNT


@pytest.mark.parametrize("qos", [1, 2])
def test_the_next_primary_dies_while_it_makes_the_sessions(
    failed_over: tuple[CopiedCluster, int, list[str]], qos: int
) -> None:
    """The message has no answer yet, and its origin sends it to the primary after that."""
    cluster, primary, names = failed_over
    cluster[1].start()
    cluster.whole()
    cluster.until(lambda: len(cluster.row(names[0]).in_sync) == 2, 60)
    slow_steps(cluster[primary], 1)
    publisher = cluster[5 - primary].client("p")
    publisher.send(publish("news", b"x", qos))
    cluster.pass_s(0.5)
    assert len(cluster[primary].node.router.waking) == 1
    cluster[primary].kill()
    last = cluster.taken_over(primary, names[0])
    cluster.pass_s(20)
    assert [each.packet_id for each in publisher.take()] == [1]
    assert payloads(cluster, last, names[:5]) == [[b"x"]] * 5
