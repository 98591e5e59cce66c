"""The receivers of a message on other nodes, which a plan has besides the sessions of this node."""

from __future__ import annotations

from typing import NamedTuple

MOVING = "(moving)"
"""Stands for the node of a slot that is moving away from this node: messages for its sessions wait (H-45)."""


class Elsewhere(NamedTuple):
    """Where the sessions of a slot are whose subscriptions this node still has, or has already. `absent` as in
    `RemoteTarget`."""

    node: str
    absent: bool


COPIED = Elsewhere("", True)
"""This node has a copy of the slot: the routes that its primary has written tell where messages for it go."""


class RemoteTarget(NamedTuple):
    """A node with matching ordinary subscriptions: of clean sessions (`live`), of durable sessions in `slots`, or both.

    `absent` is True if no process of the node serves its slots now: then only durable sessions get the message, later.
    """

    node: str
    live: bool
    slots: tuple[int, ...] = ()
    absent: bool = False

    @property
    def durable(self) -> bool:
        """True if a durable session there gets the message."""
        return bool(self.slots)


class RemoteMembers(NamedTuple):
    """The members of a shared subscription on another node.

    `online` is how many have a client, `holding` how many are offline and keep messages, and `lasting` how many of both
    have durable sessions. `slots` are those of these durable sessions.
    """

    group: str
    filter: str
    node: str
    online: int
    holding: int
    lasting: int = 0
    slots: tuple[int, ...] = ()

    def joined(self, other: RemoteMembers) -> RemoteMembers:
        """These members and others of the same group at the same node."""
        return RemoteMembers(
            *self[:3],
            self.online + other.online,
            self.holding + other.holding,
            self.lasting + other.lasting,
            tuple(sorted({*self.slots, *other.slots})),
        )

    @property
    def text(self) -> str:
        """The filter as the members wrote it."""
        return f"$share/{self.group}/{self.filter}"
