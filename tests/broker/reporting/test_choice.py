"""Which messages the event logs have: filters, a lowered level, a writer that does not keep up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strogoff.analytics.schema import MESSAGE, MESSAGE_TYPES, SESSION, validate
from strogoff.broker.reporting.choice import QUIET_MS, Choice
from strogoff.broker.reporting.events import Events
from strogoff.broker.reporting.metrics import Counters
from strogoff.cluster.identity import left_out
from strogoff.judge.run import judge
from strogoff.mqtt import packets
from strogoff.mqtt.packets import Pubrel

from ...harness.broker import BrokerHarness
from ..clustering.copied_cluster import CopiedCluster, subscriber


class Slow:
    """A writer that keeps up, or does not."""

    def __init__(self) -> None:
        self.pressed = False

    def write(self, *_: Any) -> None:
        pass

    def belong_to(self, run_id: str) -> None:
        pass


class Scene:
    """A choice with a writer and a clock that the test sets."""

    def __init__(self, level: int = MESSAGE) -> None:
        self.rows: list[dict[str, Any]] = []
        self.events = Events("n1", 1, "run", lambda: 1000, lambda: 1, level)
        self.writer = Slow()
        self.events.write_to(self.writer)
        self.events.add(self.rows.append)
        self.due: list[tuple[int, Callable[[], None]]] = []
        self.counters = Counters()
        self.choice = Choice(self.events, self.counters, lambda ms, call: self.due.append((ms, call)))

    def look(self) -> None:
        """The time for the next look has come."""
        ((ms, call),) = self.due
        assert ms == QUIET_MS
        self.due.clear()
        call()

    def taken(self, *published: tuple[str, str]) -> list[bool]:
        return [self.choice.takes(client, topic) for client, topic in published]


def test_without_filters_all_messages_have_rows() -> None:
    scene = Scene()
    assert scene.taken(("a", "t"), ("", "$SYS/x")) == [True, True]
    assert (scene.rows, scene.counters.eventlog_messages_left_out) == ([], 0)


def test_filters_name_publishers_and_topics_with_wildcards() -> None:
    """A message that either of them names has rows. Filters may change, and end."""
    scene = Scene()
    scene.choice.filter(["a"], ["x/+", "deep/#"])
    published = ("a", "t"), ("b", "x/1"), ("b", "x/1/2"), ("b", "deep"), ("b", "t"), ("", "$SYS/x")
    assert scene.taken(*published) == [True, True, False, True, False, False]
    assert scene.counters.eventlog_messages_left_out == 3
    scene.choice.filter(["b"], [])
    assert scene.taken(("a", "x/1"), ("b", "t")) == [False, True]
    scene.choice.filter([], ["t"])
    assert scene.taken(("b", "x/1"), ("b", "t")) == [False, True]
    scene.choice.filter([], [])
    assert scene.taken(*published) == [True] * 6


def test_a_lower_level_takes_no_message_more_and_lets_the_others_end() -> None:
    scene = Scene()
    scene.choice.follow_level(SESSION)
    assert scene.taken(("a", "t")) == [False]
    assert scene.events.messages, "rows of messages that were accepted before must come"
    scene.choice.follow_level(MESSAGE)
    assert scene.taken(("a", "t")) == [True]


def test_a_higher_level_takes_messages() -> None:
    scene = Scene(SESSION)
    assert not scene.events.messages
    scene.choice.follow_level(MESSAGE)
    assert scene.events.messages and scene.taken(("a", "t")) == [True]


def test_sampling_begins_when_the_writer_is_pressed_and_ends_a_while_after() -> None:
    """Each begin and each end is a row. The end says how many messages were left out."""
    scene = Scene()
    scene.writer.pressed = True
    assert scene.taken(("a", "t"), ("a", "t")) == [False, False]
    assert scene.choice.sampling and [row["state"] for row in scene.rows] == ["begin"]
    scene.look()
    scene.writer.pressed = False
    assert scene.taken(("a", "t")) == [True]
    scene.writer.pressed = True
    assert scene.taken(("a", "t")) == [False]
    scene.look()
    scene.look()
    assert scene.choice.sampling, "the writer is pressed, even if nobody publishes"
    scene.writer.pressed = False
    scene.look()
    assert not scene.choice.sampling and scene.due == []
    assert [(row["type"], row["state"], row.get("count")) for row in scene.rows] == [
        ("log.sample", "begin", None),
        ("log.sample", "end", 3),
    ]
    assert all(validate(row) == [] for row in scene.rows)
    assert scene.counters.eventlog_messages_left_out == 3
    scene.writer.pressed = True
    assert scene.taken(("a", "t")) == [False]
    scene.look()
    scene.writer.pressed = False
    scene.look()
    assert scene.rows[-1]["count"] == 1


# -- whole messages, on all nodes


def publish_all(cluster: CopiedCluster, number: int, topic: str) -> None:
    """A message of each QoS, a retained one and a will, from a durable client and a clean one, at this node. The slots
    of the clients are there, too."""
    rows = {name: cluster.row(name).primary for name in map(str, range(99))}
    writer, mortal, *_ = (name for name, there in rows.items() if there is not None and there.node == f"n{number}")
    for name, options in ((writer, {"clean": False, "expiry_s": 600}), ("clean", {})):
        client = cluster[number].client(name, 5, **options)  # type: ignore[arg-type]
        for qos in (0, 1, 2):
            client.publish(topic, b"x", qos, qos + 1)
        client.ask(Pubrel(3))
        client.publish(topic, b"x", 1, 9, retain=True)
    will = packets.Will(topic, b"x", 1, False, None)
    cluster[number].client(mortal, 5, will=will).vanish()
    cluster.pass_s(2)


def by_message(cluster: CopiedCluster) -> dict[Any, list[dict[str, Any]]]:
    """The rows of level `message` by the message that they name."""
    found: dict[Any, list[dict[str, Any]]] = {}
    for harness in cluster.nodes:
        for row in harness.host.events:
            if row["type"] in MESSAGE_TYPES and row.get("mid") is not None:
                found.setdefault(tuple(row["mid"]), []).append(row)
    return found


def test_a_message_has_all_its_rows_on_all_nodes_or_none() -> None:
    """Decided where it enters the cluster, whatever the filters of the other nodes are. Its handshakes follow it."""
    cluster = CopiedCluster(level=MESSAGE)
    readers = [subscriber(cluster, qos=2, text="+")]
    here, third = cluster.copied()[0], cluster.third()
    readers.append(cluster[third].client("far"))
    readers[1].subscribe(("+", 2))
    for harness in cluster.nodes:
        harness.node.env.observer.choice.filter([], ["t"] if harness is cluster[here] else ["nothing"])
    since = {harness: len(harness.host.events) for harness in cluster.nodes}
    for topic in ("t", "secret"):
        publish_all(cluster, here, topic)
        for reader in readers:
            assert len(reader.drain()) == 9
        cluster.pass_s(2)
        if topic == "t":
            half = {harness: len(harness.host.events) for harness in cluster.nodes}
    taken = by_message(cluster)
    assert {row["topic"] for rows in taken.values() for row in rows if "topic" in row} == {"t"}
    published = [rows for rows in taken.values() if any(row["type"] == "pub.recv" for row in rows)]
    assert len(published) == 8
    for rows in published:
        kinds = [row["type"] for row in rows]
        assert kinds.count("dlv.send") == 2 and "fwd.recv" in kinds and "fwd.ack" in kinds
    assert all(not left_out(mid[2]) for mid in taken)
    for harness in cluster.nodes:
        later = {row["type"] for row in harness.host.events[half[harness] :]}
        assert not later & (MESSAGE_TYPES - {"store.sync", "q.depth", "map.learn", "map.sync"}), later
    first = {row["type"] for harness in cluster.nodes for row in harness.host.events[since[harness] : half[harness]]}
    assert {"dlv.rel", "dlv.comp", "pub.rel", "pub.comp", "ret.set", "q.durable"} <= first
    assert judge(row for harness in cluster.nodes for row in harness.host.events).verdict == "valid"
    assert cluster[here].node.env.counters.eventlog_messages_left_out == 9


def test_a_message_of_a_leaving_member_is_left_out_with_the_first_one() -> None:
    """The copy that another member of the group gets has a mid of its own."""
    broker = BrokerHarness(level=MESSAGE)
    broker.node.env.observer.choice.filter(["nobody"], [])
    first = broker.persistent("first", 5, receive_maximum=1)
    first.subscribe(("$share/g/t", 1))
    broker.client("writer").publish("t", b"x", 1, 1)
    first.vanish()
    second = broker.persistent("second", 5)
    second.subscribe(("$share/g/t", 1))
    broker.client("first", 5).leave()
    assert second.drain()
    assert not [row for row in broker.host.events if "mid" in row and row["type"] in MESSAGE_TYPES]


def test_a_drop_has_its_row_although_its_message_has_none() -> None:
    """Drops are of level `session`: node.stats counts them. What never was to be kept has none."""
    broker = BrokerHarness(level=MESSAGE, max_offline_messages=1)
    broker.node.env.observer.choice.filter(["nobody"], [])
    broker.persistent("away", 5).subscribe(("t", 1))
    broker.client("away", 5, clean=False, expiry_s=600).vanish()
    writer = broker.client("writer")
    for number, qos in enumerate((1, 1, 0), 1):
        writer.publish("t", b"x", qos, number)
    assert [row["reason"] for row in broker.events("q.drop")] == ["queue_full"]
    broker.node.env.observer.emit_stats()
    (stats,) = broker.events("node.stats")
    assert stats["left_out"] == 3
