"""From rows to a history: sessions, subscriptions, and sessions that survive a connection."""

from __future__ import annotations

from strogoff.testing.log_audit.history import History

from .log_builder import NODE, Log


def test_sessions_follow_each_other() -> None:
    """A client's sessions are numbered; each has its own subscriptions."""
    log = Log()
    log.subscriber("rx", "a")
    log.say("sess.end", client="rx", reason="clean_start")
    log.subscriber("rx", "b")
    one, two = History(log.rows).sessions[NODE, "rx"]
    assert (one.number, two.number, str(two)) == (1, 2, "rx (session 2)")
    assert [held.filter for held in one.subscriptions] == ["a"]
    assert one.ended < two.begun


def test_a_subscription_is_replaced_or_removed() -> None:
    """It matches from its SUBSCRIBE to its end."""
    log = Log()
    log.subscriber("rx", "t/#", 1)
    log.accept()
    log.say("sub.add", client="rx", filter="t/#", qos=2)
    log.say("sub.add", client="rx", filter="$share/g/t/#", qos=1)
    log.say("sub.del", client="rx", filter="t/#")
    history = History(log.rows)
    (session,) = history.sessions[NODE, "rx"]
    places = [held.since for held in session.subscriptions]
    assert [held.qos for held in session.matching("t/1", places[1] - 1)] == [1]
    assert [held.qos for held in session.matching("t/1", places[2])] == [2]
    assert session.matching("t/1", history.length) == []
    assert [held.group for held in session.matching("t/1", history.length, shared=True)] == ["g"]


def test_which_sessions_outlive_a_connection() -> None:
    """It was resumed, or a part of it was safe on a disk."""
    log = Log()
    for client in ("resumed", "stored", "clean"):
        log.subscriber(client)
    log.connect("resumed", present=True)
    log.route(log.accept(), "stored")
    sessions = History(log.rows).sessions
    assert {client: each[0].durable for (_, client), each in sessions.items()} == {
        "resumed": True,
        "stored": True,
        "clean": False,
    }


def test_deaths() -> None:
    """A boot that was followed by another without a stop, or an injected kill."""
    log = Log()
    log.say("node.stop")
    log.boot()
    log.boot()
    log.say("fault.kill", nodes=[NODE])
    assert sorted(History(log.rows).deaths) == [(NODE, 2), (NODE, 3)]


def test_sessions_from_before_the_log() -> None:
    """They begin with their first row."""
    log = Log()
    log.connect("old", present=True)
    log.send((NODE, 1, 1), "older")
    history = History(log.rows)
    assert history.sessions[NODE, "old"][-1].ended >= history.length
    assert history.sessions[NODE, "older"][0].begun > 0
