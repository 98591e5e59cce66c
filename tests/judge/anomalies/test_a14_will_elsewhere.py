"""A14: a client has wills at several nodes, and one of these nodes has the client's slot."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from strogoff.cluster.identity import slot_of

from ...testing.log_audit.log_builder import Log, two_nodes
from .found import findings

SLOT = slot_of("", "tx")


def lost_and_spurious(*logs: Log) -> list[tuple[str, str]]:
    """The kind of each finding about a will, and the node that had the will or published it."""
    log = logs[0]
    log.rows += [row for each in logs[1:] for row in each.rows]
    found = [each for each in findings(log) if each.anomaly == "A14"]
    return sorted((each.kind, each.rows[-1 if each.kind == "spurious" else 0][0]) for each in found)


def publish(log: Log, number: int = 50) -> None:
    log.say("will.fire", client="tx", topic="will", mid=(log.node, log._boot, number))


def end(log: Log, reason: str = "disconnected") -> None:
    log.say("sess.end", client="tx", reason=reason)


def give(source: Log, target: Log) -> None:
    source.say("slot.moved", slot=SLOT, target=target.node, sessions=1, bytes=0)


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ("", []),
        ("b publishes nothing", [("lost", "a")]),
        ("b publishes twice", [("spurious", "b")]),
        ("b never gets the slot", [("lost", "a"), ("spurious", "b")]),
        ("b says late that it has the slot", [("lost", "a"), ("spurious", "b")]),
        ("a ends the session and keeps the slot", [("lost", "a"), ("spurious", "b")]),
    ],
)
def test_a_client_is_back_at_a_node_that_has_given_its_slot_away(how: str, found: list[tuple[str, str]]) -> None:
    """`b` stands still, and gets the slot late. It ends and publishes what came with the slot, nothing of the client's
    new connection."""
    a, b = two_nodes()
    a.connect("tx", will=True)
    a.say("conn.close", client="tx", reason="moved")
    if "keeps the slot" in how:
        end(a)
        b.say("slot.arrive", slot=SLOT)
    else:
        give(a, b)
    a.connect("tx", will=True)
    if "slot" not in how:
        b.say("slot.arrive", slot=SLOT)
        end(b)
    a.say("conn.close", client="tx", reason="disconnect")
    a.say("will.cancel", client="tx", topic="will", reason="disconnected")
    end(a)
    for number in range({"b publishes nothing": 0, "b publishes twice": 2}.get(how, 1)):
        publish(b, 50 + number)
    if "late" in how:
        a._now = b._now = count(next(a._now) + 1_000)
        b.say("slot.arrive", slot=SLOT)
    assert lost_and_spurious(a, b) == found


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ("published", []),
        ("", [("lost", "a")]),
        ("published, closed", [("lost", "a")]),
        ("published, disconnected", [("lost", "a")]),
    ],
)
def test_a_client_is_connected_when_its_former_session_comes_and_ends(how: str, found: list[tuple[str, str]]) -> None:
    """`b` publishes the will of that session. If its own session ends there, that was its own will."""
    a, b = two_nodes()
    a.connect("tx", will=True)
    a.say("conn.close", client="tx", reason="gateway_lost")
    a.boot()
    b.say("slot.arrive", slot=SLOT)
    b.connect("tx", will=True)
    if "closed" in how:
        b.say("conn.close", client="tx", reason="peer closed")
    for number in range(how.count("published")):
        publish(b, 50 + number)
    end(b, "disconnected" if "disconnected" in how else "clean_start")
    a._now = b._now = count(next(a._now) + 10_000)
    for log in (a, b):
        log.connect("other")
    assert lost_and_spurious(a, b) == found


@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("how", ["", "before the move", "long after", "another slot", "stays"])
def test_a_will_went_with_its_slot_to_a_disk_that_is_lost(how: str, arrives: bool) -> None:
    """`a` gives the slot to `b`, the cluster loses the disk of `b`, and the client comes back to `a`. The will is gone
    with that disk. It is not gone if it was not in the slot, or if `b` had time to publish it."""
    a, b = two_nodes()

    def lose() -> None:
        slots = [str(SLOT + (how == "another slot"))]
        a.say("slot.lost", target="b", count=1, slots=slots, view=6)

    a.connect("tx", will=True)
    a.say("conn.close", client="tx", reason="moved")
    if how == "before the move":
        lose()
    if how != "stays":
        give(a, b)
    if arrives and how != "stays":
        b.say("slot.arrive", slot=SLOT)
    if how in ("", "another slot", "stays"):
        lose()
    a.connect("tx", will=True)
    if how == "long after":
        a._now = b._now = count(next(a._now) + 6_000)
        lose()
    assert lost_and_spurious(a, b) == [("lost", "a")] * bool(how)


@pytest.mark.parametrize(
    ("published", "found"),
    [
        ("b a", []),
        ("b b", []),
        ("a b", []),
        ("b", [("lost", "a")]),
        ("a", [("lost", "b")]),
        ("", [("lost", "a"), ("lost", "b")]),
        ("b b a", [("spurious", "a")]),
        ("b-online b", []),
        ("b-online b a", [("spurious", "a")]),
        ("b-online b-cancelled", []),
        ("b-online b-cancelled a", [("spurious", "a")]),
        ("b-early b-cancelled", []),
        ("b-early b-cancelled a", [("spurious", "a")]),
        ("b b-dropped", []),
        ("b b-dropped a", [("spurious", "a")]),
        ("b boot b-dropped", [("lost", "a")]),
        ("b boot b-dropped a", []),
    ],
)
def test_a_node_has_a_will_and_perhaps_that_of_a_dead_node(published: str, found: list[tuple[str, str]]) -> None:
    """`b` may have the slot, or `a` may have the will on its disk. The will of a client that connects, or is
    connected, is not due."""
    a, b = two_nodes()
    a.connect("tx", will=True)
    end(a)
    a.boot()
    if "early" in published:
        b.say("will.arm", client="tx", topic="will")
    else:
        b.connect("tx", will=True)
    if "online" not in published and "early" not in published:
        b.say("conn.close", client="tx", reason="peer closed")
    for number, each in enumerate(published.split()):
        if each == "boot":
            b.boot()
        elif each == "b-dropped":
            b.say("will.cancel", client="tx", topic="will", reason="resumed")
        elif each == "b-cancelled":
            b.say("will.cancel", client="tx", topic="will", reason="disconnected")
        else:
            publish(a if each == "a" else b, 50 + number)
        if each == "b-early":
            b.say("conn.open", client="tx", will_delay_s=0)
            b.say("sess.create", client="tx")
        if each in ("b-online", "b-early"):
            b.say("conn.close", client="tx", reason="peer closed")
    end(b)
    assert lost_and_spurious(a, b) == found


@pytest.mark.parametrize(
    ("how", "published", "found"),
    [
        ("", 1, []),
        ("", 2, ["dup"]),
        ("was safe", 1, ["spurious"]),
        ("no kill", 1, ["spurious"]),
        ("with its own will", 1, []),
        ("with its own will", 2, []),
        ("with its own will", 3, ["dup"]),
        ("while the client connects", 1, []),
        ("while the client connects", 2, []),
        ("while the client connects", 3, ["dup"]),
        ("while the client connects, whose will is lost", 1, ["lost"]),
        ("while the client is away again", 1, []),
        ("while the client is away again", 2, []),
        ("while the client is away again", 3, ["dup"]),
    ],
)
def test_a_kill_undoes_a_will_that_had_waited_for_a_lease(how: str, published: int, found: list[str]) -> None:
    """The session had ended before, so the will was due. The next boot publishes it once more, and no third time. The
    kill may undo this will and that of the next session."""
    log = Log()
    log.connect("tx", will=True)
    end(log)
    publish(log, 50)
    if how == "was safe":
        log.say("q.durable", mid=(log.node, 1, 50), client="watch")
    if "own" in how:
        log.connect("tx", will=True)
        publish(log, 51)
        end(log)
    if how != "no kill":
        log.boot()
    if "connects" in how:
        log.say("will.arm", client="tx", topic="will")
    if "away" in how:
        log.connect("tx", will=True)
        log.say("conn.close", client="tx", reason="peer closed")
    for number in range(published):
        publish(log, 60 + number)
        if number == 0 and "connects" in how:
            log.say("conn.open", client="tx", will_delay_s=0)
            log.say("sess.create", client="tx")
    if "lost" in how:
        end(log)
    assert [each.kind for each in findings(log) if each.anomaly == "A14"] == found


@pytest.mark.parametrize(
    ("published", "found", "synced"),
    [
        ("", [], []),
        ("will", [], []),
        ("will will", ["spurious"], ["spurious"]),
        ("open own", [], []),
        ("open own own", [], []),
        ("open own own own", ["dup"], ["dup"]),
        ("open will own", [], []),
        ("open will", ["lost"], []),
        ("arm will answer", ["lost"], ["lost"]),
        ("arm will answer own", [], []),
        ("arm will answer own own", ["dup"], ["dup"]),
        ("arm will own", [], []),
        ("arm will own own", ["dup"], ["dup"]),
    ],
)
@pytest.mark.parametrize("durability", ["os", "sync"])
def test_a_loss_of_power_takes_a_will_or_not(
    published: str, found: list[str], synced: list[str], durability: str
) -> None:
    """Without fsync a will that was due may be gone. `own`: the will of the connection has its turn."""
    log = Log()
    log.say("config.change", key="message_store.durability", new=durability)
    log.connect("tx", will=True)
    log.boot()
    log.rows[-1]["tail_lost"] = True
    end(log)
    for number, each in enumerate(published.split()):
        if each == "arm":
            log.say("will.arm", client="tx", topic="will")
        elif each == "answer":
            log.say("conn.open", client="tx", will_delay_s=0)
            log.say("sess.create", client="tx")
        elif each == "open":
            log.connect("tx", will=True)
        else:
            if each == "own":
                log.say("conn.close", client="tx", reason="peer closed")
            publish(log, 60 + number)
    if "open" in published or "answer" in published:
        end(log)
    certain = [each for each in findings(log) if each.anomaly == "A14" and each.sure]
    assert [each.kind for each in certain] == (found if durability == "os" else synced)


@pytest.mark.parametrize(
    ("how", "published", "found"),
    [
        ("", 1, []),
        ("", 2, ["dup"]),
        ("moved", 1, ["spurious"]),
        ("was safe", 1, ["spurious"]),
        ("before", 1, ["spurious"]),
        ("was due", 1, []),
        ("was due", 2, ["dup"]),
        ("was due there", 1, ["spurious"]),
    ],
)
def test_another_node_has_published_the_last_will(how: str, published: int, found: list[str]) -> None:
    """Its record did not reach the next primary, `b`, which had published a will of the client itself before that."""
    a, b = two_nodes()

    def publish_there(taken: bool) -> None:
        a.connect("tx", will=True)
        for act in (end, publish) if how == "was due" else (publish, end):
            act(a)
        if how == "was safe":
            a.say("q.durable", mid=("a", 1, 50), client="watch")
        if taken:
            a.say("slot.taken", slot=SLOT, target="b")
        else:
            give(a, b)

    if how in ("before", "was due there"):
        publish_there(True)
    b.connect("tx", will=True)
    for act in (end, publish) if how == "was due there" else (publish, end):
        act(b)
    if how not in ("before", "was due there"):
        publish_there(how != "moved")
    b.say("slot.arrive", slot=SLOT)
    for number in range(published):
        publish(b, 60 + number)
    a.rows += b.rows
    assert [each.kind for each in findings(a) if each.anomaly == "A14"] == found


@pytest.mark.parametrize("lost", [True, False])
def test_a_node_drops_the_present_will_when_the_former_one_is_gone(lost: bool) -> None:
    """`b` had got the slot, and served the client. Either it has lost its disk, or one of two wills stays due: that of
    `b`, and that which comes with the slot."""
    a, b = two_nodes()
    a.connect("tx", will=True)
    a.boot()
    for how in ("taken", "moved"):
        if how == "moved":
            a.connect("tx", will=True)
            a.say("conn.close", client="tx", reason="moved")
            give(a, b)
        b.say("slot.arrive", slot=SLOT)
        b.say("will.cancel", client="tx", topic="will", reason="resumed")
        end(b, "clean_start")
        if how == "taken":
            b.connect("tx", will=True)
            if lost:
                a.say("slot.lost", target="b", count=1, slots=[str(SLOT)], view=6)
                b.boot()
    a._now = b._now = count(next(a._now) + 10_000)
    for log in (a, b):
        log.connect("other")
    assert lost_and_spurious(a, b) == ([] if lost else [("lost", "b")])


@pytest.mark.parametrize(
    ("published", "found"),
    [
        ("b b c", []),
        ("b b", [("lost", "c")]),
        ("b c", [("lost", "b")]),
        ("b b b c", [("spurious", "b")]),
        ("b b c c", [("dup", "c")]),
    ],
)
def test_a_node_that_is_cut_off_serves_a_client_whose_will_is_at_the_primary(
    published: str, found: list[tuple[str, str]]
) -> None:
    """The primary, `a`, is killed before CONNACK. The next one, `c`, drops the will of that connection. `b`, without
    the slot and a lease, publishes the wills of its own two connections at the heal, and `c` that of the last one."""
    a, b = two_nodes()
    c = Log("c")
    c._now = a._now
    b.say("lease.get", view=1)
    a.say("slot.copied", slot=SLOT, target="c", bytes=1)
    b.say("lease.lose", view=1)
    b.connect("tx", will=True)
    end(b)
    a.say("will.arm", client="tx", topic="will")
    a.boot()
    c.say("slot.arrive", slot=SLOT)
    c.say("will.cancel", client="tx", topic="will", reason="resumed")
    end(c, "clean_start")
    c.connect("tx", will=True)
    c.say("will.cancel", client="tx", topic="will", reason="disconnected")
    end(c)
    b.connect("tx", will=True)
    end(b)
    c.connect("tx", will=True)
    b.say("lease.get", view=2)
    for number in range(published.count("b")):
        publish(b, 50 + number)
    for number in range(published.count("c")):
        publish(c, 60 + number)
    end(c)
    a._now = b._now = c._now = count(next(a._now) + 10_000)
    for log in (a, b, c):
        log.connect("other")
    assert lost_and_spurious(a, b, c) == found


ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "arms": ("will.arm", {"client": "tx", "topic": "will"}),
    "drops": ("will.cancel", {"client": "tx", "topic": "will", "reason": "resumed"}),
    "closes": ("conn.close", {"client": "tx", "reason": "peer closed"}),
    "ends": ("sess.end", {"client": "tx", "reason": "disconnected"}),
    "ends-former": ("sess.end", {"client": "tx", "reason": "clean_start"}),
    "arrives": ("slot.arrive", {"slot": SLOT}),
    "taken": ("slot.taken", {"slot": SLOT, "target": "c"}),
    "moved": ("slot.moved", {"slot": SLOT, "target": "b", "sessions": 1, "bytes": 0}),
    "get": ("lease.get", {"view": 1}),
    "lose": ("lease.lose", {"view": 1}),
}


def judged(acts: str) -> list[tuple[str, str]]:
    """Judge what nodes do one after the other, each as the node and what it does. The log goes on for 20 s."""
    logs = dict(zip("ab", two_nodes(), strict=True))
    for number, each in enumerate(acts.split()):
        name, act = each.split(":")
        log = logs[name]
        if act == "serves":
            log.connect("tx", will=True)
        elif act == "fires":
            publish(log, 50 + number)
        elif act == "boots":
            log.boot()
        elif act == "waits":
            logs["a"]._now = logs["b"]._now = count(next(log._now) + 10_000)
        else:
            kind, fields = ROWS[act]
            log.say(kind, **fields)
    for log in logs.values():
        log._now = count(next(logs["a"]._now) + 20_000)
        log.connect("other")
    return lost_and_spurious(*logs.values())


@pytest.mark.parametrize(
    ("acts", "found"),
    [
        ("b:arrives b:drops b:ends-former b:serves", []),
        ("b:arrives b:serves b:drops", [("lost", "a")]),
        ("b:arrives b:fires", []),
        ("b:arrives b:fires b:fires", [("dup", "b")]),
        ("b:arrives b:serves", [("lost", "a")]),
        ("b:arrives", [("lost", "a")]),
        ("", [("lost", "a")]),
        ("a:arrives a:fires", []),
        ("a:arrives a:drops a:ends-former a:serves", []),
        ("a:arrives", [("lost", "a")]),
    ],
)
@pytest.mark.parametrize("dies", ["", "a:boots "])
@pytest.mark.parametrize("how", ["taken", "moved"])
def test_a_node_that_has_lost_the_slot_serves_the_client_again(
    acts: str, found: list[tuple[str, str]], dies: str, how: str
) -> None:
    """Its present will is not that which has gone with the slot. The slot may come back."""
    assert judged(f"a:serves {dies}a:{how} a:serves a:closes a:fires a:ends {acts}") == found


@pytest.mark.parametrize(
    ("acts", "found"),
    [
        ("a:arrives a:fires a:closes a:fires a:ends", []),
        ("a:arrives a:drops a:ends-former a:closes a:fires a:ends", []),
        ("a:arrives a:closes a:fires a:ends", [("lost", "a")]),
        ("a:arrives a:fires a:closes a:fires a:ends a:fires", [("spurious", "a")]),
        ("a:arrives a:drops a:ends-former a:closes a:fires a:ends a:fires", [("dup", "a")]),
        ("a:fires a:ends", [("lost", "a")]),
        ("a:drops a:closes a:fires a:ends", [("lost", "a"), ("spurious", "a")]),
    ],
)
@pytest.mark.parametrize("how", ["taken", "moved"])
def test_a_slot_comes_back_while_the_client_is_connected_without_it(
    acts: str, found: list[tuple[str, str]], how: str
) -> None:
    """The will that comes back is that of the former connection."""
    assert judged(f"a:serves a:{how} a:serves {acts}") == found


@pytest.mark.parametrize(
    ("acts", "found"),
    [
        ("a:serves a:taken b:serves", [("lost", "a")]),
        ("a:serves b:serves", []),
        ("b:serves a:serves a:taken", []),
        ("a:arms a:taken b:serves", []),
        ("a:get a:serves a:waits a:taken b:serves", [("lost", "a")]),
        ("a:get a:serves a:waits a:taken a:lose b:serves", []),
    ],
)
def test_a_will_leaves_with_its_slot_and_the_client_is_elsewhere(acts: str, found: list[tuple[str, str]]) -> None:
    """It is lost if it was promised with CONNACK, and if no primary says for long what became of it."""
    assert judged(acts) == found
