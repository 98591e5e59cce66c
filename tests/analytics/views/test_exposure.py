"""Acknowledged messages that one machine alone keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strogoff.cluster.identity import slot_of

from .story import DAY, SPARK, Story, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = SPARK


def kept(story: Story, ms: int, number: int, client: str = "a", **more: Any) -> str:
    """A queue of a node takes a message, which is as safe as configured at once. Returns its id."""
    mid = f"n1/000001/{number:012d}"
    story.at(ms, "q.enq", mid=mid, client=client, epoch=1, qos=1)
    given = {"lsn": number, "durability": "os", "copied": False, **more}
    story.at(ms, "q.durable", mid=mid, client=client, epoch=1, **given)
    return mid


def acked(story: Story, ms: int, mid: str) -> None:
    story.at(ms, "pub.ack", mid=mid, client="tx", conn=1, code=0)


def answered(story: Story, ms: int, mid: str, client: str = "a") -> None:
    story.at(ms, "dlv.ack", mid=mid, client=client, conn=1, code=0)


def second(text: str) -> str:
    return f"{DAY}11:00:{text}.000Z"


def test_messages_and_their_age_by_second(spark: SparkSession) -> None:
    """Three messages in memory: one is exposed for 3.2 s, one for 0.3 s, the last one until the log ends."""
    from strogoff.analytics.views.exposure import view

    story = Story()
    one, two = kept(story, 100, 1), kept(story, 1000, 2)
    acked(story, 300, one)
    acked(story, 1200, two)
    answered(story, 1500, two)
    answered(story, 3500, one)
    acked(story, 5000, kept(story, 5000, 3))
    kept(story, 5100, 4)  # never acknowledged
    acked(story, 5200, kept(story, 5200, 5, durability=None))  # as in older logs
    story.at(7000, "node.stop")
    expected = [
        (second("00"), 1, 1, 700),
        (second("01"), 2, 1, 1700),
        (second("03"), 1, 0, 3200),
        (second("05"), 1, 1, 1000),
        (second("07"), 1, 1, 3000),
    ]
    found = shown(view(story.events(spark)))
    for risk in ("unsynced", "uncopied", "alone"):
        assert [row[2:] for row in found if row[1] == risk] == expected
    assert {row[0] for row in found} == {"n1"} and len(found) == 15


def test_fsync_and_copies_end_the_exposure(spark: SparkSession) -> None:
    """Each row is one kind of entry. What is safe before its acknowledgement is not exposed at all."""
    from strogoff.analytics.views.exposure import view

    story = Story()
    acked(story, 10, kept(story, 0, 1, durability="sync"))
    acked(story, 2010, kept(story, 2000, 2, copied=True))
    synced = [kept(story, 4000, number) for number in (3, 4)]
    for mid in synced:
        acked(story, 4000, mid)
    story.at(4100, "store.sync", lsn=3, bytes=1)
    story.at(4200, "store.sync", lsn=4, bytes=1)
    story.at(4300, "store.sync", lsn=5, bytes=1)
    acked(story, 4500, kept(story, 4400, 5))
    early = "n1/000001/000000000006"  # acknowledged before it was on the disk
    story.at(6000, "q.enq", mid=early, client="a", epoch=1, qos=1)
    acked(story, 6100, early)
    story.at(6150, "q.durable", mid=early, client="a", epoch=1, lsn=6, durability="sync", copied=True)
    for number in range(1, 7):
        answered(story, 8000, f"n1/000001/{number:012d}")
    story.at(8500, "node.stop")
    found: dict[str, list[tuple[Any, ...]]] = {}
    for node, risk, *row in shown(view(story.events(spark))):
        assert node == "n1"
        found.setdefault(risk, []).append(tuple(row))
    # the second one is copied, and waits for the first fsync that goes so far
    assert found["unsynced"] == [(second("02"), 1, 1, 990), (second("04"), 3, 0, 2090), (second("06"), 1, 0, 50)]
    assert found["uncopied"] == [
        (second("00"), 1, 1, 990),
        (second("04"), 4, 4, 4990),
        (second("08"), 4, 0, 7990),
    ]
    assert found["alone"] == [(second("04"), 2, 0, 200)]


def test_a_later_copy_of_the_slot_ends_the_exposure(spark: SparkSession) -> None:
    """As after a node was away: the queue's node gives the node that came back a copy of the slot, with what waits."""
    from strogoff.analytics.views.exposure import view

    story = Story()
    slot = slot_of("", "a")
    story.at(0, "slot.copied", slot=slot, target="n2", bytes=1)
    acked(story, 110, kept(story, 100, 1))
    story.at(200, "slot.copied", slot=slot + 1, target="n3", bytes=1)
    story.at(200, "slot.copied", "n2", slot=slot, target="n3", bytes=1)
    story.at(610, "slot.copied", slot=slot, target="n3", bytes=1)
    acked(story, 2010, kept(story, 2000, 2, "hash"))  # the log tells the slot where names are hashes
    story.at(2000, "sess.create", client="hash", epoch=1, slot=7)
    story.at(2310, "slot.copied", slot=7, target="n3", bytes=1)
    story.at(4000, "node.stop")
    found: dict[str, list[tuple[Any, ...]]] = {}
    for node, risk, *row in shown(view(story.events(spark))):
        assert node == "n1"
        found.setdefault(risk, []).append(tuple(row))
    assert found["uncopied"] == found["alone"] == [(second("00"), 1, 0, 500), (second("02"), 1, 0, 300)]
    assert found["unsynced"][-1] == (second("04"), 2, 2, 4890)


def test_a_message_counts_once_at_each_node(spark: SparkSession) -> None:
    """However many queues have it: until the last one is rid of it."""
    from strogoff.analytics.views.exposure import view

    story = Story()
    mid = kept(story, 0, 1)
    kept(story, 0, 1, "b")
    story.at(0, "q.enq", "n2", mid=mid, client="c", epoch=1, qos=1)
    story.at(0, "q.durable", "n2", mid=mid, client="c", epoch=1, lsn=1, durability="os", copied=False)
    acked(story, 1, mid)
    answered(story, 11, mid)
    answered(story, 21, mid, "c")
    answered(story, 31, mid, "b")
    found = [row for row in shown(view(story.events(spark))) if row[1] == "alone"]
    assert found == [("n1", "alone", second("00"), 1, 0, 30), ("n2", "alone", second("00"), 1, 0, 20)]
