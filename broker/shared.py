"""Shared subscriptions (MQTT 5.0 section 4.8.2): which member of a group gets a message.

A policy is a list of *tiers*. Members of the first tier that has any are drawn from by lot. An offline member is
chosen only when no member is online, and only if it can hold the message; nobody is chosen rather than somebody who
would lose it. In VerneMQ `prefer_local` binds a message to an offline local member although remote ones are online.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import IntEnum
from typing import Any, Protocol

import msgspec

from .message import Message
from .subscriptions import Subscription


class SharedGroup(msgspec.Struct):
    """The members of one shared subscription: the same share name and the same filter (MQTT 5.0 section 4.8.2)."""

    group: str
    filter: str
    members: tuple[Subscription, ...]

    @property
    def text(self) -> str:
        """The filter as the members wrote it."""
        return f"$share/{self.group}/{self.filter}"


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
"""`shared_subscription_policy` -> tiers, first choice first (INV 6.3)."""

_DRAWS = 4


def everyone_is_local(member: Subscription) -> bool:
    """The `is_local` of a node that is alone."""
    return True


def can_hold(member: Subscription, message: Message) -> bool:
    """Whether an offline member keeps the message: its session outlives connections, and the QoS is above 0.

    `upgrade_outgoing_qos` raises a message to the QoS of the subscription as well.
    """
    session = member.session
    return bool(session.durable) and member.qos > 0 and (message.qos > 0 or bool(session.queue.upgrade))


def _cannot(member: Subscription, message: Message) -> bool:
    return False


def choose(
    group: SharedGroup,
    message: Message,
    policy: str,
    rng: Rng,
    exclude: Collection[Any] = (),
    is_local: Callable[[Subscription], bool] = everyone_is_local,
    holds: Callable[[Subscription, Message], bool] = can_hold,
) -> Subscription | None:
    """The member that gets a message, None if there is none that can take it.

    `policy` is a key of `POLICIES`. `exclude` are sessions that are not asked: those that have refused the message or
    are going. `holds` is asked for offline members only.
    """
    tiers = POLICIES[policy]
    members = group.members
    online, local = tiers[0]
    # in a large group some member of the first tier is soon found by lot; each has the same chance, as in the full draw
    for _ in range(_DRAWS if len(members) > _DRAWS else 0):
        member = members[rng.randrange(len(members))]
        session = member.session
        if session.online is online and session not in exclude and local in (None, is_local(member)):
            return member
    rest = [member for member in members if member.session not in exclude]
    for online, local in tiers:
        candidates = [
            member
            for member in rest
            if bool(member.session.online) is online
            and local in (None, is_local(member))
            and (online or holds(member, message))
        ]
        if candidates:
            return candidates[rng.randrange(len(candidates))] if len(candidates) > 1 else candidates[0]
    return None


def redistribute(
    group: SharedGroup,
    message: Message,
    progress: Progress,
    qos: int,
    leaving: Any,
    ended: bool,
    policy: str,
    rng: Rng,
    is_local: Callable[[Subscription], bool] = everyone_is_local,
    holds: Callable[[Subscription, Message], bool] = can_hold,
) -> Subscription | None:
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
    return choose(group, message, policy, rng, (leaving,), is_local, holds if ended else _cannot)
