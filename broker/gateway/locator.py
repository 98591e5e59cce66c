"""Which node is the primary of a slot: the port between the relay and the table of slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ...cluster.identity import SLOTS
from ...cluster.slots.table import SlotHome


class SlotLocator(Protocol):
    """The table of slots, as this node has applied it."""

    def primary_of(self, slot: int) -> str | None:
        """Return the name of the node that runs the sessions of a slot (0 to 255); None while no node does."""
        ...

    def home_of(self, slot: int) -> SlotHome:
        """Return the node with the sessions of a slot: messages for them go there."""
        ...

    def homes(self) -> Sequence[SlotHome]:
        """Return `home_of` each slot, in the order of the slots."""
        ...

    def holders_of(self, slot: int) -> tuple[str, ...]:
        """Return the nodes that have the sessions of a slot, or that had them last."""
        ...

    def registrar_of(self, slot: int) -> str | None:
        """Return the node that registers clients without durable state: the primary, or while there is none its deputy.

        None while no node does.
        """
        ...

    def registered_by(self, node: str) -> dict[int, int]:
        """Return slot -> epoch (`epoch_of`), in the order of the slots, for those that a node registers."""
        ...

    def holds(self, slot: int) -> bool:
        """True if the sessions of a slot are on the disk of this node, by the last table that it has applied.

        The node may have been cut off since, so another one may be primary.
        """
        ...

    def epoch_of(self, slot: int) -> int:
        """Return the number of the slot's present registrar. It rises with each change of the registrar."""
        ...

    def when_changed(self, changed: Callable[[], None]) -> None:
        """Call `changed` after each change of the table, for the life of the process."""
        ...


class EverySlotHere:
    """The table of a node that runs all sessions of its clients itself."""

    def __init__(self, node: str) -> None:
        self._node = node

    def primary_of(self, _slot: int) -> str | None:
        """As `SlotLocator.primary_of`: this node."""
        return self._node

    def home_of(self, _slot: int) -> SlotHome:
        """As `SlotLocator.home_of`: this node."""
        return SlotHome(self._node, True, 0)

    def homes(self) -> Sequence[SlotHome]:
        """As `SlotLocator.homes`: this node has all slots."""
        return (SlotHome(self._node, True, 0),) * SLOTS

    def holders_of(self, _slot: int) -> tuple[str, ...]:
        """As `SlotLocator.holders_of`: this node."""
        return (self._node,)

    def registrar_of(self, _slot: int) -> str | None:
        """As `SlotLocator.registrar_of`: this node."""
        return self._node

    def registered_by(self, node: str) -> dict[int, int]:
        """As `SlotLocator.registered_by`: this node registers all slots."""
        return dict.fromkeys(range(SLOTS), 0) if node == self._node else {}

    def holds(self, _slot: int) -> bool:
        """As `SlotLocator.holds`: always."""
        return True

    def epoch_of(self, _slot: int) -> int:
        """As `SlotLocator.epoch_of`: always 0."""
        return 0

    def when_changed(self, _changed: Callable[[], None]) -> None:
        """As `SlotLocator.when_changed`: the table never changes."""
