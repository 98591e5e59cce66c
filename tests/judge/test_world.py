"""What a world answers: whose session it was, where it was, and until when."""

from __future__ import annotations

import pickle
import random

from strogoff.cluster.identity import slot_of
from strogoff.judge.run import Grouped
from strogoff.judge.world import World

from ..testing.log_audit.log_builder import NODE, Log, two_nodes

OWNER = (NODE, "", "rx")


def world(log: Log) -> World:
    return Grouped(log.rows).world()


def test_a_packed_world_is_the_same() -> None:
    """It has all tables of clients: sessions, subscriptions, moves, mountpoints and numbers of connections."""
    log = Log()
    log.subscriber("rx", "t/+", expiry_s=60)
    log.say("conn.open", client="mx", mountpoint="m", conn=7)
    log.say("conn.open", client="old")
    del log.rows[-1]["conn"]  # as in older logs
    log.say("slot.arrive", slot=slot_of("", "rx"))
    plain = world(log)
    packed = pickle.loads(pickle.dumps(plain.packed()))
    for name in ("sessions", "connections", "mountpoints", "moved"):
        assert dict(getattr(packed, name)) == getattr(plain, name), name
    assert packed.mountpoints and packed.connections and packed.session((OWNER, 1)) == plain.sessions[OWNER][0]
    stamp = log.rows[-1]["hlc"]
    both = [list(each.subscriptions.matching("", "t/1")[0].at(stamp)) for each in (plain, packed)]
    assert both[0] == both[1] and len(both[0]) == 1


def test_a_clean_session_dies_with_the_node_where_it_began() -> None:
    """Its slot goes to another node only later."""
    a, b = two_nodes()
    b.say("mem.up", target="a")
    a.subscriber()
    a.boot()
    died = a.rows[-1]["hlc"]
    b.say("slot.arrive", slot=slot_of("", "rx"))
    found = Grouped([*a.rows, *b.rows]).world()
    (session,) = found.sessions["a", "", "rx"]
    assert [each.node for each in session.homes] == ["a", "b"]
    assert found.died(session, died + 1) and not found.died(session, died)


def test_a_world_does_not_depend_on_the_order_of_rows_and_can_be_sent_to_another_process() -> None:
    """This is how Spark gives it to each worker."""
    log = Log()
    log.subscriber("rx", "/".join("abc" * 300), expiry_s=60)
    for _ in range(40):
        log.subscribe("rx", "t/+")
        log.connect("rx", present=True)
    rows = list(log.rows)
    random.Random(1).shuffle(rows)
    first, second = world(log), pickle.loads(pickle.dumps(Grouped(rows).world()))
    assert first.sessions == second.sessions
    stamp = log.rows[-1]["hlc"] + 1
    both = [list(each.subscriptions.matching("", "t/1")[0].at(stamp)) for each in (first, second)]
    assert both[0] == both[1] and len(both[0]) == 1
