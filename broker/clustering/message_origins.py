"""Who speaks for the origin of a message: a node for its own, the primary of a slot for those of the slot (H-47)."""

from __future__ import annotations

from collections.abc import Callable

from ...cluster.identity import slot_of_origin


class MessageOrigins:
    """The origins of messages, as one node sees them. `own` is its name."""

    def __init__(self, own: str) -> None:
        self._own = own
        self.home_of: Callable[[int], str] = lambda slot: ""
        """Returns the node with the sessions of a slot, by the table that this node follows; "" if none is known."""

    def home(self, origin: str) -> str:
        """The node that speaks for an origin; "" if none is known."""
        slot = slot_of_origin(origin)
        return origin if slot < 0 else self.home_of(slot)

    def is_own(self, origin: str) -> bool:
        """True if this node speaks for the origin."""
        return origin == self._own or self.home(origin) == self._own
