"""What an applied command changed: for events, for the answer to whoever asked, and for the parts that follow views."""

from __future__ import annotations

from typing import NamedTuple

from .commands import Command
from .view import View


class Settled(NamedTuple):
    """The cluster has its id."""

    cluster_id: str


class Joined(NamedTuple):
    """A member came in. `emptied`: it was one before, with another disk."""

    node: str
    emptied: bool


class Booted(NamedTuple):
    """A member started anew; if it had a row in the view, it left with the same entry."""

    node: str
    boot: int


class Left(NamedTuple):
    """The node is a member no longer."""

    node: str


class WentStale(NamedTuple):
    """The member has to return with an empty disk."""

    node: str


class ViewChanged(NamedTuple):
    """Another view is in force."""

    before: View
    after: View


class Agreed(NamedTuple):
    """Whether those who serve are all who know what was promised: see `MembershipState.knowing`."""

    agreed: bool


class Refused(NamedTuple):
    """The command changed nothing. `boot`: the highest one that its node has had, if that was the reason."""

    command: Command
    reason: str
    boot: int = 0


MembershipEvent = Settled | Joined | Booted | Left | WentStale | Agreed | ViewChanged | Refused
