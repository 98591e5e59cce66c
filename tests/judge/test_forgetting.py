"""What is forgotten says nothing about what is judged later."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.judge.building import TYPES, Summary, world_of
from strogoff.judge.forgetting import OF_CLIENTS, OF_NODES, needed
from strogoff.judge.planted.generate import PlantedLog
from strogoff.judge.rows import Row

LATER = 1000


def row(hlc: int, kind: str, node: str = "a", **fields: Any) -> Row:
    return {"v": 7, "type": kind, "node": node, "boot": 1, "seq": hlc, "hlc": hlc, **fields}


def kinds(*rows: Row, since: int = LATER) -> list[str]:
    return [f"{each['type']} {each['hlc']}" for each in needed(rows, since)]


def of(hlc: int, kind: str, **fields: Any) -> Row:
    return row(hlc, kind, client="c", epoch=1, **fields)


def test_only_moves_of_slots_stay_for_ever() -> None:
    assert {kind.partition(".")[0] for kind in TYPES - OF_CLIENTS - OF_NODES} == {"slot"}
    assert kinds(row(1, "slot.moved", slot=1), row(2, "slot.moved", slot=1)) == ["slot.moved 1", "slot.moved 2"]


def test_rows_from_the_stamp_on_stay() -> None:
    assert kinds(of(1, "sess.create"), of(2, "sess.end"), since=2) == ["sess.create 1", "sess.end 2"]


def test_a_session_that_ended_is_forgotten() -> None:
    session = [of(1, "conn.open"), of(2, "sess.create"), of(3, "sub.add", filter="t", qos=1), of(4, "conn.close")]
    assert kinds(*session, of(5, "sess.end")) == []
    assert kinds(*session, of(5, "sess.expire")) == []
    again = [of(6, "conn.open"), of(7, "sess.create")]
    assert kinds(*session, of(5, "sess.end"), *again) == ["conn.open 6", "sess.create 7"]
    assert kinds(*session, *again) == ["conn.open 6", "sess.create 7"]


def test_of_a_session_that_goes_on_the_first_row_and_the_last_connection_stay() -> None:
    rows = [of(at, kind) for at, kind in enumerate(("conn.open", "sess.create", "conn.close") * 1)]
    rows += [of(at, kind) for at, kind in enumerate(("conn.open", "sess.resume", "conn.close") * 3, 3)]
    assert kinds(*rows) == ["conn.open 0", "sess.create 1", "conn.open 9", "sess.resume 10", "conn.close 11"]


def test_the_last_subscription_of_a_filter_stays_with_its_answer() -> None:
    rows = [of(0, "sess.create")]
    for at in (1, 3):
        rows += [of(at, "sub.add", filter="t", qos=1), of(at + 1, "sub.ack", filters=["t"], codes=["1"])]
    assert kinds(*rows) == ["sess.create 0", "sub.add 3", "sub.ack 4"]
    gone = [of(5, "sub.del", filter="t"), of(6, "unsub.ack", filters=["t"], codes=["0"])]
    assert kinds(*rows, *gone[:1]) == ["sess.create 0", "sub.add 3", "sub.ack 4", "sub.del 5"]
    assert kinds(*rows, *gone) == ["sess.create 0"]
    assert kinds(*rows, *gone, of(7, "sub.add", filter="t", qos=1)) == ["sess.create 0", "sub.add 7"]


def test_clients_of_other_mountpoints_are_others() -> None:
    ended = of(3, "sess.end", mountpoint="m")
    assert kinds(of(1, "sess.create"), ended) == ["sess.create 1"]


def test_of_a_node_the_last_state_stays() -> None:
    rows = [
        row(1, "node.start", settings=["a=1"]),
        row(2, "mem.view", nodes=["a"]),
        row(3, "lease.get"),
        row(4, "config.change", key="x", new="1"),
        row(5, "config.change", key="x", new="2"),
        row(6, "config.change", key="y", new="1"),
        row(7, "mem.view", nodes=["a", "b"]),
        row(8, "mem.down", target="b"),
        row(9, "lease.lose"),
        *(row(at, kind) for at, kind in enumerate(("log.sample", "node.stats") * 2, 10)),
    ]
    left = ["node.start 1", "config.change 5", "config.change 6", "mem.view 7", "mem.down 8", "lease.lose 9"]
    left += ["log.sample 12", "node.stats 13"]
    assert kinds(*rows) == left
    assert kinds(row(0, "node.start", "b"), *rows) == ["node.start 0", *left]


def test_of_sampling_and_counters_the_last_row_stays() -> None:
    begin, end = row(1, "log.sample", state="begin"), row(2, "log.sample", state="end", count=3)
    stats = [row(hlc, "node.stats", left_out=hlc) for hlc in (3, 4)]
    assert kinds(begin, end, *stats) == ["log.sample 2", "node.stats 4"]
    assert kinds(begin) == ["log.sample 1"]


def test_an_incident_that_healed_is_forgotten() -> None:
    detected = row(1, "split.detect", state="majority", incident=1)
    assert kinds(detected, row(2, "split.change", state="minority")) == ["split.detect 1", "split.change 2"]
    assert kinds(detected, row(2, "split.heal")) == []
    assert kinds(detected, row(2, "node.start")) == ["node.start 2"]


@pytest.mark.parametrize("seed", range(3))
def test_the_sessions_of_later_are_the_same(seed: int) -> None:
    """Of a log with everything that happens: who has a session then, where, and what it has subscribed to."""
    rows = [each for each in PlantedLog(seed, 2000).rows() if each["type"] in TYPES]
    for part in (0.3, 0.6, 0.9):
        since = rows[int(len(rows) * part)]["hlc"]
        left = needed(rows, since)
        assert _present(left, since) == _present(rows, since)
    assert len(left) < len(rows)
    assert needed(left, since) == left


def _present(rows: list[Row], since: int) -> set[Any]:
    world = world_of(rows, Summary({}))
    topics = {row["filter"] for row in rows if row["type"] == "sub.add" and "#" not in row["filter"]}
    found: set[Any] = set()
    for owner, sessions in world.sessions.items():
        for each in sessions:
            if each.ended >= since:
                found.add((owner, each.ended, each.durable, each.home_at(since).node))
    for topic in topics:
        for holders in world.subscriptions.matching("", topic.removeprefix("$share/g/")):
            present = [held for held in holders.at(since) if world.session(held.session).ended >= since]
            found |= {(holders.text, held.session[0], held.qos) for held in present}
    return found
