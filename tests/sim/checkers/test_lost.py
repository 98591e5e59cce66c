"""Acknowledged means kept."""

from __future__ import annotations

from strogoff.sim.checkers.lost import check
from strogoff.sim.history import NEVER

from ..histories import HistoryBuilder


def builder() -> HistoryBuilder:
    made = HistoryBuilder()
    made.connect("s")
    made.subscribe("s", "t/#")
    made.publish("w-1")
    return made


def test_a_message_that_never_came_is_lost() -> None:
    made = builder()
    assert [text.split(" on ")[0] for text in check(made.case())] == ["lost: s never got w-1"]
    made.deliver("w-1")
    assert list(check(made.case())) == []


def test_a_visible_drop_excuses() -> None:
    made = builder()
    made.drop("w-1")
    assert list(check(made.case())) == []


def test_another_session_does_not_count() -> None:
    made = builder()
    made.deliver("w-1", epoch=2)
    assert len(list(check(made.case()))) == 1


def test_nothing_is_promised_after_power_loss_with_os() -> None:
    made = builder()
    made.kept = False
    assert list(check(made.case())) == []


def test_a_shared_message_needs_one_member() -> None:
    made = HistoryBuilder()
    for name in ("a", "b"):
        made.connect(name)
        made.subscribe(name, "$share/g/s/#")
    made.publish("w-1", topic="s/0")
    assert list(check(made.case())) == ["lost: no member of $share/g/s/# got w-1, acknowledged after a SUBACK"]
    made.deliver("w-1", "b")
    assert list(check(made.case())) == []


def test_a_member_that_is_gone_explains_messages_assigned_to_it() -> None:
    made = HistoryBuilder()
    gone = made.connect("a")
    made.connect("b")
    for name in ("a", "b"):
        made.subscribe(name, "$share/g/s/#")
    made.publish("w-1", topic="s/0")
    made.close(gone)
    made.give("w-1", "a", "$share/h/s/#")
    assert list(check(made.case())) == ["lost: no member of $share/g/s/# got w-1, acknowledged after a SUBACK"]
    made.give("w-1", "a", "$share/g/s/#")
    assert list(check(made.case())) == []


def test_a_member_that_was_gone_before_explains_nothing() -> None:
    """The member had another session or had unsubscribed by then, or it belongs to another group."""
    made = HistoryBuilder()
    for name, group in (("a", "g"), ("b", "g"), ("c", "g"), ("d", "h")):
        made.connect(name)
        made.subscribe(name, f"$share/{group}/s/#").gone = made.tick() if name == "c" else NEVER
    made.connect("b", epoch=2)
    made.publish("w-1", topic="s/0")
    for name, group in (("a", "g"), ("b", "g"), ("c", "g"), ("d", "h")):
        made.give("w-1", name, f"$share/{group}/s/#")
    made.sessions.pop("c")
    made.sessions.pop("d")
    assert list(check(made.case())) == ["lost: no member of $share/g/s/# got w-1, acknowledged after a SUBACK"]
    made.deliver("w-1", "d")
    assert len(list(check(made.case()))) == 1
    made.connect("a", epoch=2)
    assert list(check(made.case())) == []


def test_a_member_with_qos_0_may_have_missed_it() -> None:
    made = HistoryBuilder()
    for qos in (1, 0):
        made.connect(f"m{qos}")
        made.subscribe(f"m{qos}", "$share/g/s/#", qos)
    made.publish("w-1", topic="s/0")
    assert len(list(check(made.case()))) == 1
    made.give("w-1", "m0", "$share/g/s/#")
    assert list(check(made.case())) == []


def leaving(copied: bool = True, qos: int = 1, expiry_s: int = 0) -> HistoryBuilder:
    """A member ended after it had got a message of its group. Another one is there from before that to the end."""
    made = HistoryBuilder()
    made.history.copied = copied
    for name in ("a", "b"):
        made.connect(name)
        made.subscribe(name, "$share/g/s/#")
    made.publish("w-1", topic="s/0", qos=qos, expiry_s=expiry_s)
    made.give("w-1", "a", "$share/g/s/#")
    made.connect("a", epoch=2)
    return made


LOST = ["lost: no member of $share/g/s/# got w-1, acknowledged after a SUBACK"]


def test_a_member_that_ends_leaves_its_messages_to_another_one() -> None:
    made = leaving()
    assert list(check(made.case())) == LOST
    made.deliver("w-1", "b")
    assert list(check(made.case())) == []
    assert list(check(leaving(copied=False).case())) == []
    assert list(check(leaving(qos=2).case())) == [], "it may have been sent to the member that ended"
    assert list(check(leaving(expiry_s=60).case())) == [], "it may have expired before that"


def test_a_member_that_has_unsubscribed_is_no_heir() -> None:
    made = leaving()
    made.history.subscriptions[1].given_up = made.history.connections["a"][1].opened - 1
    assert list(check(made.case())) == []


def test_a_later_session_of_the_same_client_is_no_heir() -> None:
    made = leaving()
    made.sessions.pop("b")
    made.subscribe("a", "$share/g/s/#", epoch=2)
    made.history.subscriptions[-1].granted = 0
    assert list(check(made.case())) == []


def test_a_clean_session_leaves_nothing() -> None:
    """Its node may have died with its messages."""
    made = leaving()
    made.history.connections["a"][0].expiry_s = 0
    assert list(check(made.case())) == []
    made.history.connections["a"][0].expiry_s = None
    made.history.connections["a"][1].expiry_s = 0
    assert list(check(made.case())) == LOST
