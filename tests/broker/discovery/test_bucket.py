"""What a node writes into a bucket, and what it concludes from it."""

from __future__ import annotations

import msgspec
import pytest

from strogoff.broker.discovery.bucket import (
    FORGET_S,
    HEARTBEAT_S,
    STALE_S,
    SWEEP_S,
    BadObject,
    Bucket,
    Delete,
    Entry,
    Founder,
    Get,
    List,
    Put,
    judged,
)
from strogoff.broker.discovery.source import Announcement

ME = Announcement("VerneMQ@n1", "10.0.0.1:44053", "disk 1", 7)
OTHER = Announcement("VerneMQ@n2", "10.0.0.2:44053", "disk 2", 3)
MINE, THEIRS = "p/nodes/VerneMQ@n1", "p/nodes/VerneMQ@n2"


def announced(now_s: float = 0.0) -> Bucket:
    """What this node knows after it has written its object."""
    bucket = Bucket(ME, "p/")
    first = bucket.next(now_s, True)
    assert first == Put(MINE, msgspec.json.encode(ME))
    bucket.wrote(now_s, "mine")
    return bucket


def test_a_node_announces_itself_lists_and_reads_the_others() -> None:
    bucket = announced()
    assert bucket.next(1.0, True) == List("p/nodes/")
    bucket.listed(1.0, [Entry(MINE, "mine", 1.0), Entry(THEIRS, "theirs", 30.0)])
    assert not bucket.addresses
    get = bucket.next(2.0, True)
    assert get == Get(THEIRS, "theirs")
    bucket.read(get, msgspec.json.encode(OTHER))
    assert bucket.addresses == ("10.0.0.2:44053",) and bucket.lives(Founder(OTHER.node, OTHER.disk))
    assert bucket.next(3.0, True) == List("p/nodes/")  # as long as it looks
    assert not bucket.twin


def test_an_object_is_read_again_only_after_it_has_changed() -> None:
    bucket = announced()
    bucket.listed(1.0, [Entry(THEIRS, "theirs", 1.0)])
    bucket.read(Get(THEIRS, "theirs"), msgspec.json.encode(OTHER))
    bucket.listed(2.0, [Entry(THEIRS, "theirs", 2.0)])
    assert isinstance(bucket.next(3.0, True), List)
    bucket.listed(3.0, [Entry(THEIRS, "changed", 0.0)])
    assert bucket.next(4.0, True) == Get(THEIRS, "changed")


def test_the_freshest_object_is_read_first() -> None:
    bucket = announced()
    bucket.listed(1.0, [Entry("p/nodes/a", "a", 40.0), Entry("p/nodes/z", "z", 2.0)])
    assert bucket.next(2.0, True) == Get("p/nodes/z", "z")


def test_an_object_that_nobody_writes_any_more_counts_no_more() -> None:
    bucket = announced()
    bucket.listed(1.0, [Entry(THEIRS, "theirs", STALE_S - 1)])
    bucket.read(Get(THEIRS, "theirs"), msgspec.json.encode(OTHER))
    assert bucket.addresses
    bucket.listed(2.0, [Entry(THEIRS, "theirs", STALE_S)])
    assert bucket.addresses == () and not bucket.lives(Founder(OTHER.node, OTHER.disk))


def test_a_node_writes_its_object_again_and_again() -> None:
    bucket = announced()
    assert bucket.next(HEARTBEAT_S - 0.1, False) == List("p/nodes/")
    bucket.listed(HEARTBEAT_S - 0.1, [])
    assert bucket.next(HEARTBEAT_S - 0.05, False) is None
    assert isinstance(bucket.next(HEARTBEAT_S, False), Put)


def test_a_member_lists_now_and_then_and_deletes_what_is_gone() -> None:
    bucket = announced(SWEEP_S - 1)
    bucket.listed(1.0, [])
    assert bucket.next(SWEEP_S, False) is None
    assert bucket.next(SWEEP_S + 1, False) == List("p/nodes/")
    bucket.listed(SWEEP_S + 1, [Entry(THEIRS, "theirs", FORGET_S), Entry(MINE, "mine", FORGET_S)])
    assert isinstance(bucket.next(SWEEP_S + 2, True), List)  # a node that looks deletes nothing
    assert bucket.next(SWEEP_S + 2, False) == Delete(THEIRS)
    bucket.deleted(THEIRS)
    assert bucket.next(SWEEP_S + 3, False) is None


def test_a_wrong_object_is_named_once_and_the_others_are_used() -> None:
    bucket = announced()
    bucket.listed(1.0, [Entry("p/nodes/a", "a", 1.0), Entry(THEIRS, "theirs", 2.0)])
    with pytest.raises(BadObject, match="p/nodes/a is not the object of a node"):
        bucket.read(Get("p/nodes/a", "a"), b'{"node": 5}')
    assert bucket.next(2.0, True) == Get(THEIRS, "theirs")
    bucket.read(Get(THEIRS, "theirs"), None)  # deleted meanwhile
    assert bucket.addresses == () and isinstance(bucket.next(3.0, True), List)


def test_another_process_with_the_name_of_this_node_is_noticed() -> None:
    bucket = announced()
    bucket.listed(1.0, [Entry(MINE, "not mine", 0.0)])
    assert bucket.twin
    bucket.listed(2.0, [Entry(MINE, "mine", 0.0)])
    assert not bucket.twin


def test_a_name_with_a_slash_stays_one_key() -> None:
    bucket = Bucket(Announcement("a/b@c", "h:1", "d", 1), "")
    assert bucket.key == "nodes/a%2Fb@c"
    bucket.listed(0.0, [Entry("nodes/x%2Fy@z", "e", 0.0)])
    assert bucket.lives(Founder("x/y@z", "d"))


def test_a_founder_with_another_disk_founds_no_more() -> None:
    bucket = announced()
    bucket.listed(1.0, [Entry(THEIRS, "theirs", 1.0)])
    assert bucket.lives(Founder(OTHER.node, "old disk"))  # its object is not read yet
    bucket.read(Get(THEIRS, "theirs"), msgspec.json.encode(OTHER))
    assert bucket.lives(Founder(OTHER.node, OTHER.disk)) and not bucket.lives(Founder(OTHER.node, "old disk"))


PLACE = "s3://b/p/founder"


def test_the_founder_may_found_with_the_disk_that_it_had() -> None:
    assert judged(Founder(ME.node, ME.disk), ME, True, PLACE) == ""
    assert "says that VerneMQ@n1 founded a cluster (then)" in judged(Founder(ME.node, "old", "then"), ME, True, PLACE)


def test_others_wait_for_a_founder_that_lives_and_need_an_operator_otherwise() -> None:
    founder = Founder(OTHER.node, OTHER.disk)
    assert judged(founder, ME, True, PLACE) == "VerneMQ@n2 is about to found the cluster"
    said = judged(founder, ME, False, PLACE)
    assert said.startswith(f"{PLACE} says that VerneMQ@n2 founded a cluster, and no") and "cluster found" in said
