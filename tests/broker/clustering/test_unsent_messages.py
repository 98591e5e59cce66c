"""What a client has not been sent when its node dies: it expires, and comes without DUP (H-51)."""

from __future__ import annotations

from typing import Any

from strogoff.broker.queues.sent_limit import AHEAD
from strogoff.mqtt.packets import Puback, Publish
from strogoff.netsplit.policy import ViewState
from tests.broker.clustering.copied_cluster import CopiedCluster
from tests.harness.broker import PacketClient

MOST = 2 * AHEAD
"""The limit moves at once after a CONNECT, so it is twice as far ahead then."""


def backlog(
    cluster: CopiedCluster, window: int, messages: int, expiry_s: int = 0, node: int = 3
) -> tuple[PacketClient, int]:
    """A client that answers nothing, and messages for it. Returns the primary of its slot as well."""
    client = cluster[node].client("sub", clean=False, expiry_s=6000, receive_maximum=window)
    client.subscribe(("t", 1))
    primary, _ = cluster.copied()
    writer = cluster[node].client("writer")
    fields: dict[str, Any] = {"message_expiry_interval": expiry_s} if expiry_s else {}
    for each in range(messages):
        writer.publish("t", b"%d" % each, 1, packet_id=each + 1, **fields)
    cluster.pass_s(1)
    return client, primary


def again(cluster: CopiedCluster, node: int = 3) -> list[Publish]:
    """What comes when the client connects again."""
    client, connack = cluster[node].connect("sub", clean=False, expiry_s=6000)
    assert connack.session_present
    return client.drain()


def test_what_was_never_sent_expires_at_the_next_primary() -> None:
    """[MQTT5-3.3.2-5]"""
    cluster = CopiedCluster()
    client, primary = backlog(cluster, 5, 200, expiry_s=60)
    sent = client.payloads()
    cluster[primary].kill()
    cluster.taken_over(primary)
    cluster.pass_s(120)
    got = again(cluster)
    assert [each.payload for each in got[:5]] == sent
    assert all(each.dup for each in got)
    assert 5 <= len(got) <= 5 + MOST


def test_what_was_never_sent_has_no_dup_at_the_next_primary() -> None:
    cluster = CopiedCluster()
    client, primary = backlog(cluster, 5, 200)
    assert len(client.payloads()) == 5
    cluster[primary].kill()
    cluster.taken_over(primary)
    got = again(cluster)
    assert [each.payload for each in got] == [b"%d" % each for each in range(200)]
    assert all(each.dup for each in got[:5])
    assert not any(each.dup for each in got[5 + MOST :])


def test_nothing_leaves_before_the_follower_knows_that_it_may_have_been_sent() -> None:
    cluster = CopiedCluster(memory_window=1)
    client, primary = backlog(cluster, 2, 10, node=1)
    _, follower = cluster.copied()
    assert primary == 1
    cluster[follower].pause_process()
    sent = client.messages()
    for each in sent:
        client.send(Puback(each.packet_id))
        cluster.pass_s(0.05)  # the disk of the primary has the record
        sent += client.messages()
    assert [each.payload for each in sent] == [b"0", b"1"]
    cluster[primary].kill()
    cluster[follower].resume_process()
    cluster.taken_over(primary)
    got = again(cluster, follower)
    assert [each.payload for each in got] == [b"%d" % each for each in range(1, 10)]
    assert [each.dup for each in got] == 2 * [True] + 7 * [False]  # the record of one more message was on its way


def taken(cluster: CopiedCluster, client: PacketClient) -> list[bytes]:
    """What a client gets that answers each message, until nothing more comes for a moment."""
    got: list[bytes] = []
    while new := client.messages():
        got += [each.payload for each in new]
        client.send(*[Puback(each.packet_id) for each in new])
        cluster.pass_s(0.01)
    return got


def test_a_node_that_is_cut_off_delivers_what_it_has_stored() -> None:
    """No copy can have the limit. A client with nothing in flight would hear nothing before the heal."""
    cluster = CopiedCluster()
    client, primary = backlog(cluster, 1, 200, node=1)
    assert primary == 1
    cluster.isolate(1)
    before = taken(cluster, client)
    assert cluster[1].node.policy.view_state is not ViewState.MINORITY and len(before) <= MOST
    cluster.state_of(1, ViewState.MINORITY)
    cluster.pass_s(0.1)
    assert before + taken(cluster, client) == [b"%d" % each for each in range(200)]
