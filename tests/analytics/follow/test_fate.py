"""What became of a message, from its rows."""

from __future__ import annotations

from typing import Any

from strogoff.analytics.follow.fate import Fate

MS = 1 << 16


def fate(*rows: dict[str, Any], most: int = 10) -> Fate:
    """Returns the fate after these rows, a millisecond apart, at n1."""
    made = Fate(most)
    for at, row in enumerate(rows):
        made.add({"node": "n1", "boot": 1, "hlc": (1000 + at) * MS, **row})
    return made


RECV = {"type": "pub.recv", "client": "tx", "topic": "t", "qos": 1}
ROUTE: dict[str, Any] = {"type": "pub.route", "targets": []}
ENQ = {"type": "q.enq", "client": "rx", "epoch": 3, "topic": "t", "qos": 1}
ACK = {"type": "pub.ack", "client": "tx", "qos": 1, "code": 0}
SEND = {"type": "dlv.send", "client": "rx", "qos": 1, "conn": 4, "packet_id": 9}
GOT = {"type": "dlv.ack", "client": "rx", "conn": 4, "packet_id": 9, "code": 0}


def test_delivered() -> None:
    made = fate(RECV, ROUTE, ENQ, ACK, SEND, GOT)
    assert made.lines() == ["tx: acknowledged with code 0 after 3 ms", "rx: delivered by n1 after 5 ms"]
    assert made.open_ends() == []


def test_it_waits_in_a_queue_or_in_flight() -> None:
    made = fate(RECV, ENQ)
    assert made.lines() == ["tx: has got no acknowledgement", "rx: waits in the queue at n1"]
    assert made.open_ends() == ["rx: waits in the queue at n1"]
    assert fate(RECV, ENQ, SEND).open_ends() == ["rx: sent by n1 after 2 ms, and not acknowledged"]


def test_qos_0_is_over_when_it_is_sent() -> None:
    made = fate(RECV | {"qos": 0}, SEND | {"qos": 0})
    assert made.lines() == ["tx: QoS 0, which has no acknowledgement", "rx: sent with QoS 0 by n1 after 1 ms"]
    assert made.open_ends() == []


def test_qos_2_is_complete_with_pubcomp() -> None:
    assert fate(RECV | {"qos": 2}, ACK, {"type": "pub.comp"}).lines() == [
        "tx: acknowledged with code 0 after 1 ms, QoS 2 is complete"
    ]


def test_refusals_and_drops_have_their_reasons() -> None:
    assert fate(RECV, ACK | {"code": 0x97}).lines() == ["tx: refused with code 0x97 after 1 ms"]
    assert fate(RECV, ENQ, SEND, GOT | {"code": 0x80}).lines()[1] == "rx: refused with code 0x80 by n1 after 3 ms"
    drop = {"type": "q.drop", "client": "rx", "reason": "queue_full"}
    assert fate(RECV, ENQ, drop).lines()[1] == "rx: dropped: queue_full, at n1 after 2 ms"
    assert fate(RECV, ENQ, {"type": "q.expire", "client": "rx"}).lines()[1] == "rx: expired, at n1 after 2 ms"


def test_for_no_session() -> None:
    assert fate(RECV, ROUTE, ACK).lines()[1] == "it was for no session"


def test_lost_on_a_link() -> None:
    send = {"type": "fwd.send", "target": "n2"}
    assert fate(RECV, ROUTE, send).lines()[1] == "node n2: was sent there by n1, and no row says it arrived"
    assert len(fate(RECV, ROUTE, send, {"type": "fwd.recv", "node": "n2", "source": "n1"}).lines()) == 1
    assert fate(RECV, {"type": "fwd.drop", "target": "n2", "reason": "absent"}).open_ends() == [
        "node n2: was not forwarded: absent"
    ]


def test_a_will_is_published_without_an_acknowledgement() -> None:
    made = fate({"type": "will.fire", "client": "willy", "topic": "t"}, ROUTE, ENQ, SEND, GOT)
    assert made.lines() == [
        "willy: this is its will, which has no acknowledgement",
        "rx: delivered by n1 after 4 ms",
    ]


LEFT = "was sent there by n1, and no row says it arrived"
ANEW = "was sent there by n1, which routed it again later"


def test_a_link_is_over_when_the_message_is_routed_again() -> None:
    """Its sessions are at another node now, such as the one that had sent it."""
    route, send = ROUTE | {"nodes": ["n2"]}, {"type": "fwd.send", "target": "n2"}
    there = {"type": "fwd.send", "target": "n3"}, {"type": "fwd.recv", "node": "n3", "source": "n1"}
    for again in ([ROUTE | {"targets": ["rx"]}], there):
        made = fate(RECV, route, send, *again, ENQ, SEND, GOT)
        assert (made.lines()[-1], made.open_ends()) == (f"node n2: {ANEW}", [])
        back = fate(RECV, route, send, *again, send)
        assert back.open_ends() == [f"node n2: {LEFT}"]
    lost = fate(RECV, route, send, there[0])
    assert lost.open_ends() == [f"node n3: {LEFT}"]


def test_a_message_for_several_nodes_is_not_routed_again() -> None:
    route = ROUTE | {"nodes": ["n2", "n3"]}
    sends = [{"type": "fwd.send", "target": node} for node in ("n2", "n3")]
    shared = ROUTE | {"group": "$share/g/t", "nodes": ["n4"]}
    made = fate(RECV, route, shared, *sends, {"type": "fwd.send", "target": "n4"})
    assert made.open_ends() == [f"node {node}: {LEFT}" for node in ("n2", "n3", "n4")]
    passed_on = fate(RECV, route, *sends, *[ROUTE | {"node": "n3"}] * 2)
    assert len(passed_on.open_ends()) == 2


def test_a_session_that_ends_takes_its_queue_along() -> None:
    end = {"type": "sess.end", "client": "rx", "epoch": 3, "reason": "clean_start"}
    made = fate(RECV, ENQ)
    assert made.ends(end)
    assert not made.ends(end | {"epoch": 4})
    assert not made.ends(end | {"client": "other"})
    assert not fate(RECV, ENQ, SEND, GOT).ends(end)
    assert fate(RECV, ENQ, end).lines()[1] == ("rx: was not delivered: the session ended with its queue (clean_start)")


def test_a_message_whose_begin_is_not_in_the_log() -> None:
    assert fate(ENQ, SEND, GOT).lines() == ["the log has no row that it was published", "rx: delivered by n1"]


def test_a_second_sending_does_not_undo_the_answer() -> None:
    assert fate(RECV, ENQ, SEND, GOT, SEND | {"dup": True}).lines()[1] == "rx: delivered by n1 after 3 ms"


def test_the_receivers_are_bounded_and_the_rows_of_others_are_counted() -> None:
    rows = [{**row, "client": client} for client in ("a", "b", "c") for row in (ENQ, SEND, GOT)]
    assert fate(RECV, *rows, most=2).lines()[1:] == [
        "a: delivered by n1 after 3 ms",
        "b: delivered by n1 after 6 ms",
        "more clients than 2: 3 rows are about others",
    ]


def test_the_same_message_may_enter_a_queue_again() -> None:
    """After a restart, or at the next primary."""
    assert fate(RECV, ENQ, SEND, GOT, ENQ | {"epoch": 4}).open_ends() == ["rx: waits in the queue at n1"]
