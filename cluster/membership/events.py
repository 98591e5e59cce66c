"""The events of an applied command: the changes that it made. The log, pending calls and the broker react to them."""

from __future__ import annotations

from typing import NamedTuple

from ..slots.table import SlotTable
from .commands import Command
from .view import View


class Settled(NamedTuple):
    """The cluster got its id."""

    cluster_id: str


class Joined(NamedTuple):
    """A node became a member. `emptied`: it was a member before, with another disk."""

    node: str
    emptied: bool


class Booted(NamedTuple):
    """A member started again. If it had a row in the view, the same log entry removed the row. `incomplete`: its disk
    may lack the last writes of an earlier start."""

    node: str
    boot: int
    incomplete: bool = False


class Left(NamedTuple):
    """The node is no longer a member."""

    node: str


class WentStale(NamedTuple):
    """The member has to return with an empty disk."""

    node: str


class ViewChanged(NamedTuple):
    """Another view is in force."""

    before: View
    after: View


class BarriersAllowed(NamedTuple):
    """Whether barriers may complete now: see `MembershipState.informed_members`."""

    barriers_allowed: bool


class SlotsLost(NamedTuple):
    """The cluster has given up the disk of the node, which had the last copy of these slots. They are empty now."""

    node: str
    slots: tuple[int, ...]


class SlotsDoubtful(NamedTuple):
    """The node is the primary of these slots now, and may lack changes that were acknowledged.

    `holders`: the nodes that held them last. `by`: the node whose operator has asked; "" if all holders are back, and
    the disk of each may lack changes.
    """

    node: str
    slots: tuple[int, ...]
    holders: tuple[str, ...]
    by: str = ""


class SlotsChanged(NamedTuple):
    """Rows of the slot table have changed."""

    before: SlotTable
    after: SlotTable


class Refused(NamedTuple):
    """The command changed nothing. `boot`: the highest boot that the node has had, if that was the reason."""

    command: Command
    reason: str
    boot: int = 0


MembershipEvent = (
    Settled
    | Joined
    | Booted
    | Left
    | WentStale
    | BarriersAllowed
    | ViewChanged
    | SlotsLost
    | SlotsDoubtful
    | SlotsChanged
    | Refused
)
