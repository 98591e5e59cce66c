"""Every event type of the schema comes from the broker, and every optional field is filled at least once.

Clusters and nodes run here through everything that the event log tells. A type that nobody emits any more, or a field
that nobody fills, fails: delete it from the schema, or emit it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from strogoff.analytics.schema import HEADER, MESSAGE, TYPES, validate
from strogoff.broker.clustering.forward_codec import Head, encode_head
from strogoff.broker.process.server import Server
from strogoff.broker.reporting.redaction import Redactor
from strogoff.cluster.links.ports import Lane
from strogoff.cluster.links.settings import LinkSettings
from strogoff.cluster.membership import commit_pace
from strogoff.cluster.ports import Settings
from strogoff.cluster.slots.recovery import orphans, requests
from strogoff.mqtt import packets
from strogoff.mqtt.packets import Puback, Pubrec, Pubrel
from strogoff.netsplit.policy import ViewState
from strogoff.sim.engine import cluster_host
from strogoff.testing import Cluster
from strogoff.testing.log_audit.log_files import read_log

from ...harness.broker import BrokerHarness, publish
from ...harness.cluster import ClusterHarness
from ..clustering.balanced_cluster import BalancedCluster
from ..clustering.copied_cluster import CopiedCluster, subscriber
from ..clustering.moving_cluster import MovingCluster
from ..process.test_server import during, make

NOT_HERE: Final[dict[str, str]] = {}
"""A type, or a type and a field, that cannot come here, and why."""

Rows = Iterable[Mapping[str, Any]]


class Refuses:
    """A plugin that refuses each PUBLISH to `secret`."""

    def auth_on_register(self, *_: Any) -> bool:
        return True

    def auth_on_publish(self, *given: Any) -> bool:
        return "secret" not in given[3]

    def auth_on_subscribe(self, *_: Any) -> bool:
        return True


def at_one_node() -> Rows:
    """Messages of each QoS, drops and expiries, retained messages, wills, takeovers, refusals, a sick disk."""
    broker = BrokerHarness(
        Refuses(),
        level=MESSAGE,
        max_online_messages=2,
        max_offline_messages=2,
        max_client_id_size=9,
        max_unanswered_packets=9,
    )
    broker.connect("much too long a client id", 4, username="user")
    reader = broker.persistent("reader", 5, username="user", receive_maximum=2)
    reader.subscribe(("t/#", 2), ("$share/g/s", 1))
    writer = broker.client("writer", 5, username="user")
    for number, qos in enumerate((0, 1, 2), 1):
        writer.publish("t/a", b"x", qos, number)
    writer.publish("s", b"x", 1, 4)
    writer.ask(Pubrel(3))
    for message in reader.messages():
        if message.qos == 2:
            reader.ask(Pubrec(message.packet_id))
            reader.ask(Pubrel(message.packet_id), packets.Pubcomp(message.packet_id))
        elif message.qos:
            reader.ask(Puback(message.packet_id))
    writer.publish("secret", b"x", 1, 5)
    for number in range(6, 12):
        writer.publish("t/b", b"x", 1, number)
    reader.vanish()
    writer.publish("t/zero", b"x")
    broker.client("expiring", 5, expiry_s=99).subscribe(("e", 1))
    broker.client("expiring", 5, clean=False, expiry_s=99).vanish()
    writer.publish("e", b"x", 1, 20, message_expiry_interval=1)
    broker.pass_s(5)
    broker.client("expiring", 5, clean=False, expiry_s=99)
    broker.hold_disk()
    writer.send(*[publish("e", b"x", 1, number) for number in range(30, 50)])
    broker.pass_s(7)
    broker.free_disk()
    writer.send(packets.Connect("writer", 5))
    broker.settle()
    broker.restart()
    reader = broker.persistent("reader", 5, username="user", receive_maximum=1)
    broker.persistent("reader", 5, username="other").unsubscribe("t/#")
    return broker.host.events


def one_node_and_its_memory() -> Rows:
    """Retained messages with their limits, a client that does not read, wills, sessions that expire, a full disk."""
    broker = BrokerHarness(level=MESSAGE, retained_max_messages=2, expire_retain_cache_s=1)
    writer = broker.client("writer", 5, username="user")
    for number, topic in enumerate("abc", 1):
        writer.publish(f"r/{topic}", b"x", 1, number, retain=True)
    writer.publish("r/a", b"", 1, 9, retain=True)
    broker.client("reader", 5).subscribe(("r/#", 1))
    (connection,) = [each for each in broker.node.connections.values() if each.client_id == "reader"]
    for flag in (False, True):
        connection.writable(flag)
        broker.pass_s(2)
    will = packets.Will("w", b"x", 1, False, {"will_delay_interval": 5})
    broker.client("mortal", 5, expiry_s=9, will=will).vanish()
    broker.client("polite", 5, will=packets.Will("w", b"x", 1, False, None)).leave()
    broker.client("back", 5, expiry_s=9, will=will).vanish()
    broker.client("back", 5, clean=False, expiry_s=9)
    broker.pass_s(30)
    broker.disk.full = True
    broker.node.env.store.put(b"nx", b"")
    broker.pass_s(5)
    broker.node.env.observer.emit_stats()
    return broker.host.events


def copies_and_relays() -> Rows:
    """Messages over links and relays, a member that dies, is slow, comes back, and copies that differ."""
    cluster = CopiedCluster(level=MESSAGE, queue_check_interval_s=0)
    reader = subscriber(cluster)
    primary, follower = cluster.copied()
    third = cluster.third()
    writer = cluster[third].client("writer", username="user")
    cluster[third].client("relayed", clean=False, expiry_s=600, username="user")
    for qos in (0, 1, 2):
        writer.publish("t", b"x", qos, 1 + qos)
    cluster.pass_s(1)
    reader.drain()
    cluster[third].client("sub", clean=False, expiry_s=600).leave()
    cluster.all_copied()
    cluster[follower].disks[0].rot(next(key for key in cluster.rows(follower) if key[:1] == b"b"), None)
    clustering = cluster[primary].host.clustering
    assert clustering is not None
    clustering.slots.check.begin([cluster.slot])
    cluster.pass_s(5)
    cluster[primary].kill()
    writer.publish("t", b"x", 0, 9)
    cluster.taken_over(primary)
    cluster[primary].start()
    cluster.whole()
    return of_all(cluster)


def slow_disk() -> Rows:
    """The disk of a member is slow, and quick again."""
    cluster = CopiedCluster(level=MESSAGE)
    subscriber(cluster).leave()
    _, follower = cluster.copied()
    cluster.all_copied()
    cluster[follower].disks[0].latency_s = (0.6, 0.7)
    cluster.until(lambda: all(harness.member.slow for harness in cluster.nodes), 60)
    cluster[follower].disks[0].latency_s = (0.0002, 0.005)
    with pytest.MonkeyPatch.context() as shorter:
        shorter.setattr(commit_pace, "HOLD_MS", 10_000)
        cluster.until(lambda: not any(harness.member.slow for harness in cluster.nodes), 60)
    cluster.pass_s(1)
    return of_all(cluster)


def splits() -> Rows:
    """A short silence, a minority and a majority, policies that refuse, park and accept."""
    cluster = ClusterHarness(3, level=MESSAGE)
    clients = [cluster[number].client(f"c{number}", username="user") for number in (1, 2, 3)]
    cluster[3].pause_process()
    cluster.pass_s(1.2)
    cluster[3].resume_process()
    cluster.pass_s(2)
    cluster.isolate(3)
    cluster.state_of(3, ViewState.MINORITY)
    clients[2].publish("t", b"x", 1, 1)
    cluster.state_of(1, ViewState.MAJORITY)
    clients[0].publish("t", b"x", 0, 2)
    cluster[2].kill()
    cluster.state_of(1, ViewState.MINORITY)
    cluster[2].start()
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(5)
    return of_all(cluster)


def moves() -> Rows:
    """A slot moves, and another move ends without effect."""
    cluster = MovingCluster(level=MESSAGE)
    client = cluster[1].client("sub", clean=False, expiry_s=600)
    client.subscribe(("t", 1))
    client.leave()
    cluster.cut_while_copying()
    cluster.ended()
    cluster.network.heal()
    cluster.whole()
    cluster.move(3)
    cluster.pass_s(5)
    return of_all(cluster)


def balance() -> Rows:
    """A member comes back and gets its slots; another one dies meanwhile."""
    cluster = BalancedCluster(level=MESSAGE)
    cluster.back(3)
    cluster.first_move()
    cluster.pass_s(1)
    cluster[1].kill()
    cluster.until(lambda: len(cluster[2].member.view.serving) == 2)
    cluster.pass_s(1)
    cluster[1].start()
    cluster.whole()
    cluster.all_placed()
    return of_all(cluster)


def few_copies() -> Rows:
    """Slots have fewer copies than an operator wants."""
    cluster = CopiedCluster(level=MESSAGE)
    subscriber(cluster).leave()
    cluster.all_copied()
    for harness in cluster.nodes:
        harness.node.options.queue_min_in_sync = 2
    cluster.lose_follower()
    cluster.pass_s(60)
    return of_all(cluster)


def given_up() -> Rows:
    """A cluster gives up the disks with the only copies of slots, or takes a copy that may lack changes."""
    cluster = CopiedCluster(5, level=MESSAGE, durability="os")
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    for number in (primary, follower):
        cluster[number].kill(power=True)
    cluster.until(lambda: cluster.row().primary is None, 30)
    cluster[primary].start()
    cluster.until(cluster[primary].member.leased, 30)
    member = cluster[primary].member
    rows = [row for row in orphans(member.slots) if row.slot == cluster.slot]
    member.recover_slots(tuple(requests(rows, member.membership.holders(), member.view.serving)))
    cluster.until(lambda: cluster.row().primary is not None)
    return of_all(cluster)


def away() -> Rows:
    """A member reads nothing any more, and messages are dropped. It comes back with another disk. A frame is junk."""
    with pytest.MonkeyPatch.context() as smaller:
        smaller.setattr(cluster_host, "Settings", lambda: Settings(links=LinkSettings(buffer_bytes=1 << 20)))
        cluster = ClusterHarness(3, level=MESSAGE)
    cluster[2].client("reader", clean=False, expiry_s=600).subscribe(("t", 1))
    cluster[2].client("mobile")
    cluster[1].client("mobile")
    cluster[1].member.links.send("n3", Lane.PUBLISH, encode_head(Head(0, True)) + b"junk")
    writers = [cluster[1].client(f"writer{number}") for number in range(4)]
    cluster[2].pause_process()
    for writer in writers:
        writer.publish("t", bytes(900_000))
    cluster[2].kill()
    cluster.until(lambda: "n2" not in cluster[1].member.view.serving)
    cluster[2].replace_disk()
    cluster[2].host.start()
    assert cluster[2].join() == ""
    cluster.whole()
    return of_all(cluster)


def joins() -> Rows:
    """A node joins a cluster, and stops."""
    cluster = ClusterHarness(2, joined=False, level=MESSAGE)
    cluster[2].join()
    cluster[2].node.close()
    cluster[2].node.stopped()
    return of_all(cluster)


def with_hashes() -> Rows:
    """Rows as a node writes them that replaces names."""
    redactor = Redactor(b"a key of a test")
    envelope = {each.name for each in HEADER}
    for row in (*at_one_node(), *one_node_and_its_memory()):
        fields = {name: value for name, value in row.items() if name not in envelope}
        yield {name: row[name] for name in envelope} | redactor.fields(row["type"], fields)


def sampling(server: Server) -> None:
    """The writer does not keep up, and leaves a message out."""
    assert server.eventlog is not None
    ring, observer = server.eventlog._ring, server.node.env.observer
    size, ring._size, ring._pressed = ring._size, 1 << 30, True
    assert not observer.choice.takes("client", "topic")
    ring._size = size
    for _ in range(2):
        observer.choice._look()
    observer.emit_stats()


def processes(folder: Path) -> Rows:
    """Two starts of a server with its files: settings change, and a row cannot be written."""

    async def change(server: Server) -> None:
        server.runtime.set("max_inflight_messages", "3")
        server.node.env.event("lease.lose", view=1, detail="\ud800")
        sampling(server)

    async def nothing(_: Server) -> None: ...

    async def run() -> None:
        await during(make(folder), change)
        await during(make(folder), nothing)

    asyncio.run(run())
    return read_log(folder)[0]


def faults() -> Rows:
    """What tests inject."""

    async def run() -> Rows:
        async with Cluster(nodes=2) as c:
            c.drop("PUBACK")
            await c.partition({0}, {1})
            await c.heal()
            await c.one_way(0, 1)
            await c.heal()
            await c.pause(1)
            await c.resume(1)
            await c.kill(1)
            return c.rows

    return asyncio.run(run())


def of_all(cluster: ClusterHarness) -> Rows:
    """Returns the rows of all nodes."""
    return [row for harness in cluster.nodes for row in harness.host.events]


def of_rows(rows: Rows) -> dict[str, set[str]]:
    """Returns the fields that are filled, by type."""
    found: dict[str, set[str]] = {}
    for row in rows:
        assert validate(row) == [], row
        found.setdefault(row["type"], set()).update(name for name, value in row.items() if value is not None)
    return found


def gaps(found: Mapping[str, set[str]]) -> list[str]:
    """Returns the types that never came, and optional fields that nobody has filled."""
    never = [name for name in TYPES if name not in found]
    empty = [f"{name}: {field}" for name in found for field in TYPES[name].optional if field not in found[name]]
    return [each for each in never + empty if each not in NOT_HERE]


@pytest.mark.slow
def test_every_type_comes_and_every_field_is_filled(tmp_path: Path) -> None:
    stages = (at_one_node, one_node_and_its_memory, copies_and_relays, slow_disk, splits, moves, balance, few_copies)
    rows = [row for stage in (*stages, given_up, away, joins, faults, with_hashes) for row in stage()]
    found = of_rows([*rows, *processes(tmp_path)])
    assert gaps(found) == []
    assert not {*NOT_HERE} & {*found}, "what comes needs no excuse"


def test_what_is_missing_is_named() -> None:
    found = {name: {*each.required, *each.optional} for name, each in TYPES.items() if name != "node.join"}
    found["node.stop"].remove("reason")
    assert gaps(found) == ["node.join", "node.stop: reason"]
