"""What a node may accept while it does not see the whole cluster: `allow_<operation>_during_netsplit` (INV 7.3).

A policy gates first acceptance only: CONNECT, the first PUBLISH of a packet id, SUBSCRIBE, UNSUBSCRIBE; never a DUP, an
acknowledgement, a delivery, a promotion or a will on a side with a lease (review, hole 13).
"""

from __future__ import annotations

from enum import Enum


class ViewState(Enum):
    """How much of the cluster a node sees."""

    WHOLE = "whole"
    """A lease, and the view has all members."""
    MAJORITY = "majority"
    """A lease, and someone is missing."""
    MINORITY = "minority"
    """No lease."""


class Decision(Enum):
    """What becomes of an operation that is offered for the first time."""

    SERVE = "serve"
    REFUSE = "refuse"
    AP = "ap"
    """Accepted on what the node can reach, flagged, merged at heal."""


OPERATIONS = ("register", "publish", "subscribe", "unsubscribe")

TABLE: dict[tuple[str, ViewState], Decision] = {
    ("off", ViewState.WHOLE): Decision.SERVE,
    ("off", ViewState.MAJORITY): Decision.REFUSE,
    ("off", ViewState.MINORITY): Decision.REFUSE,
    ("majority", ViewState.WHOLE): Decision.SERVE,
    ("majority", ViewState.MAJORITY): Decision.SERVE,
    ("majority", ViewState.MINORITY): Decision.REFUSE,
    ("on", ViewState.WHOLE): Decision.SERVE,
    ("on", ViewState.MAJORITY): Decision.SERVE,
    ("on", ViewState.MINORITY): Decision.AP,
}
"""(flag, state) -> decision; the same for each of the four operations."""


def decide(flag: str, state: ViewState) -> Decision:
    """The table's answer for one operation's flag."""
    return TABLE[flag, state]
