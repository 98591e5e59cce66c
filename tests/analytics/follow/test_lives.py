"""Which rows belong to a message, and which to a client."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.analytics.event_lines import line_of
from strogoff.analytics.follow import lives
from strogoff.analytics.follow.lives import ClientLife, Life, MessageLife
from strogoff.judge.planted.generate import PlantedLog

Row = dict[str, Any]


def planted(*cases: str, seed: int = 1) -> list[Row]:
    """Returns the rows of a log with these cases, in order."""
    made = PlantedLog(seed, 400, cases).rows()
    return [{key: value for key, value in row.items() if key != "known_seq"} for row in made]


def of(life: Life, rows: list[Row]) -> list[Row]:
    """Returns the rows that a life takes. Each must be wanted by its line already."""
    return [row for row in rows if life.wants(line_of(row)) and life.takes(row)]


def steps(number: int, **fields: Any) -> Row:
    """Returns a row at n1."""
    common = {"v": 6, "run_id": "r", "node": "n1", "boot": 1, "seq": number, "hlc": number << 16, "mono_ns": 1}
    return {**common, **fields}


def test_the_life_of_a_message_is_all_rows_with_its_mid() -> None:
    rows = planted()
    mids = sorted({row["mid"] for row in rows if row["type"] == "pub.recv" and row["qos"] == 1})
    for mid in mids[:40]:
        assert of(MessageLife(mid), rows) == [row for row in rows if row.get("mid") == mid]


def test_qos_2_has_its_last_steps() -> None:
    rows = planted()
    twos = [row for row in rows if row["type"] == "dlv.send" and row["qos"] == 2]
    assert twos
    for send in twos[:20]:
        life = MessageLife(send["mid"])
        kinds = [row["type"] for row in of(life, rows) if row.get("client") == send["client"]]
        assert kinds[-3:] == ["dlv.ack", "dlv.rel", "dlv.comp"]
        assert kinds.count("dlv.rel") == kinds.count("dlv.comp") == 1


def test_the_end_of_a_session_that_has_the_message() -> None:
    mid = ("n1", 1, 5)
    enq = steps(1, type="q.enq", mid=mid, client="rx", epoch=3, topic="t", qos=1)
    end = steps(2, type="sess.end", client="rx", epoch=3, reason="clean_start")
    assert of(MessageLife(mid), [enq, end]) == [enq, end]
    assert of(MessageLife(mid), [enq, end | {"epoch": 2}]) == [enq]
    assert of(MessageLife(mid), [end]) == []


def test_a_message_with_a_number_that_begins_alike() -> None:
    rows = [steps(1, type="fwd.recv", mid=("n1", 1, counter), source="n2") for counter in (5, 55)]
    assert of(MessageLife(("n1", 1, 5)), rows) == rows[:1]


def test_the_life_of_a_client_has_its_rows_and_all_hops_of_its_messages() -> None:
    rows = planted()
    for client in ("tx1", "rx3", "worker0"):
        own = {row["mid"] for row in rows if row["type"] == "pub.recv" and row["client"] == client}
        expected = [row for row in rows if row.get("client") == client or row.get("mid") in own]
        assert of(ClientLife(client), rows) == expected
    assert len({row["node"] for row in of(ClientLife("tx1"), rows)}) == 3


def test_the_mountpoint_of_a_row_is_that_of_its_connection() -> None:
    opened: Row = {"type": "conn.open", "client": "c", "peer": "p", "version": 5}
    here = [
        steps(1, **opened, conn=1, mountpoint="m"),
        steps(2, type="sub.add", client="c", epoch=1, filter="t", qos=1, mountpoint="m"),
        steps(3, type="dlv.ack", mid=("n1", 1, 1), client="c", conn=1, packet_id=1, code=0),
        steps(4, type="conn.close", client="c", conn=1, reason="x", mountpoint="m"),
    ]
    there = [
        steps(5, **opened, conn=2),
        steps(6, type="sub.add", client="c", epoch=1, filter="t", qos=1),
        steps(7, type="dlv.ack", mid=("n1", 1, 1), client="c", conn=2, packet_id=1, code=0),
        steps(8, type="conn.close", client="c", conn=2, reason="x"),
    ]
    unknown = steps(9, type="dlv.ack", mid=("n1", 1, 1), client="c", conn=3, packet_id=1, code=0)
    rows = [*here, *there, unknown]
    assert of(ClientLife("c", "m"), rows) == [*here, unknown]
    assert of(ClientLife("c", ""), rows) == [*there, unknown]
    assert of(ClientLife("c"), rows) == rows


def test_what_became_of_a_client_names_messages_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = planted("lost-on-a-link")
    client = "c0-0-tx"
    life = ClientLife(client)
    assert of(life, rows)
    counts, lost = life.became()
    assert counts.startswith("1 connections, 1 messages published, 1 of them acknowledged, 0 messages sent to it")
    assert "no row says it arrived" in lost
    monkeypatch.setattr(lives, "MOST_OPEN", 0)
    assert life.became()[1:] == ["1 more messages without an end"]


def sent_to(client: str, counter: int = 1, epoch: int = 3) -> list[Row]:
    """Returns the rows of a message of tx that waits for a client."""
    mid = ("n1", 1, counter)
    return [
        steps(counter, type="pub.recv", mid=mid, client="tx", topic="t", qos=1, conn=1),
        steps(counter, type="q.enq", mid=mid, client=client, epoch=epoch, topic="t", qos=1),
    ]


def test_the_end_of_a_session_is_the_end_of_what_it_had() -> None:
    """As in the life of the message."""
    life = ClientLife("tx")
    rows = [*sent_to("rx"), *sent_to("rx", 2, epoch=4), *sent_to("other", 3)]
    end = steps(9, type="sess.end", client="rx", epoch=3, reason="clean_start")
    nobody = steps(9, type="sess.expire", client="nobody", epoch=3)
    assert of(life, [*rows, end, end | {"epoch": 2}, nobody]) == [*rows, end]
    assert life.depth(end) == 1
    assert life.became()[1:] == [
        "message n1/1/2: rx: waits in the queue at n1",
        "message n1/1/3: other: waits in the queue at n1",
    ]
    assert of(ClientLife("tx"), [end]) == []


def test_a_forgotten_message_waits_for_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lives, "MOST_MESSAGES", 1)
    life = ClientLife("tx")
    assert of(life, [*sent_to("rx"), *sent_to("other", 2)])
    ends = [steps(9, type="sess.expire", client=client, epoch=3) for client in ("rx", "other")]
    assert of(life, ends) == ends[1:]


def test_a_will_is_a_message_that_its_client_published() -> None:
    mid = ("n2", 1, 7)
    fire = steps(1, type="will.fire", client="willy", topic="t", mid=mid)
    hops = [
        steps(2, type="q.enq", mid=mid, client="rx", epoch=3, topic="t", qos=1),
        steps(3, type="fwd.recv", mid=mid, source="n2"),
    ]
    life = ClientLife("willy")
    assert of(life, [fire, *hops]) == of(MessageLife(mid), [fire, *hops]) == [fire, *hops]
    assert [life.depth(row) for row in (fire, *hops)] == [0, 1, 1] == [MessageLife(mid).depth(r) for r in (fire, *hops)]
    counts, waiting = life.became()
    assert counts.endswith("1 wills published")
    assert waiting == "message n2/1/7: rx: waits in the queue at n1"


def test_a_log_without_messages_is_not_taken_for_a_client_without_messages() -> None:
    life = ClientLife("c")
    opened = steps(1, type="conn.open", client="c", conn=1, mountpoint="")
    assert of(life, [opened]) == [opened]
    assert life.became()[1:] == [
        "the log has no message that it published or got: there was none, or eventlog.level was not message"
    ]
    got = steps(2, type="dlv.send", mid=("n1", 1, 1), client="c", conn=1, packet_id=1, qos=1)
    assert of(life, [got]) == [got]
    assert life.became()[1:] == []


def test_the_messages_that_are_followed_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lives, "MOST_MESSAGES", 1)
    recv = [steps(n, type="pub.recv", mid=("n1", 1, n), client="c", topic="t", qos=1, conn=1) for n in (1, 2)]
    hops = [steps(n, type="fwd.recv", mid=("n1", 1, n - 2), source="n1") for n in (3, 4)]
    assert of(ClientLife("c"), [*recv, *hops]) == [*recv, hops[1]]


def test_depth_and_tag() -> None:
    recv = steps(1, type="pub.recv", mid=("n1", 1, 1), client="c", topic="t", qos=1, conn=1)
    hop = steps(2, type="fwd.recv", mid=("n1", 1, 1), source="n1")
    for life in (MessageLife(("n1", 1, 1)), ClientLife("c")):
        assert (life.depth(recv), life.depth(hop)) == (0, 1)
    assert ClientLife("other").depth(recv) == 1
    assert MessageLife(("n1", 1, 1)).tag(hop) == ""
    assert ClientLife("c").tag(hop) == "n1/1/1"
    assert ClientLife("c").tag(steps(3, type="sub.ack", client="c")) == ""
