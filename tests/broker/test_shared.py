"""Who gets a message of a shared subscription."""

from __future__ import annotations

from collections import Counter
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.broker.message import Message, Origin
from strogoff.broker.shared import POLICIES, Progress, SharedGroup, choose, redistribute
from strogoff.broker.subscriptions import Subscription

ORIGIN = Origin("n1", 1)


class Queue(msgspec.Struct):
    """What is asked of a queue: whether it raises messages to the subscription's QoS."""

    upgrade: bool = False


class Member(msgspec.Struct, eq=False):
    """What is asked of a session."""

    client_id: str
    online: bool = True
    durable: bool = True
    local: bool = True
    queue: Queue = msgspec.field(default_factory=Queue)


def group_of(*members: Member, qos: int = 1) -> SharedGroup:
    held = [Subscription(member, "a/+", "g", qos, False, False, 0, 0) for member in members]
    return SharedGroup("g", "a/+", tuple(held))


def message(qos: int = 1) -> Message:
    return Message("", "a/b", b"x", qos, False, None, 0, "publisher", ORIGIN, 1)


def is_local(member: Subscription) -> bool:
    return bool(member.session.local)


def chosen(group: SharedGroup, policy: str, seed: int = 1, qos: int = 1, exclude: tuple[Member, ...] = ()) -> str:
    member = choose(group, message(qos), policy, Random(seed), exclude, is_local)
    return member.session.client_id if member else ""


MEMBERS = st.lists(st.builds(Member, st.uuids().map(str), st.booleans(), st.booleans(), st.booleans()), max_size=8)


def acceptable(members: list[Member], policy: str, qos: int) -> set[str]:
    """The rules, said once more: online before offline; then what the policy prefers."""
    able = [m for m in members if m.online or (m.durable and qos > 0)]
    if policy == "local_only":
        able = [m for m in able if m.local]
    best = [m for m in able if m.online] or able
    if policy == "prefer_local":
        best = [m for m in best if m.local] or best
    if policy == "prefer_online_before_local":
        first = [m for m in best if m.local == m.online]  # online: local ones first; offline: remote ones first
        best = first or best
    return {m.client_id for m in best}


@given(MEMBERS, st.sampled_from(sorted(POLICIES)), st.integers(0, 2), st.integers(0, 10**6))
def test_the_choice_follows_the_policy(members: list[Member], policy: str, qos: int, seed: int) -> None:
    group = group_of(*members)
    wanted = acceptable(members, policy, qos)
    name = chosen(group, policy, seed, qos)
    assert name in wanted if wanted else name == ""
    assert name == chosen(group, policy, seed, qos)


@given(MEMBERS, st.sampled_from(sorted(POLICIES)), st.integers(0, 2), st.data())
def test_the_excluded_are_not_chosen(members: list[Member], policy: str, qos: int, data: st.DataObject) -> None:
    excluded = tuple(data.draw(st.lists(st.sampled_from(members), unique_by=id))) if members else ()
    rest = [member for member in members if member not in excluded]
    wanted = acceptable(rest, policy, qos)
    name = chosen(group_of(*members), policy, 3, qos, excluded)
    assert name in wanted if wanted else name == ""


@pytest.mark.parametrize("size", [2, 5, 12])
def test_every_member_of_the_first_tier_has_the_same_chance(size: int) -> None:
    members = [Member(str(number), online=number % 3 != 1) for number in range(size)]
    group, rng, rounds = group_of(*members), Random(7), 6000
    counts: Counter[str] = Counter()
    for _ in range(rounds):
        member = choose(group, message(), "random", rng)
        assert member is not None
        counts[member.session.client_id] += 1
    online = [member.client_id for member in members if member.online]
    assert sorted(counts) == sorted(online)
    assert all(abs(count - rounds / len(online)) < 0.2 * rounds / len(online) for count in counts.values())


def test_a_message_is_not_bound_to_an_offline_member_while_another_is_online() -> None:
    group = group_of(Member("near", online=False), Member("far", local=False))
    assert chosen(group, "prefer_local") == "far"
    assert chosen(group, "prefer_online_before_local") == "far"
    assert chosen(group, "random") == "far"
    assert chosen(group, "local_only") == "near"


def test_offline_members_in_the_order_of_the_policy() -> None:
    group = group_of(Member("near", online=False), Member("far", online=False, local=False))
    assert chosen(group, "prefer_local") == "near"
    assert chosen(group, "prefer_online_before_local") == "far"


def test_an_offline_member_must_be_able_to_hold_the_message() -> None:
    clean, durable = Member("clean", online=False, durable=False), Member("durable", online=False)
    assert chosen(group_of(clean), "random") == ""
    assert chosen(group_of(durable), "random") == "durable"
    assert chosen(group_of(durable), "random", qos=0) == ""
    assert chosen(group_of(durable, qos=0), "random") == ""
    durable.queue.upgrade = True
    assert chosen(group_of(durable), "random", qos=0) == "durable"
    assert chosen(group_of(durable, qos=0), "random") == ""


def handed(
    group: SharedGroup, leaving: Member, progress: Progress, qos: int = 1, ended: bool = True, policy: str = "random"
) -> str:
    member = redistribute(group, message(2), progress, qos, leaving, ended, policy, Random(1), is_local)
    return member.session.client_id if member else ""


def test_messages_of_a_member_that_is_gone_for_good() -> None:
    """[MQTT5-4.8.2-4] [MQTT5-4.8.2-5] QoS 2 that was sent goes to nobody else; QoS 1 and what was not sent does."""
    leaving = Member("leaving")
    group = group_of(leaving, Member("other"))
    assert handed(group, leaving, Progress.QUEUED, 1) == "other"
    assert handed(group, leaving, Progress.QUEUED, 2) == "other"
    assert handed(group, leaving, Progress.SENT, 1) == "other"
    assert handed(group, leaving, Progress.SENT, 2) == ""
    assert handed(group, leaving, Progress.SENT, 0) == ""
    assert handed(group_of(leaving), leaving, Progress.QUEUED) == ""


def test_a_message_that_was_refused_goes_to_nobody_else() -> None:
    """[MQTT5-4.8.2-6]: PUBACK or PUBREC with 0x80 or above ends the message."""
    leaving = Member("leaving")
    group = group_of(leaving, Member("other"))
    for qos in (1, 2):
        assert handed(group, leaving, Progress.REFUSED, qos) == ""


def test_a_member_that_may_come_back_keeps_its_messages_unless_another_is_online() -> None:
    leaving = Member("leaving", online=False)
    away, present = Member("away", online=False), Member("present")
    assert handed(group_of(leaving, away), leaving, Progress.QUEUED, ended=False) == ""
    assert handed(group_of(leaving, away), leaving, Progress.QUEUED, ended=True) == "away"
    assert handed(group_of(leaving, away, present), leaving, Progress.QUEUED, ended=False) == "present"
    assert handed(group_of(leaving, away, present), leaving, Progress.SENT, 1, ended=False) == "present"
    assert handed(group_of(leaving, away, present), leaving, Progress.SENT, 2, ended=False) == ""


def test_the_text_of_a_group_is_what_its_members_subscribed_to() -> None:
    assert group_of().text == "$share/g/a/+"
