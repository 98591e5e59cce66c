"""Shared subscriptions (MQTT 5.0 section 4.8.2): which member of a group gets a message.

A policy is a list of *tiers*. The choice is random among the members of the first tier that has any. An offline member
is chosen only if no member is online, and only if it keeps the message; otherwise no member is chosen. In VerneMQ
`prefer_local` gives a message to an offline local member even if remote ones are online.

This node knows only how many members other nodes have. Each member of the cluster has the same chance: a node with
three members is chosen three times as often as a node with one, and then chooses among its own.

In a group without members on other nodes a choice takes 0.8 us for one member, 1.8 us for four, 1.2 us for a hundred
(CPython 3.11); with members on other nodes 0.5 us more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import IntEnum
from typing import Any, Protocol

import msgspec

from ..queues.message import Message
from .remote import RemoteMembers
from .subscriptions import Subscription


class SharedGroup(msgspec.Struct):
    """The members of one shared subscription: the same share name and the same filter (MQTT 5.0 section 4.8.2).

    `members` are those of this node, `remote` those of other nodes, one item per node. `away` are those on nodes that
    left the view, chosen only if there is no other member (H-07).
    """

    group: str
    filter: str
    members: tuple[Subscription, ...]
    remote: tuple[RemoteMembers, ...] = ()
    away: tuple[RemoteMembers, ...] = ()

    @property
    def size(self) -> int:
        """Number of members of this node, plus the number of items of other nodes."""
        return len(self.members) + len(self.remote) + len(self.away)

    @property
    def slots(self) -> set[int]:
        """The slots of those members that may be chosen now and keep messages."""
        here = {each.session.key[0] for each in self.members if each.session.durable and each.qos}
        others = self.remote if self.members or self.remote else self.away
        return here.union(*[each.slots for each in others])

    @property
    def text(self) -> str:
        """The filter as the members wrote it."""
        return f"$share/{self.group}/{self.filter}"

    @property
    def elsewhere(self) -> tuple[RemoteMembers, ...]:
        """The members on other nodes."""
        return self.remote + self.away

    @property
    def with_room(self) -> SharedGroup:
        """The group without those members of this node whose queues would lose one more message."""
        roomy = tuple([each for each in self.members if not each.session.queue.full])
        return SharedGroup(self.group, self.filter, roomy, self.remote, self.away)

    @property
    def node(self) -> str | None:
        """The first other node with members, None if there is none."""
        return next((each.node for each in self.elsewhere), None)

    def those_of(self, found: Iterable[RemoteMembers]) -> tuple[RemoteMembers, ...]:
        """Of these members on other nodes, those of this group."""
        return tuple([each for each in found if (each.group, each.filter) == (self.group, self.filter)])

    def at(self, node: str | None) -> SharedGroup:
        """Return the group with only its members on one other node, or on this node if `node` is None."""
        if node is None:
            return SharedGroup(self.group, self.filter, self.members)
        remote, away = (tuple([each for each in found if each.node == node]) for found in (self.remote, self.away))
        return SharedGroup(self.group, self.filter, (), remote, away)


class Rng(Protocol):
    """The port for chance."""

    def randrange(self, stop: int, /) -> int:
        """A number from 0 to below `stop`."""


class Progress(IntEnum):
    """The state of a message at the leaving member."""

    QUEUED = 0
    """It waited in the member's queue."""
    SENT = 1
    """It was sent and has no answer."""
    REFUSED = 2
    """The member answered with a reason code of 0x80 or above."""


Tier = tuple[bool, bool | None]
"""Whether its members are online, and whether they are local (None: either)."""

POLICIES: dict[str, tuple[Tier, ...]] = {
    "random": ((True, None), (False, None)),
    "prefer_local": ((True, True), (True, False), (False, True), (False, False)),
    "local_only": ((True, True), (False, True)),
    "prefer_online_before_local": ((True, True), (True, False), (False, False), (False, True)),
}
"""`shared_subscription_policy` -> tiers, first choice first."""

_DRAWS = 4

Chosen = Subscription | RemoteMembers | None
"""A member of this node; another node, which chooses one of its own members; or None."""


def can_hold(member: Subscription, message: Message) -> bool:
    """True if the member keeps the message while offline: its session is durable, and the QoS is above 0.

    With `upgrade_outgoing_qos` a message of QoS 0 gets the QoS of the subscription.
    """
    session = member.session
    return bool(session.durable) and member.qos > 0 and (message.qos > 0 or bool(session.queue.upgrade))


def takes(group: SharedGroup, message: Message) -> bool:
    """True if some member of this node can take a message."""
    return any(each.session.online or can_hold(each, message) for each in group.members)


def choose(
    group: SharedGroup,
    message: Message,
    policy: str,
    rng: Rng,
    exclude: Collection[Any] = (),
    online_only: bool = False,
) -> Chosen:
    """Choose the member that gets a message; None if no member can take it.

    `policy` is a key of `POLICIES`. `exclude` are sessions of this node that cannot be chosen: those that have refused
    the message, or that are leaving. `online_only` excludes offline members.
    """
    tiers = POLICIES[policy]
    members, remote = group.members, group.remote
    if len(members) > _DRAWS:
        # in a large group a few random draws usually find a member of the first tier; each member has the same chance
        # as in the full choice below, because of other nodes only online members take part
        reach = len(members)
        if remote and tiers[0][1] is None:
            reach += sum([each.online for each in remote])
        for _ in range(_DRAWS):
            number = rng.randrange(reach)
            if number >= len(members):
                return _pick(remote, number - len(members), True)
            session = members[number].session
            if session.online and session not in exclude:
                return members[number]
    rest = [member for member in members if member.session not in exclude]
    for online, local in tiers:
        if not online and online_only:
            continue
        candidates = [] if local is False else _able(rest, message, online)
        elsewhere = 0 if local or not remote else _count(remote, message, online)
        total = len(candidates) + elsewhere
        if total:
            number = rng.randrange(total) if total > 1 else 0
            if number < len(candidates):
                return candidates[number]
            return _pick(remote, number - len(candidates), online)
    if group.away and not online_only and any(not local for _, local in tiers):
        total = _count(group.away, message, False)
        if total:
            return _pick(group.away, rng.randrange(total), False)
    return None


def _able(members: list[Subscription], message: Message, online: bool) -> list[Subscription]:
    """Return the online members, or the offline members that can keep the message."""
    if online:
        return [member for member in members if member.session.online]
    return [member for member in members if not member.session.online and can_hold(member, message)]


def _count(remote: tuple[RemoteMembers, ...], message: Message, online: bool) -> int:
    """The number of online members on other nodes, or of offline ones that keep the message (0 for QoS 0)."""
    if online:
        return sum([each.online for each in remote])
    return sum([each.holding for each in remote]) if message.qos else 0


def _pick(remote: tuple[RemoteMembers, ...], number: int, online: bool) -> RemoteMembers:
    """Return the node of the member with this number."""
    for each in remote:
        number -= each.online if online else each.holding
        if number < 0:
            return each
    raise AssertionError("a number beyond the last member")


def redistribute(
    group: SharedGroup,
    message: Message,
    progress: Progress,
    qos: int,
    leaving: Any,
    ended: bool,
    policy: str,
    rng: Rng,
) -> Chosen:
    """Choose another member for a message of a leaving member; None if the message stays there, or is dropped.

    `leaving` is the session of that member, and `qos` the QoS of the message for it. `ended` is True if the member has
    left for good. Otherwise only its connection has ended: its queue keeps the message, and only an online member is a
    better choice.
    """
    if progress is Progress.REFUSED:
        return None  # not to be sent to any other subscriber [MQTT5-4.8.2-6]
    if progress is Progress.SENT and qos != 1:
        # QoS 2: only this member may complete the delivery [MQTT5-4.8.2-4] [MQTT5-4.8.2-5]; QoS 0: delivery is done
        return None
    return choose(group, message, policy, rng, (leaving,), online_only=not ended)
