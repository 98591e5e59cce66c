"""The audit of numbered messages in rounds."""

from __future__ import annotations

import pytest

from bench.ha_audit import Audit, Round, longest


def audit_of(*readers: tuple[str, int]) -> tuple[Audit, Round]:
    audit = Audit(12.0)
    for name, qos in readers:
        audit.reader(name, qos)
    return audit, audit.begin("primary", "kill")


def send(audit: Audit, *messages: bytes, at: float = 0.0) -> None:
    """Publish messages, which are acknowledged at once."""
    for message in messages:
        audit.sent(message, at)
        audit.acked(message, at)


def test_everything_arrives() -> None:
    audit, part = audit_of(("one", 1), ("two", 2))
    send(audit, b"1:w-1", b"1:w-2", b"2:w-1")
    for message in (b"1:w-1", b"1:w-2"):
        audit.delivered("one", message, 0.5)
    audit.delivered("two", b"2:w-1", 0.5)
    assert audit.violations(part) == []
    verdict = audit.verdict(part)
    assert (verdict.acked, verdict.lost, verdict.doubled, verdict.reordered, verdict.gap_s) == (3, 0, 0, 0, 0.5)
    assert verdict.delivered == 3


def test_an_acknowledged_message_is_lost() -> None:
    """Each reader of its QoS must get it, and no other."""
    audit, part = audit_of(("one", 1), ("also-one", 1), ("two", 2))
    send(audit, b"1:w-1", b"1:w-2")
    audit.delivered("one", b"1:w-1", 0.0)
    audit.delivered("one", b"1:w-2", 0.0)
    audit.delivered("also-one", b"1:w-2", 0.0)
    assert audit.missing(part) == {"also-one": [b"1:w-1"]}
    assert audit.verdict(part).lost == 1
    assert audit.violations(part) == ["round 1 (kill primary): also-one: 1 acknowledged messages lost: 1:w-1"]


def test_what_nobody_acknowledged_may_be_lost() -> None:
    audit, part = audit_of(("one", 1))
    audit.sent(b"1:w-1", 0.0)
    audit.sent(b"1:w-2", 0.0)
    audit.refused(b"1:w-2")
    assert audit.violations(part) == []
    assert (audit.verdict(part).acked, audit.verdict(part).refused) == (0, 1)


def test_qos_1_may_repeat_and_qos_2_may_not() -> None:
    audit, part = audit_of(("one", 1), ("two", 2))
    send(audit, b"1:w-1", b"1:w-2", b"2:w-1")
    for message, dup in ((b"1:w-1", False), (b"1:w-2", False), (b"1:w-1", True)):
        audit.delivered("one", message, 0.0, dup)
    for _ in range(2):
        audit.delivered("two", b"2:w-1", 0.0)
    verdict = audit.verdict(part)
    assert (verdict.repeated, verdict.doubled, verdict.reordered) == (1, 1, 0)
    assert audit.violations(part) == [
        "round 1 (kill primary): two: 1 QoS 2 messages delivered more than once: 2:w-1",
    ]


def test_a_repetition_without_dup_needs_a_publisher_that_repeats() -> None:
    """The broker may take a message that is sent twice for two messages. It sends one message again with DUP only."""
    audit, part = audit_of(("one", 1))
    send(audit, b"1:w-1", b"1:w-2", b"1:w-3")
    audit.resent(b"1:w-2")
    for dup in (False, False):
        audit.delivered("one", b"1:w-1", 0.0, dup)
        audit.delivered("one", b"1:w-2", 0.0, dup)
    for dup in (True, False, True):
        audit.delivered("one", b"1:w-3", 0.0, dup)
    verdict = audit.verdict(part)
    assert (verdict.delivered, verdict.repeated, verdict.unmarked) == (3, 3, 1)
    assert audit.violations(part) == [
        "round 1 (kill primary): one: 1 QoS 1 messages delivered again without DUP: 1:w-1",
    ]


def test_the_latest_delivery() -> None:
    """Each first delivery to each reader counts from the sending of its message, also while others arrive. It is a
    violation if there is a limit."""
    audit = Audit(12.0, latest_s=2.0)
    for name in ("one", "also-one"):
        audit.reader(name, 1)
    part = audit.begin("primary", "kill")
    for number in range(1, 5):
        audit.sent(b"1:w-%d" % number, number)
        audit.acked(b"1:w-%d" % number, number)
        audit.delivered("one", b"1:w-%d" % number, number)
        audit.delivered("also-one", b"1:w-%d" % number, number + 2.0)
    assert (audit.verdict(part).late_s, audit.violations(part)) == (2.0, [])
    audit.delivered("one", b"1:w-1", 9.0, dup=True)
    audit.sent(b"1:w-5", 5.0)
    audit.delivered("one", b"1:w-5", 7.5)
    assert (audit.verdict(part).late_s, audit.verdict(part).gap_s) == (2.5, 2.5)
    assert audit.violations(part) == ["round 1 (kill primary): a message was delivered after 2.5 s"]


def test_a_first_delivery_after_a_later_message_is_reordered() -> None:
    """For each writer alone. The messages behind it are in order again."""
    audit, part = audit_of(("one", 1))
    send(audit, b"1:w-1", b"1:w-2", b"1:w-3", b"1:v-1", b"1:w-10")
    for message in (b"1:w-1", b"1:w-3", b"1:v-1", b"1:w-2", b"1:w-10"):
        audit.delivered("one", message, 0.0)
    assert audit.verdict(part).reordered == 1
    assert audit.violations(part) == ["round 1 (kill primary): one: 1:w-2 after 3"]


def test_a_delivery_belongs_to_the_round_of_its_message() -> None:
    """A duplicate that comes in a later round, and a loss of an earlier one."""
    audit, first = audit_of(("two", 2))
    send(audit, b"2:w-1", b"2:w-2")
    audit.delivered("two", b"2:w-1", 0.0)
    second = audit.begin("sender", "stop")
    send(audit, b"2:v-1")
    audit.delivered("two", b"2:v-1", 5.0)
    audit.delivered("two", b"2:w-1", 5.0)
    assert (audit.verdict(first).doubled, audit.verdict(first).lost) == (1, 1)
    assert audit.violations(second) == []
    assert {case: (each.rounds, each.lost) for case, each in audit.by_case().items()} == {
        ("primary", "kill"): (1, 1),
        ("sender", "stop"): (1, 0),
    }


def test_the_rounds_of_a_case_are_added() -> None:
    """Counts add up; of the times the longest counts."""
    audit, first = audit_of(("one", 1))
    first.whole_s = 2.0
    audit.sent(b"1:w-1", 0.0)
    audit.acked(b"1:w-1", 3.0)
    second = audit.begin("primary", "kill")
    second.whole_s = 1.0
    audit.sent(b"1:v-1", 10.0)
    audit.acked(b"1:v-1", 11.0)
    for message, at in ((b"1:w-1", 4.0), (b"1:v-1", 11.0)):
        audit.delivered("one", message, at)
    ((case, verdict),) = audit.by_case().items()
    assert (case, verdict.rounds, verdict.acked, verdict.delivered) == (("primary", "kill"), 2, 2, 2)
    assert (verdict.stall_s, verdict.late_s, verdict.whole_s) == (3.0, 4.0, 2.0)


def test_a_long_stall_and_a_long_gap_are_violations() -> None:
    audit, part = audit_of(("one", 1))
    audit.sent(b"1:w-1", 100.0)
    audit.acked(b"1:w-1", 112.5)
    audit.delivered("one", b"1:w-1", 113.0)
    assert audit.violations(part) == [
        "round 1 (kill primary): no acknowledgement for 12.5 s",
        "round 1 (kill primary): no delivery for 13.0 s",
    ]


def test_other_violations_of_a_round_are_reported() -> None:
    audit, part = audit_of(("one", 1))
    part.wrong.append("nothing arrives")
    assert audit.violations(part) == ["round 1 (kill primary): nothing arrives"]


@pytest.mark.parametrize(
    ("sent", "came", "expected"),
    [
        ({}, {}, 0.0),
        ({b"1:w-1": 1.0}, {}, 0.0),
        ({b"1:w-1": 1.0}, {b"1:w-1": 1.5}, 0.5),
        # nothing was due between the two
        ({b"1:w-1": 1.0, b"1:w-2": 9.0}, {b"1:w-1": 1.5, b"1:w-2": 9.25}, 0.5),
        # both wait, and come at the same time: from the last arrival on
        ({b"1:w-1": 1.0, b"1:w-2": 2.0, b"1:w-3": 3.0}, {b"1:w-1": 2.5, b"1:w-2": 7.0, b"1:w-3": 7.0}, 4.5),
        # another QoS does not count
        ({b"1:w-1": 1.0, b"2:w-1": 1.0}, {b"1:w-1": 1.5, b"2:w-1": 8.0}, 0.5),
    ],
)
def test_the_longest_wait(sent: dict[bytes, float], came: dict[bytes, float], expected: float) -> None:
    assert longest(sent, came, 1) == expected


def test_each_role_has_its_own_counts() -> None:
    """One fault strikes subscribers in several roles: what one of them lacks counts for its role alone."""
    audit, part = audit_of(("one", 1), ("two", 1), ("three", 2))
    part.roles.update(one="primary", two="gateway", three="gateway")
    send(audit, b"1:w-1", b"2:w-1")
    audit.delivered("one", b"1:w-1", 1.0)
    audit.delivered("three", b"2:w-1", 2.0)
    cases = audit.by_case()
    assert sorted(cases) == [("gateway", "kill"), ("primary", "kill")]
    primary, gateway = cases["primary", "kill"], cases["gateway", "kill"]
    assert (primary.lost, primary.delivered, primary.late_s) == (0, 1, 1.0)
    assert (gateway.lost, gateway.delivered, gateway.late_s) == (1, 1, 2.0)
    assert audit.verdict(part).lost == 1
