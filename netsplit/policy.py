"""The operations that a node accepts while it does not see the whole cluster: `allow_<operation>_during_netsplit`.

A policy applies to the first acceptance only: CONNECT, the first PUBLISH of a packet id, SUBSCRIBE, UNSUBSCRIBE. It
never applies to a DUP, an acknowledgement, a delivery, a promotion, or a will on a side with a lease (H-13).
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class ViewState(Enum):
    """How much of the cluster a node sees."""

    WHOLE = "whole"
    """A lease, and the view has all members."""
    MAJORITY = "majority"
    """A lease, and at least one member is missing."""
    MINORITY = "minority"
    """No lease."""


class Decision(Enum):
    """The decision about an operation at its first attempt."""

    SERVE = "serve"
    REFUSE = "refuse"
    AP = "ap"
    """Accepted with the nodes that are reachable, flagged, merged at heal."""


FLAGS = ("off", "majority", "on")
"""The values of `allow_<operation>_during_netsplit`."""

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
    """Returns the decision for an operation whose flag has this value."""
    return TABLE[flag, state]


class Refusal(NamedTuple):
    """The answer to one refused packet, as a client sees it (docs/netsplit.md).

    `answer` is the packet that answers it. `v3` (MQTT 3.1 and 3.1.1) and `v5` are the code in the answer, None without
    an answer. `v3_then` and `v5_then` describe what happens to the packet or the connection.
    """

    operation: str
    packet: str
    answer: str
    v3: int | None
    v3_then: str
    v5: int | None
    v5_then: str


CLOSED = "the connection is closed"
DROPPED = "dropped"
PARKED = "parked, accepted in order at heal"
FREE = "the packet id is free again"
UNCHANGED = "nothing changes"

REFUSALS = (
    Refusal("register", "CONNECT", "CONNACK", 3, CLOSED, 0x88, CLOSED),
    Refusal("publish", "PUBLISH QoS 0", "", None, DROPPED, None, DROPPED),
    Refusal("publish", "PUBLISH QoS 1", "PUBACK", None, PARKED, 0x83, FREE),
    Refusal("publish", "PUBLISH QoS 2", "PUBREC", None, PARKED, 0x80, FREE),
    Refusal("subscribe", "SUBSCRIBE", "SUBACK", 0x80, UNCHANGED, 0x87, UNCHANGED),
    Refusal("unsubscribe", "UNSUBSCRIBE", "UNSUBACK", None, UNCHANGED, 0x83, UNCHANGED),
)
"""Every packet that can be refused. SUBACK and UNSUBACK have the code once for each filter."""
