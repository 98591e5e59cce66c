"""The choice of the member that gets a message of a shared subscription."""

from __future__ import annotations

from collections import Counter
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.broker.queues.message import Message, Origin
from strogoff.broker.routing.remote import RemoteMembers
from strogoff.broker.routing.shared import POLICIES, Chosen, Progress, SharedGroup, choose, redistribute, takes
from strogoff.broker.routing.subscriptions import Subscription

ORIGIN = Origin("n1", 1)


class Queue(msgspec.Struct):
    """The part of a queue that the choice uses: whether it raises messages to the subscription's QoS."""

    upgrade: bool = False


class Member(msgspec.Struct, eq=False):
    """The part of a session that the choice uses; a remote one is alone on a node of its name."""

    client_id: str
    online: bool = True
    durable: bool = True
    local: bool = True
    queue: Queue = msgspec.field(default_factory=Queue)

    @property
    def key(self) -> bytes:
        """The client key: its first byte is the slot."""
        return self.client_id.encode()


def group_of(*members: Member, qos: int = 1) -> SharedGroup:
    held = [Subscription(member, "a/+", "g", qos, False, False, 0, 0) for member in members if member.local]
    remote = [
        RemoteMembers("g", "a/+", member.client_id, int(member.online), int(not member.online and member.durable))
        for member in members
        if not member.local
    ]
    return SharedGroup("g", "a/+", tuple(held), tuple(remote))


def message(qos: int = 1) -> Message:
    return Message("", "a/b", b"x", qos, False, None, 0, "publisher", ORIGIN, 1)


def name_of(member: Chosen) -> str:
    if isinstance(member, RemoteMembers):
        return member.node
    return str(member.session.client_id) if member else ""


def chosen(group: SharedGroup, policy: str, seed: int = 1, qos: int = 1, exclude: tuple[Member, ...] = ()) -> str:
    return name_of(choose(group, message(qos), policy, Random(seed), exclude))


MEMBERS = st.lists(st.builds(Member, st.uuids().map(str), st.booleans(), st.booleans(), st.booleans()), max_size=8)


def acceptable(members: list[Member], policy: str, qos: int) -> set[str]:
    """Returns the acceptable members by a second form of the rules: online before offline, then by the policy."""
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


@given(members=MEMBERS, message_qos=st.integers(0, 2), qos=st.integers(0, 2))
def test_a_node_takes_a_message_if_a_member_can_be_chosen(members: list[Member], message_qos: int, qos: int) -> None:
    group = group_of(*members, qos=qos)
    assert takes(group, message(message_qos)) == bool(choose(group.at(None), message(message_qos), "random", Random(1)))


@given(MEMBERS, st.sampled_from(sorted(POLICIES)), st.integers(0, 2), st.integers(0, 10**6))
def test_the_choice_follows_the_policy(members: list[Member], policy: str, qos: int, seed: int) -> None:
    group = group_of(*members)
    wanted = acceptable(members, policy, qos)
    name = chosen(group, policy, seed, qos)
    assert name in wanted if wanted else name == ""
    assert name == chosen(group, policy, seed, qos)


@given(MEMBERS, st.sampled_from(sorted(POLICIES)), st.integers(0, 2), st.data())
def test_excluded_members_are_not_chosen(members: list[Member], policy: str, qos: int, data: st.DataObject) -> None:
    here = [member for member in members if member.local]
    excluded = tuple(data.draw(st.lists(st.sampled_from(here), unique_by=id))) if here else ()
    rest = [member for member in members if member not in excluded]
    wanted = acceptable(rest, policy, qos)
    name = chosen(group_of(*members), policy, 3, qos, excluded)
    assert name in wanted if wanted else name == ""


def counts_of(group: SharedGroup, policy: str, rounds: int, qos: int = 1) -> Counter[str]:
    rng = Random(7)
    return Counter(name_of(choose(group, message(qos), policy, rng)) for _ in range(rounds))


def assert_fair(counts: Counter[str], weights: dict[str, int]) -> None:
    rounds, total = counts.total(), sum(weights.values())
    assert sorted(counts) == sorted(name for name, weight in weights.items() if weight)
    for name, count in counts.items():
        expected = rounds * weights[name] / total
        assert abs(count - expected) < 0.15 * expected, (name, count, expected)


@pytest.mark.parametrize("size", [2, 5, 12])
@pytest.mark.parametrize("elsewhere", [(), (1,), (3, 7)])
def test_every_member_of_the_first_tier_has_the_same_chance(size: int, elsewhere: tuple[int, ...]) -> None:
    """This holds wherever the member is: a node is drawn in proportion to its online members."""
    members = [Member(str(number), online=number % 3 != 1) for number in range(size)]
    group = group_of(*members)
    group.remote = tuple([RemoteMembers("g", "a/+", f"n{online}", online, 5) for online in elsewhere])
    weights = {member.client_id: 1 for member in members if member.online} | {f"n{each}": each for each in elsewhere}
    assert_fair(counts_of(group, "random", 12_000), weights)


@pytest.mark.parametrize("policy", ["random", "prefer_local", "prefer_online_before_local"])
def test_members_elsewhere_have_the_same_chance_among_themselves(policy: str) -> None:
    """No local member is online, and offline members elsewhere do not count while another one is online."""
    here = [Member(str(number), online=False) for number in range(6)]
    group = group_of(*here)
    group.remote = (RemoteMembers("g", "a/+", "n2", 2, 9), RemoteMembers("g", "a/+", "n3", 6, 0))
    assert_fair(counts_of(group, policy, 4000), {"n2": 2, "n3": 6})
    group.remote = (RemoteMembers("g", "a/+", "n2", 0, 2), RemoteMembers("g", "a/+", "n3", 0, 4))
    away = {member.client_id: 1 for member in here}
    weights = {
        "random": away | {"n2": 2, "n3": 4},
        "prefer_local": away,
        "prefer_online_before_local": {"n2": 2, "n3": 4},
    }
    assert_fair(counts_of(group, policy, 8000), weights[policy])
    assert set(counts_of(group, policy, 100, qos=0)) == {""}


def test_the_slots_of_the_members_that_may_be_chosen() -> None:
    """Those on absent nodes may be chosen only if there is no other member. Clean sessions keep nothing in a slot."""
    group = group_of(Member("here"), Member("clean", durable=False))
    assert group.slots == {ord("h")}
    assert group_of(Member("here"), qos=0).slots == set()
    group.remote = (RemoteMembers("g", "a/+", "n2", 0, 2, 2, (5, 6)),)
    group.away = (RemoteMembers("g", "a/+", "n3", 0, 1, 1, (7,)),)
    assert group.slots == {ord("h"), 5, 6}
    assert SharedGroup("g", "a/+", (), (), group.away).slots == {7}


def test_nodes_that_left_the_view_are_asked_last() -> None:
    """Their durable sessions get the message only if no other member can take it."""
    away = (RemoteMembers("g", "a/+", "n2", 0, 1), RemoteMembers("g", "a/+", "n3", 0, 3))
    group = group_of(Member("one", online=False))
    group.away = away
    assert chosen(group, "prefer_online_before_local") == "one"
    group = SharedGroup("g", "a/+", (), (), away)
    assert_fair(counts_of(group, "random", 4000), {"n2": 1, "n3": 3})
    assert chosen(group, "random", qos=0) == ""
    assert chosen(group, "local_only") == ""
    assert choose(group, message(), "random", Random(1), online_only=True) is None
    group.remote = (RemoteMembers("g", "a/+", "n4", 0, 1),)
    assert chosen(group, "random") == "n4"
    assert group.size == 3


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
    return name_of(redistribute(group, message(2), progress, qos, leaving, ended, policy, Random(1)))


def test_messages_of_an_ended_member_are_reassigned() -> None:
    """[MQTT5-4.8.2-4] [MQTT5-4.8.2-5] QoS 2 that was sent is not reassigned; QoS 1 and unsent messages are."""
    leaving = Member("leaving")
    group = group_of(leaving, Member("other"))
    assert handed(group, leaving, Progress.QUEUED, 1) == "other"
    assert handed(group, leaving, Progress.QUEUED, 2) == "other"
    assert handed(group, leaving, Progress.SENT, 1) == "other"
    assert handed(group, leaving, Progress.SENT, 2) == ""
    assert handed(group, leaving, Progress.SENT, 0) == ""
    assert handed(group_of(leaving), leaving, Progress.QUEUED) == ""


def test_a_refused_message_is_not_reassigned() -> None:
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


def test_the_local_policies_reassign_messages_to_local_members() -> None:
    """Otherwise each member of the cluster has its chance; a member that may return keeps them unless another is
    online.
    """
    leaving = Member("leaving", online=False)
    group = group_of(leaving, Member("near"), Member("far", local=False))
    assert handed(group, leaving, Progress.QUEUED, policy="prefer_local") == "near"
    group = group_of(leaving, Member("near", online=False), Member("far", local=False))
    assert handed(group, leaving, Progress.QUEUED, policy="prefer_local", ended=False) == "far"
    assert handed(group, leaving, Progress.QUEUED, policy="local_only") == "near"
    group = group_of(leaving, Member("far", online=False, local=False))
    assert handed(group, leaving, Progress.QUEUED, ended=False) == ""
    assert handed(group, leaving, Progress.QUEUED, ended=True) == "far"


def test_the_text_of_a_group_is_the_filter_of_its_members() -> None:
    assert group_of().text == "$share/g/a/+"
