"""Updates of the slot table with one plausible mistake each. A walk must find each of them."""

from __future__ import annotations

from msgspec.structs import replace

from strogoff.cluster.slots.table import Holder, SlotRow
from strogoff.cluster.slots.update import TableUpdate


class ComparesByNode(TableUpdate):
    """A holder counts as present if any incarnation of its node is in the view (H-22)."""

    def is_present(self, holder: Holder) -> bool:
        return holder.node in self.roll.present


class AcceptsTheAbsent(TableUpdate):
    """A late request may name a holder that has left the view (H-22)."""

    def wrong(self, change: SlotRow, row: SlotRow) -> str:
        reason = super().wrong(change, row)
        return "" if reason.startswith("it names") and "view" in reason else reason


class RemovesTheLast(TableUpdate):
    """A holder that leaves the view leaves the in-sync set, although nobody else is in it (H-23)."""

    def _followed(self, row: SlotRow) -> SlotRow:
        found = super()._followed(row)
        return found if found.primary is not None else self.changed(row, None, ())


class GivesToAnybody(TableUpdate):
    """A slot whose holders are away goes to any serving node (H-23)."""

    def _followed(self, row: SlotRow) -> SlotRow:
        found = super()._followed(row)
        return found if found.primary is not None else self._given(row)


class KeepsTheEpoch(TableUpdate):
    """The same node gets the slot back in its former epoch (H-24)."""

    def epoch_of(self, row: SlotRow, primary: Holder | None, deputy: Holder | None) -> int:
        back = primary is not None and row.primary is None and primary.node in [each.node for each in row.in_sync[:1]]
        return row.epoch if back else super().epoch_of(row, primary, deputy)


class IgnoresVersions(TableUpdate):
    """A request is applied to another row than the one for which it was made (H-22)."""

    def wrong(self, change: SlotRow, row: SlotRow) -> str:
        return super().wrong(SlotRow(row.slot, row.epoch, row.version, change.primary, change.in_sync), row)


class TakesAnyPrimary(TableUpdate):
    """A request may name a primary that was not in sync (H-23)."""

    def wrong(self, change: SlotRow, row: SlotRow) -> str:
        reason = super().wrong(change, row)
        return "" if "is not in sync yet" in reason else reason


class KeepsGivenUpDisks(TableUpdate):
    """A holder stays although its member has left, went stale, or has another disk (H-23)."""

    def known(self, row: SlotRow) -> tuple[Holder, ...]:
        return row.in_sync


class KeepsDeputies(TableUpdate):
    """A deputy stays after it has left the view, or has stopped to serve."""

    def _deputy(self, row: SlotRow) -> Holder | None:
        return row.deputy or super()._deputy(row)


class DeputiesBeginNoEpoch(TableUpdate):
    """A deputy begins in the epoch of the primary before it."""

    def epoch_of(self, row: SlotRow, primary: Holder | None, deputy: Holder | None) -> int:
        return row.epoch if primary is None else super().epoch_of(row, primary, deputy)


class PromotesBesideOthers(TableUpdate):
    """The other followers of a former primary stay in sync with the next one (H-46)."""

    def _followed(self, row: SlotRow) -> SlotRow:
        found = super()._followed(row)
        stay = tuple([holder for holder in row.in_sync if self.is_present(holder)])
        if found.primary is None or found.primary == row.primary or found.primary not in stay:
            return found
        return replace(found, in_sync=stay)


class TakesFollowersOut(TableUpdate):
    """A primary takes a follower out of the in-sync set (H-46)."""

    def taken_out(self, change: SlotRow, row: SlotRow, leaving: str) -> str:
        return super().taken_out(change, row, leaving) if leaving or change.primary != row.primary else ""


class GivesBesideOthers(TableUpdate):
    """A primary gives the slot to one follower, and others stay in sync (H-46)."""

    def taken_out(self, change: SlotRow, row: SlotRow, leaving: str) -> str:
        return super().taken_out(change, row, leaving) if leaving or change.primary == row.primary else ""


class LetsFollowersTakeOthersOut(TableUpdate):
    """A follower takes other nodes out of the in-sync set, or becomes primary (H-46)."""

    def taken_out(self, change: SlotRow, row: SlotRow, leaving: str) -> str:
        return "" if leaving else super().taken_out(change, row, leaving)


class TakesIncompleteDisks(TableUpdate):
    """The first holder that returns gets the slot, also after its machine has lost power."""

    def returned(self, holders: tuple[Holder, ...], incomplete: tuple[str, ...]) -> tuple[Holder, ...]:
        return super().returned(holders, ())


class ForgetsLosses(TableUpdate):
    """A holder that lost power counts as complete after its next start."""

    def incomplete(self, row: SlotRow, known: tuple[Holder, ...]) -> tuple[str, ...]:
        return super().incomplete(replace(row, incomplete=()), known)


class WaitsForCompleteDisks(TableUpdate):
    """A slot whose holders have all lost power never gets a primary."""

    def returned(self, holders: tuple[Holder, ...], incomplete: tuple[str, ...]) -> tuple[Holder, ...]:
        return tuple([holder for holder in super().returned(holders, incomplete) if holder.node not in incomplete])


class RecoversForAnyVersion(TableUpdate):
    """An operator's request is applied to another row than the one for which it was made."""

    def recover(self, changes: tuple[SlotRow, ...]) -> list[tuple[SlotRow, str]]:
        rows = [self.table.row(change.slot) for change in changes]
        return super().recover(
            tuple(
                [
                    replace(change, epoch=row.epoch, version=row.version)
                    for change, row in zip(changes, rows, strict=True)
                ]
            )
        )


PLANTS: dict[type[TableUpdate], int] = {
    TakesIncompleteDisks: 5,
    ForgetsLosses: 6,
    WaitsForCompleteDisks: 3,
    RecoversForAnyVersion: 3,
    ComparesByNode: 3,
    AcceptsTheAbsent: 3,
    RemovesTheLast: 3,
    GivesToAnybody: 3,
    KeepsTheEpoch: 3,
    IgnoresVersions: 3,
    TakesAnyPrimary: 3,
    KeepsGivenUpDisks: 3,
    KeepsDeputies: 3,
    DeputiesBeginNoEpoch: 3,
    PromotesBesideOthers: 3,
    TakesFollowersOut: 3,
    GivesBesideOthers: 3,
    LetsFollowersTakeOthersOut: 3,
}
"""Planted bug -> the number of seeds within which it must be found."""
