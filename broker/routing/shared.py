"""Shared subscriptions (MQTT 5.0 section 4.8.2): which member of a group gets a message.

A policy is a list of *tiers*. Members of the first tier that has any are drawn from by lot. An offline member is
chosen only when no member is online, and only if it can hold the message; nobody is chosen rather than somebody who
would lose it. In VerneMQ `prefer_local` binds a message to an offline local member although remote ones are online.

Of members on other nodes only their numbers are known. Each member of the cluster has the same chance: a node with
three is drawn three times as often as a node with one, and draws among its own once more.

In a group without members elsewhere a choice takes 0.8 us for one member, 1.8 us for four, 1.2 us for a hundred
(CPython 3.11), as before other nodes were known here; with members elsewhere 0.5 us more.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import Any, Protocol

import msgspec

from ..queues.message import Message
from .remote import RemoteMembers
from .subscriptions import Subscription


class SharedGroup(msgspec.Struct):
    """The members of one shared subscription: the same share name and the same filter (MQTT 5.0 section 4.8.2).

    `members` are those of this node, `remote` those of other nodes, one item per node; `away` are those on nodes that
    left the view, to be asked when there is nobody else (H-07).
    """

    group: str
    filter: str
    members: tuple[Subscription, ...]
    remote: tuple[RemoteMembers, ...] = ()
    away: tuple[RemoteMembers, ...] = ()

    @property
    def size(self) -> int:
        """How much it holds on to, in members and nodes."""
        return len(self.members) + len(self.remote) + len(self.away)

    @property
    def text(self) -> str:
        """The filter as the members wrote it."""
        return f"$share/{self.group}/{self.filter}"

    @property
    def elsewhere(self) -> tuple[RemoteMembers, ...]:
        """The members on other nodes."""
        return self.remote + self.away

    @property
    def with_room(self) -> tuple[Subscription, ...]:
        """The members of this node whose queues take one more without a loss."""
        return tuple([each for each in self.members if not each.session.queue.full])

    @property
    def node(self) -> str | None:
        """The first other node with members, None if there is none."""
        return next((each.node for each in self.elsewhere), None)

    def at(self, node: str | None) -> SharedGroup:
        """The group reduced to its members on one other node, or on this node if None."""
        if node is None:
            return SharedGroup(self.group, self.filter, self.members)
        remote, away = (tuple([each for each in found if each.node == node]) for found in (self.remote, self.away))
        return SharedGroup(self.group, self.filter, (), remote, away)


class Rng(Protocol):
    """The port for chance."""

    def randrange(self, stop: int, /) -> int:
        """A number from 0 to below `stop`."""


class Progress(IntEnum):
    """How far a message had got with the member that goes."""

    QUEUED = 0
    """It waited in the member's queue."""
    SENT = 1
    """It was sent and not answered."""
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
"""A member of this node; another node, which draws one of its own members; or None."""


def can_hold(member: Subscription, message: Message) -> bool:
    """Whether an offline member keeps the message: its session outlives connections, and the QoS is above 0.

    `upgrade_outgoing_qos` raises a message to the QoS of the subscription as well.
    """
    session = member.session
    return bool(session.durable) and member.qos > 0 and (message.qos > 0 or bool(session.queue.upgrade))


def takes(group: SharedGroup, message: Message) -> bool:
    """Whether some member of this node can take a message."""
    return any(each.session.online or can_hold(each, message) for each in group.members)


def choose(
    group: SharedGroup,
    message: Message,
    policy: str,
    rng: Rng,
    exclude: Collection[Any] = (),
    online_only: bool = False,
) -> Chosen:
    """The member that gets a message, None if no member can take it.

    `policy` is a key of `POLICIES`. `exclude` are sessions of this node that are not asked: those that have refused
    the message or are going. `online_only` leaves members without a connection out.
    """
    tiers = POLICIES[policy]
    members, remote = group.members, group.remote
    if len(members) > _DRAWS:
        # in a large group random draws soon find a member of the first tier; each has the same chance, as in the full
        # draw, for members elsewhere that are not online take no part in the lot
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
    """The members that are online, or those that are not and can hold the message."""
    if online:
        return [member for member in members if member.session.online]
    return [member for member in members if not member.session.online and can_hold(member, message)]


def _count(remote: tuple[RemoteMembers, ...], message: Message, online: bool) -> int:
    """The same, of other nodes: how many they are. There nobody is counted who would hold QoS 0."""
    if online:
        return sum([each.online for each in remote])
    return sum([each.holding for each in remote]) if message.qos else 0


def _pick(remote: tuple[RemoteMembers, ...], number: int, online: bool) -> RemoteMembers:
    """The node with the member of this number."""
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
    """Who gets a message that was bound to a member which goes, None if it stays where it is, or is given up.

    `leaving` is that member's session and `qos` the one at which it was to get the message. `ended` says that it has
    left for good: its session is over, or it unsubscribed. Otherwise only its connection is gone; then its queue holds
    the message, and only a member that is online is any better.
    """
    if progress is Progress.REFUSED:
        return None  # not to be sent to any other subscriber [MQTT5-4.8.2-6]
    if progress is Progress.SENT and qos != 1:
        # QoS 2: delivery is completed with this member, or never [MQTT5-4.8.2-4] [MQTT5-4.8.2-5]; QoS 0: it is done
        return None
    return choose(group, message, policy, rng, (leaving,), online_only=not ended)
