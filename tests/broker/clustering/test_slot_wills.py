"""Wills of slots with copies: each is published once, whichever node dies, and none for healthy clients (H-50)."""

from __future__ import annotations

import pytest

from strogoff.cluster.identity import slot_of
from strogoff.mqtt import packets
from tests.broker.clustering.copied_cluster import CopiedCluster
from tests.harness.broker import PacketClient
from tests.harness.thinning import thinned

WILL = packets.Will("will", b"gone", 1)


def will(qos: int = 1, **fields: object) -> packets.Will:
    return packets.Will("will", b"gone", qos, **fields)  # type: ignore[arg-type]


def placed(mortal: int, *readers: int) -> CopiedCluster:
    """A cluster with the slot of the client with the will at one node, and the slot of a reader at each of these."""
    cluster = CopiedCluster()
    homes = {"mortal": mortal, **{f"r{number}": number for number in readers}}
    for client_id in homes:
        client = cluster[1].client(client_id, clean=False, expiry_s=600)
        if client_id != "mortal":
            client.subscribe(("will", 2))
        client.leave()
    for client_id, number in homes.items():
        cluster.move(client_id, number)
        assert cluster.copied(client_id)[0] == number
    return cluster


def has(cluster: CopiedCluster, number: int, reader: str) -> list[bytes]:
    """Everything that waits for a reader, who connects at a node."""
    client, connack = cluster[number].connect(reader, clean=False, expiry_s=600)
    assert connack.session_present
    return [each.payload for each in client.drain()]


def live(cluster: CopiedCluster, number: int) -> PacketClient:
    """A clean subscriber of the wills."""
    client = cluster[number].client(f"live{number}")
    client.subscribe(("will", 2))
    return client


def records(cluster: CopiedCluster, number: int, client_id: str = "mortal") -> list[bytes]:
    """The kinds of the rows of sessions, deadlines and wills that a node has of a client's slot."""
    rows = cluster.rows(number, client_id)
    return sorted([key[:1] for key in rows if key[:1] in (b"s", b"e", b"z")])


def other_than(*numbers: int) -> int:
    return next(number for number in (1, 2, 3) if number not in numbers)


# -- a will on its way


@pytest.mark.parametrize(
    "when", thinned([(turns, qos) for turns in (2, 12, 0, 6, 10, 25, 40) for qos in (1, 2)] + [(2, 0), (12, 0)], 3)
)
def test_a_primary_is_killed_while_its_will_is_on_its_way(when: tuple[int, int]) -> None:
    """It is killed after some turns of the loop: before the will has its mid, before the follower has it, before a copy
    leaves, behind some of them, before all answers are there."""
    turns, qos = when
    cluster = placed(1, 1, 2, 3)
    mortal = cluster[1].client("mortal", clean=False, expiry_s=600, will=will(qos))
    for client_id in ("mortal", "r1", "r2", "r3"):
        cluster.copied(client_id)
    mortal.break_off()
    for _ in range(turns):
        assert cluster.loop.turn()
    assert (b"z" in records(cluster, 1)) is (turns < 40), "its row goes with the last answer"
    cluster[1].kill()
    successor = cluster.taken_over(1, "mortal")
    cluster.taken_over(1, "r1")
    cluster.pass_s(7)
    most = [b"gone"]
    for name in ("r1", "r2", "r3"):
        got = has(cluster, successor, name)
        assert got == most if qos else got in ([], most), name
    assert records(cluster, successor) == [b"e", b"s"], "the session without a will"


def test_two_primaries_die_while_a_will_waits_for_a_third_node() -> None:
    cluster = placed(1, 1, 2, 3)
    follower = cluster.copied("mortal")[1]
    third = other_than(1, follower)
    mortal = cluster[1].client("mortal", clean=False, expiry_s=600, will=will())
    cluster.copied("mortal")
    cluster.network.one_way("n1", f"n{third}")
    mortal.vanish()
    cluster.pass_s(0.1)
    assert b"z" in records(cluster, 1) and b"z" in records(cluster, follower)
    cluster[1].kill()
    cluster.network.heal()
    assert cluster.taken_over(1, "mortal") == follower
    cluster.pass_s(2)
    for name in ("r1", "r2", "r3"):
        assert has(cluster, follower, name) == [b"gone"], name
    assert records(cluster, follower) == [b"e", b"s"]


def test_a_will_that_a_dead_primary_may_have_delivered_comes_with_dup() -> None:
    """The slot of the reader is at the same node. So its next primary cannot know what it has got (H-51)."""
    cluster = placed(1)
    cluster[1].client("sub", clean=False, expiry_s=600).subscribe(("will", 1))
    cluster.move("sub", 1)
    reader, _ = cluster[1].connect("sub", clean=False, expiry_s=600)
    mortal = cluster[1].client("mortal", clean=False, expiry_s=600, will=will())
    follower = cluster.copied("mortal")[1]
    cluster.until(lambda: cluster.copied("sub") == (1, follower))
    mortal.break_off()
    while b"z" not in records(cluster, follower):
        assert cluster.loop.turn()
    cluster.network.one_way("n1", f"n{follower}")  # it has the mid of the will, and does not learn who gets the will
    cluster.pass_s(0.1)
    assert [(each.payload, each.dup) for each in reader.drain()] == [(b"gone", False)]
    cluster[1].kill()
    assert cluster.taken_over(1, "sub") == cluster.taken_over(1, "mortal") == follower
    cluster.pass_s(2)
    reader, connack = cluster[follower].connect("sub", clean=False, expiry_s=600)
    assert connack.session_present
    assert [(each.payload, each.dup) for each in reader.drain()] == [(b"gone", True)]


def test_a_clean_subscriber_gets_a_will_once_that_two_primaries_have_sent() -> None:
    cluster = placed(1, 2)
    follower = cluster.copied("mortal")[1]
    third = other_than(1, follower)
    readers = [live(cluster, follower), live(cluster, third)]
    mortal = cluster[1].client("mortal", clean=False, expiry_s=600, will=will())
    cluster.copied("mortal")
    cluster.network.one_way(f"n{third}", "n1")  # the answer does not arrive
    mortal.vanish()
    cluster.pass_s(0.1)
    cluster[1].kill()
    cluster.network.heal()
    cluster.taken_over(1, "mortal")
    cluster.pass_s(7)
    assert [[each.payload for each in reader.drain()] for reader in readers] == [[b"gone"], [b"gone"]]


def test_receivers_forget_the_mids_of_wills() -> None:
    cluster = placed(1, 2)
    receiver = cluster[2].host.clustering
    assert receiver is not None
    for _ in range(5):
        cluster[1].client("mortal", clean=False, expiry_s=600, will=will()).vanish()
        cluster.pass_s(1)
        assert len(receiver.receiver._seen.get(f"#{slot_of('', 'mortal')}", ())) <= 1
        assert records(cluster, 1) == [b"e", b"s"]
    assert has(cluster, 1, "r2") == [b"gone"] * 5


def test_a_will_leaves_when_the_follower_has_its_mid() -> None:
    """Else the next primary would fire the will of the record again, under another mid."""
    cluster = placed(1, 2)
    follower = cluster.copied("mortal")[1]
    reader = live(cluster, other_than(1, follower))
    mortal = cluster[1].client("mortal", clean=False, expiry_s=600, will=will())
    cluster.copied("mortal")
    cluster.network.one_way("n1", f"n{follower}")
    mortal.vanish()
    cluster.pass_s(0.2)
    assert reader.drain() == []
    cluster[1].kill()
    cluster.network.heal()
    cluster.taken_over(1, "mortal")
    cluster.pass_s(7)
    assert [each.payload for each in reader.drain()] == [b"gone"]


def test_a_will_whose_copies_are_void_is_sent_again() -> None:
    """The node was out of the view: other nodes skip what it had sent before."""
    cluster = placed(1, 1)
    mortal = cluster[1].client("mortal", clean=False, expiry_s=600, will=will())
    follower = cluster.copied("mortal")[1]
    third = other_than(1, follower)
    reader = live(cluster, third)
    cluster[third].disks[0].full = True  # it gets no copy
    cluster[third].node.env.store.put(b"~", b"")
    cluster.until(lambda: cluster[third].node.env.store.state == "full")
    cluster[follower].kill()
    cluster.until(lambda: len(cluster.row("mortal").in_sync) == 1)
    cluster.pass_s(1)
    cluster.isolate(1)
    mortal.vanish()
    cluster.pass_s(0.2)
    assert cluster[1].node.wills._routed, "its copies are on their way"
    cluster[follower].start()
    cluster.until(lambda: cluster[third].member.view.incarnation("n1") is None, 60)
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(3)
    assert [each.payload for each in reader.drain()] == [b"gone"]
    assert b"z" not in records(cluster, 1)


def test_a_slot_moves_when_all_receivers_have_its_will() -> None:
    cluster = placed(1, 2, 3)
    mortal = cluster[1].client("mortal", clean=False, expiry_s=600, will=will())
    target = other_than(1, cluster.copied("mortal")[1])
    cluster.network.one_way("n1", f"n{target}")
    mortal.vanish()
    cluster.pass_s(0.1)
    assert cluster[1].node.slot_sessions.busy(slot_of("", "mortal")) == (
        "not every receiver has acknowledged the will of client mortal"
    )
    cluster.network.heal()
    cluster.pass_s(1)
    assert cluster[1].node.slot_sessions.busy(slot_of("", "mortal")) == ""


# -- a client without a durable session


def test_the_will_of_a_clean_client_is_in_its_slot() -> None:
    cluster = CopiedCluster()
    client = cluster[3].client("mortal", will=WILL)
    primary, follower = cluster.copied("mortal")
    assert records(cluster, primary) == records(cluster, follower) == [b"e", b"s"]
    assert cluster[3].node.gateways.counts["local_clients"] == 0
    client.leave()
    cluster.pass_s(0.5)
    assert records(cluster, primary) == records(cluster, follower) == []


@pytest.mark.parametrize("version", thinned([5, 4], 2))
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("dies", ["gateway", "primary"])
def test_a_node_of_a_clean_client_dies(dies: str, back: bool, version: int) -> None:
    """Its will comes once if it does not come back, and not at all if it does."""
    cluster = placed(1, 2)
    follower = cluster.copied("mortal")[1]
    third = other_than(1, follower)
    reader = live(cluster, follower)
    cluster[third].client("mortal", version, will=WILL)
    cluster.pass_s(0.5)
    dead = third if dies == "gateway" else 1
    cluster[dead].kill()
    if dies == "primary":
        cluster.taken_over(1, "mortal")
    cluster.until(lambda: cluster[follower].member.view.incarnation(f"n{dead}") is None)
    if back:
        client = cluster[follower].client("mortal", version, will=WILL)
        cluster.pass_s(9)
        assert [each.payload for each in reader.drain()] == []
        client.vanish()
    cluster.pass_s(9)
    assert [each.payload for each in reader.drain()] == [b"gone"]
    cluster[dead].start()
    cluster.whole()
    cluster.pass_s(5)
    assert [each.payload for each in reader.drain()] == []
    primary = int((cluster.row("mortal").primary or pytest.fail("no primary")).node[1:])
    assert records(cluster, primary) == []


@pytest.mark.parametrize("dies", ["gateway", "primary"])
def test_the_delay_of_a_clean_clients_will_ends_with_its_session(dies: str) -> None:
    """H-50: it waits as long as the client may come back, and no longer [MQTT5-3.1.3-9]."""
    cluster = placed(1, 2)
    follower = cluster.copied("mortal")[1]
    third = other_than(1, follower)
    reader = live(cluster, follower)
    cluster[third].client("mortal", will=will(properties={"will_delay_interval": 3600}))
    cluster.pass_s(0.5)
    cluster[third if dies == "gateway" else 1].kill()
    cluster.pass_s(12)
    assert [each.payload for each in reader.drain()] == [b"gone"]


def test_a_clean_client_that_comes_back_without_a_will_cancels_that_of_its_former_connection() -> None:
    cluster = placed(1, 2)
    follower = cluster.copied("mortal")[1]
    third = other_than(1, follower)
    reader = live(cluster, follower)
    cluster[third].client("mortal", will=WILL)
    cluster[third].kill()
    cluster.until(lambda: cluster[follower].member.view.incarnation(f"n{third}") is None)
    cluster[follower].client("mortal")
    cluster.pass_s(9)
    assert reader.drain() == []
    assert records(cluster, 1) == []


def test_a_session_does_not_outlive_a_clean_client_with_its_will() -> None:
    """While the will waits, nothing else of the client is left: no subscription, no session to resume."""
    cluster = placed(1, 2)
    follower = cluster.copied("mortal")[1]
    third = other_than(1, follower)
    client = cluster[third].client("mortal", will=WILL)
    client.subscribe(("t", 1))
    cluster[third].kill()
    cluster.until(lambda: cluster[follower].member.view.incarnation(f"n{third}") is None)
    cluster.pass_s(1)
    assert cluster[1].node.router.table("").holders("t") == []
    _, connack = cluster[follower].connect("mortal", clean=False)
    assert not connack.session_present


def test_a_primary_that_has_lost_the_slot_forgets_the_clean_client() -> None:
    cluster = placed(1, 2)
    client = cluster[1].client("mortal", will=WILL)
    client.subscribe(("t", 1))
    reader = live(cluster, cluster.copied("mortal")[1])
    cluster[1].pause_process()
    cluster.taken_over(1, "mortal")
    cluster[1].resume_process()
    cluster.whole()
    cluster.pass_s(9)
    assert [each.payload for each in reader.drain()] == [b"gone"], "its new primary has published it"
    assert cluster[1].node.router.table("").holders("t") == []
    assert cluster[1].node.sessions.known("", "mortal") is None


def test_while_a_slot_has_no_primary_a_clean_client_with_a_will_connects() -> None:
    """Its deputy registers it, and its gateway keeps the will."""
    cluster = placed(1, 2)
    follower = cluster.copied("mortal")[1]
    cluster[follower].kill()
    cluster.until(lambda: len(cluster.row("mortal").in_sync) == 1)
    cluster[1].kill()
    cluster[follower].start()
    third = other_than(1, follower)
    cluster.until(lambda: cluster.row("mortal").primary is None and cluster.row("mortal").deputy is not None, 60)
    reader = live(cluster, third)
    client = cluster[third].client("mortal", will=WILL)
    assert len(cluster[third].node.env.store.keys(b"S", b"T")) == 1
    client.vanish()
    cluster.pass_s(1)
    assert [each.payload for each in reader.drain()] == [b"gone"]


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("back", [False, True])
def test_a_primary_stops_in_order(back: bool, clean: bool) -> None:
    """Its clients go on at the follower: no will of a client that does so is published."""
    cluster = placed(1, 2)
    follower = cluster.copied("mortal")[1]
    reader = live(cluster, follower)
    cluster[1].client("mortal", clean=clean, expiry_s=0 if clean else 600, will=WILL)
    cluster.copied("mortal")
    cluster[1].node.close()
    assert cluster[1].member.goodbye()
    cluster.until(lambda: cluster[1].member.has_left_view)
    cluster[1].kill()
    assert cluster.taken_over(1, "mortal") == follower
    cluster.pass_s(1)
    if back:
        cluster[follower].client("mortal", clean=clean, expiry_s=0 if clean else 600, will=WILL)
    cluster.pass_s(9)
    assert [each.payload for each in reader.drain()] == ([] if back else [b"gone"])


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("back", [False, True])
def test_a_gateway_stops_while_no_other_node_has_the_slot(back: bool, clean: bool) -> None:
    """Its primary goes on with the session: no will of a client that is back soon is published (H-39)."""
    cluster = placed(1, 1)
    cluster.replicator(1).tick = lambda: None  # type: ignore[method-assign]  # it begins no copy
    follower = cluster.lose_follower("mortal")
    cluster[follower].start()
    cluster.whole()
    assert len(cluster.row("mortal").in_sync) == 1
    third = other_than(1, follower)
    reader = live(cluster, 1)
    cluster[third].client("mortal", clean=clean, expiry_s=0 if clean else 600, will=WILL)
    cluster[third].host.stop(lambda: None)
    cluster.pass_s(1)
    if back:
        cluster[follower].client("mortal", clean=clean, expiry_s=0 if clean else 600, will=WILL)
        cluster.pass_s(9)
    else:
        assert reader.drain() == []
        cluster.pass_s(5)
    assert [each.payload for each in reader.drain()] == ([] if back else [b"gone"])


@pytest.mark.parametrize("leaves", thinned([True, False], 2))
@pytest.mark.parametrize("qos", [1, 2])
def test_a_will_comes_once_although_a_member_of_a_group_has_left(qos: int, leaves: bool) -> None:
    """Its node gives the group's part back. The will is open until a slow receiver has it, and its primary dies."""
    cluster = CopiedCluster(4)
    first = cluster[1].client("sub", clean=False, expiry_s=600, will=packets.Will("t", b"will", qos))
    other = next(name for number in range(100_000) if slot_of("", name := f"o{number}") == slot_of("", "sub"))
    second = cluster[1].client(other, clean=False, expiry_s=600, will=packets.Will("t", b"later", qos))
    primary, follower = cluster.copied()
    third, far = [number for number in (1, 2, 3, 4) if number not in (primary, follower)]
    plain, slow, one = (cluster[n].client(name) for n, name in ((third, "plain"), (far, "slow"), (third, "one")))
    plain.subscribe(("t", 2))
    slow.subscribe(("t", 2))
    one.subscribe(("$share/g/t", 2))
    cluster.pass_s(1)
    cluster.network.delay(f"n{primary}", f"n{far}", 1)
    cluster.network.delay(f"n{primary}", f"n{third}", 0.1)
    first.vanish()
    cluster.pass_s(0.03)
    if leaves:
        one.send(packets.Unsubscribe(2, ["$share/g/t"]))
    cluster.pass_s(0.2)
    assert plain.payloads() == [b"will"]
    second.vanish()
    cluster.pass_s(0.2)
    assert plain.payloads() == [b"later"]
    cluster[primary].kill()
    assert cluster.taken_over(primary) == follower
    cluster.pass_s(10)
    assert slow.payloads() == [b"will", b"later"] and plain.payloads() == []
