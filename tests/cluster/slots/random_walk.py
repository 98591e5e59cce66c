"""Random histories of a replicated membership, with every rule of the slot table checked after each entry.

Nodes restart, also after a loss of power, leave the view and enter it, leave the cluster, go stale, and return with
another disk. Copies are added, replaced and moved, followers take themselves out, and operators recover slots, also by
requests that are late or wrong. A second state machine
applies the same entries, and is replaced by a restored snapshot at random points.
"""

from __future__ import annotations

import random

from msgspec.structs import replace

from strogoff.cluster.identity import SLOTS
from strogoff.cluster.membership.commands import (
    Boot,
    Command,
    Join,
    Leave,
    RecoverSlots,
    Row,
    SetSlots,
    Settle,
    SetView,
    Stale,
    encode_command,
)
from strogoff.cluster.membership.events import MembershipEvent, Refused, SlotsDoubtful, SlotsLost
from strogoff.cluster.membership.state_machine import MembershipState
from strogoff.cluster.slots.table import Holder, SlotRow
from strogoff.cluster.slots.update import TableUpdate

NAMES = "abcde"


class Violation(AssertionError):
    """A rule of the slot table is broken. The text names the slot and the entry."""


class Walk:
    """One random history. `step` applies one random command and checks all rules."""

    def __init__(self, seed: int, update: type[TableUpdate] = TableUpdate) -> None:
        self.rng = random.Random(seed)
        self.update = update
        self.truth = self._state()
        self.replica = self._state()
        self.registrars: dict[tuple[int, int], Holder] = {}
        self.disks = 0
        self.late: list[SetSlots | RecoverSlots] = []
        self.lacking: dict[int, set[tuple[str, str]]] = {}
        """Slot -> the disks that have lost power since they held it, and since it had a primary."""
        self.accepted = self.refused = self.lost = 0
        self.left = self.replaced = self.given = self.promoted = self.recovered = self.doubted = 0
        self.apply(Settle("id", "a", self._disk(), 1, "a-1", "", slots=True))
        for name in self.rng.choice(["", "bc", "bcde"]):
            self.apply(Join(name, self._disk(), 1, f"{name}-1", ""))

    @property
    def happened(self) -> tuple[int, ...]:
        """How often a follower left by its own word, a follower was replaced, a slot was given away, one of several
        followers became primary, an operator recovered a slot, and a slot went to one of many that lost power."""
        return self.left, self.replaced, self.given, self.promoted, self.recovered, self.doubted

    def _state(self) -> MembershipState:
        state = MembershipState()
        state.table_update = self.update
        return state

    def _disk(self) -> str:
        self.disks += 1
        return f"disk-{self.disks}"

    def step(self) -> None:
        """Apply one random command, and check the rules. Raises `Violation`."""
        if self.rng.random() < 0.012:
            self.blackout()
        act = self.rng.choice(
            [*[self.view] * 3, self.restart, *[self.copies] * 7, *[self.late_copies] * 2, self.members, self.recover]
        )
        command = act()
        if command is not None:
            self.apply(command)

    # -- commands

    def view(self) -> Command | None:
        """Removes, enters and promotes nodes, several at once."""
        view = self.truth.view
        rows: list[Row] = []
        for name, member in self.truth.members.items():
            row = view.row(name)
            if row is None:
                if not member.stale and self.rng.random() < 0.7:
                    rows.append(Row(name, member.boot, view.id + 1))
            elif self.rng.random() < 0.92:
                rows.append(Row(name, row.boot, row.entered_in_view, row.serving or self.rng.random() < 0.7))
        return SetView(view.id, tuple(rows), slots=True)

    def restart(self) -> Command | None:
        """A member starts again with its disk; perhaps that start, or an unlogged one before, found a loss of power."""
        member = self.rng.choice(list(self.truth.members.values()))
        boot = member.boot + self.rng.choice([1, 1, 2])
        incomplete = self.rng.choice([0, 0, member.boot, member.boot + 1, boot])
        return Boot(member.node, member.disk, boot, f"{member.node}-{boot}", "", (), "", incomplete)

    def blackout(self) -> None:
        """All nodes are gone at once. They start again, some after a loss of power, and some enter."""
        self.apply(SetView(self.truth.view.id, (), slots=True))
        for member in self.rng.sample(list(self.truth.members.values()), len(self.truth.members)):
            boot = member.boot + 1
            incomplete = self.rng.choice([0, boot])
            self.apply(Boot(member.node, member.disk, boot, f"{member.node}-{boot}", "", (), "", incomplete))
            if self.rng.random() < 0.5:
                rows = [row for row in self.truth.view.rows if row.node != member.node]
                able = not self.truth.members[member.node].stale
                new = [Row(member.node, boot, self.truth.view.id + 1)] * able
                self.apply(SetView(self.truth.view.id, (*rows, *new), slots=True))
                command = self.recover()
                if command is not None and self.rng.random() < 0.5:
                    self.apply(command)

    def recover(self) -> Command | None:
        """An operator gives slots without primary to any node of the view, sometimes too late, or to none."""
        present = list(self._present().values())
        slots = self.truth.slots
        orphans = list(slots.slots_by_primary.get(None, ()))
        some = self.rng.sample(orphans, len(orphans) // 4) + self.rng.sample(range(SLOTS), 5)
        rows = [slots.row(slot) for slot in dict.fromkeys(some)]
        named = [replace(row, primary=self.rng.choice([*present, None, *row.in_sync])) for row in rows]
        command = RecoverSlots(tuple(named), "x")
        if self.rng.random() < 0.3:
            self.late.append(command)
            return None
        return command

    def members(self) -> Command | None:
        """A node joins, returns with another disk, leaves, or goes stale."""
        name = self.rng.choice(NAMES)
        kind = self.rng.random()
        if kind < 0.2:
            return Leave(name)
        if kind < 0.4:
            return Stale(name)
        boot = self.truth.last_possible(name) + 1
        return Join(name, self._disk(), boot, f"{name}-{boot}", "")

    def copies(self) -> Command | None:
        """Asks for other copies or primaries of some slots. Some requests are wrong, some come late."""
        first = self.rng.choice([0, 0, self.rng.randrange(SLOTS)])
        slots = [(first + at) % SLOTS for at in range(self.rng.choice([1, 100, 200]))]
        make = self.rng.choice([*[self._added] * 3, self._replaced, self._replaced, self._given, self._any, self._any])
        leaving = ""
        if self.rng.random() < 0.2:
            leaving = self.rng.choice(NAMES)
            make = self._any if self.rng.random() < 0.3 else lambda row: self._without(row, leaving)
        changes = [make(row) for row in map(self.truth.slots.row, slots) if row.primary is not None]
        command = SetSlots(tuple(changes), leaving)
        if self.rng.random() < 0.3:
            self.late.append(command)
            return None
        return command

    def _others(self, row: SlotRow) -> list[Holder]:
        """The nodes of the view without a copy, in a random order."""
        held = [holder.node for holder in row.in_sync]
        others = [holder for holder in self._present().values() if holder.node not in held]
        return self.rng.sample(others, len(others))

    def _added(self, row: SlotRow) -> SlotRow:
        """The primary adds a follower while there are fewer than three holders."""
        return replace(row, in_sync=(*row.in_sync, *self._others(row)[: len(row.in_sync) < 3]))

    def _replaced(self, row: SlotRow) -> SlotRow:
        """A new follower takes the place of another one."""
        rest = [holder for holder in row.in_sync if holder != row.primary]
        others = self._others(row)
        return replace(row, in_sync=(row.primary, *rest[1:], *others[:1])) if rest and others else row

    def _given(self, row: SlotRow) -> SlotRow:
        """The primary gives the slot to a follower, if there is one."""
        holder = self.rng.choice(row.in_sync)
        return row if holder == row.primary else replace(row, primary=holder, in_sync=(holder,))

    def _without(self, row: SlotRow, node: str) -> SlotRow:
        """A follower takes itself out."""
        rest = tuple([holder for holder in row.in_sync if holder.node != node])
        return replace(row, in_sync=rest)

    def _any(self, row: SlotRow) -> SlotRow:
        """Anything, wrong for the most part."""
        holders = list(self._present().values())
        named = self.rng.sample(holders, self.rng.randint(0, min(3, len(holders))))
        if self.rng.random() < 0.2:
            named = [Holder(each.node, each.disk, max(0, each.entered_in_view - 1)) for each in named]
        kept = [each for each in row.in_sync if self.rng.random() < 0.9]
        in_sync = {each.node: each for each in (*named, *kept)}
        mixed = tuple(in_sync.values()) if self.rng.random() < 0.9 else (*in_sync.values(), *named)
        primary = row.primary if self.rng.random() < 0.5 else self.rng.choice([None, *mixed])
        if primary is not None and self.rng.random() < 0.3:
            mixed = (primary,)
        return SlotRow(row.slot, row.epoch, row.version, primary, mixed)

    def late_copies(self) -> Command | None:
        """A request is applied that was made for an earlier table."""
        if not self.late:
            return None
        return self.late.pop(self.rng.randrange(len(self.late)))

    # -- rules

    def apply(self, command: Command) -> None:
        """Apply a command, and check the rules."""
        before, members = self.truth.slots.rows, dict(self.truth.members)
        index = self.truth.index + 1
        happened = self.truth.apply(index, encode_command(command))
        if self.rng.random() < 0.2:
            restored = self._state()
            restored.restore(self.replica.snapshot())
            self.replica = restored
        self.replica.apply(index, encode_command(command))
        if self.replica.snapshot() != self.truth.snapshot() or self.replica.slots.rows != self.truth.slots.rows:
            raise Violation(f"entry {index}: two nodes have different tables")
        lost = {slot for each in happened if isinstance(each, SlotsLost) for slot in each.slots}
        self.lost += len(lost)
        self.doubted += sum(isinstance(each, SlotsDoubtful) and not each.by for each in happened)
        if isinstance(command, Boot) and command.incomplete > members[command.node].boot:
            self._lose_power(command, happened, before)
        present = self._present()
        disks = {(row.node, row.disk) for row in self.truth.members.values() if not row.stale}
        for old, row in zip(before, self.truth.slots.rows, strict=True):
            problem = (
                self._numbers(old, row, index)
                or _holders(row, present, disks, self.lacking.get(row.slot, set()))
                or self._deputy(row, present)
                or _succession(old, row, row.slot in lost, command, disks)
                or self._complete(old, row, command, present, disks)
                or (self._asked(old, row, command) if isinstance(command, SetSlots) else self._followed(old, row))
            )
            if row.primary is not None:
                self.lacking.pop(row.slot, None)
            if problem:
                raise Violation(f"entry {index}, slot {row.slot}: {problem}\n{old}\n{row}\n{command}")
        if isinstance(command, SetSlots | RecoverSlots):
            self._requests(command, happened, before)

    def _present(self) -> dict[str, Holder]:
        rows = self.truth.view.rows
        return {row.node: Holder(row.node, self.truth.members[row.node].disk, row.entered_in_view) for row in rows}

    def _numbers(self, old: SlotRow, row: SlotRow, index: int) -> str:
        if row.version < old.version or row.epoch < old.epoch:
            return "epoch or version fell"
        if (row == old) != (row.version == old.version) or (row != old and row.version != index):
            return "the version is not the entry of the last change"
        if row.epoch != old.epoch and row.epoch != index:
            return "the epoch is not the entry that set the primary"
        registrar = row.primary or row.deputy
        if registrar is not None and self.registrars.setdefault((row.slot, row.epoch), registrar) != registrar:
            return f"a second primary or deputy in epoch {row.epoch}"
        return ""

    def _lose_power(self, command: Boot, happened: tuple[MembershipEvent, ...], before: tuple[SlotRow, ...]) -> None:
        if any(isinstance(each, Refused) for each in happened):
            return
        disk = (command.node, command.disk)
        for row in before:
            if disk in [(holder.node, holder.disk) for holder in row.in_sync]:
                self.lacking.setdefault(row.slot, set()).add(disk)

    def _complete(
        self,
        old: SlotRow,
        row: SlotRow,
        command: Command,
        present: dict[str, Holder],
        disks: set[tuple[str, str]],
    ) -> str:
        """A disk that has lost power gets the slot last: when no complete one is left that could come back."""
        if row.primary is None or row.primary == old.primary:
            return ""
        lacking = self.lacking.get(row.slot, set())
        rest = {(holder.node, holder.disk) for holder in old.in_sync} & disks
        back = {(holder.node, holder.disk) for holder in present.values()} & rest
        if isinstance(command, RecoverSlots):
            self.recovered += 1
            if old.primary is not None:
                return "an operator has taken a slot from its primary"
            if back and (row.primary.node, row.primary.disk) not in back:
                return "an operator has passed over a holder in the view"
            return "" if back <= lacking else "an operator has recovered a slot with a complete holder in the view"
        if (row.primary.node, row.primary.disk) not in lacking:
            return ""
        return "" if rest <= back and rest <= lacking else "a disk that lost power was not the last resort"

    def _deputy(self, row: SlotRow, present: dict[str, Holder]) -> str:
        serving = self.truth.view.serving
        if row.primary is not None or not serving:
            return "" if row.deputy is None else "a deputy beside a primary, or one that does not serve"
        if row.deputy is None:
            return "neither primary nor deputy, although a node serves"
        return "" if row.deputy.node in serving and present.get(row.deputy.node) == row.deputy else "a former deputy"

    def _asked(self, old: SlotRow, row: SlotRow, command: SetSlots) -> str:
        """A request takes a holder out by its own word, for another one, or if the primary gives the slot away."""
        out = set(old.in_sync) - set(row.in_sync)
        added = set(row.in_sync) - set(old.in_sync)
        if old.primary != row.primary:
            self.given += 1
            if command.leaving:
                return "a follower has changed the primary"
            return "" if row.in_sync == (row.primary,) else "the new primary is not alone in the in-sync set"
        if command.leaving and old != row:
            self.left += 1
            alone = [holder.node for holder in out] == [command.leaving] and not added
            return "" if alone else f"{command.leaving} has changed more than its own place"
        self.replaced += bool(out)
        return "" if len(out) <= len(added) else "a primary has taken a follower out"

    def _followed(self, old: SlotRow, row: SlotRow) -> str:
        """A view takes out those that have left it. Who becomes primary is alone."""
        if row.primary is None:
            return ""
        if old.primary == row.primary:
            present = self._present()
            stayed = [holder for holder in set(old.in_sync) - set(row.in_sync) if present.get(holder.node) == holder]
            return "a follower in the view was taken out" if stayed else ""
        self.promoted += len(old.in_sync) > 2
        return "" if row.in_sync == (row.primary,) else "the new primary is not alone in the in-sync set"

    def _requests(
        self, command: SetSlots | RecoverSlots, happened: tuple[MembershipEvent, ...], before: tuple[SlotRow, ...]
    ) -> None:
        refused = [
            each.command.changes[0]
            for each in happened
            if isinstance(each, Refused) and isinstance(each.command, SetSlots | RecoverSlots)
        ]
        self.refused += len(refused)
        for change in command.changes:
            old = before[change.slot]
            if change not in refused:
                self.accepted += 1
                if (change.epoch, change.version) != (old.epoch, old.version):
                    raise Violation(f"slot {change.slot}: a request was accepted that was made for another row")


def _holders(
    row: SlotRow, present: dict[str, Holder], disks: set[tuple[str, str]], lacking: set[tuple[str, str]]
) -> str:
    """A row names the present incarnations alone, or holders that are away, or wait because they lost power."""
    if len({holder.node for holder in row.in_sync}) != len(row.in_sync):
        return "one node is there twice"
    if any((holder.node, holder.disk) not in disks for holder in row.in_sync):
        return "a holder whose disk was given up"
    if row.primary is not None:
        if row.primary not in row.in_sync:
            return "the primary is not in sync"
        if any(present.get(holder.node) != holder for holder in row.in_sync):
            return "a holder that is not in the view"
        return ""
    if any(holder.entered_in_view for holder in row.in_sync):
        return "without a primary, a holder is not marked as away"
    if [holder.node in present for holder in row.in_sync] != sorted([holder.node in present for holder in row.in_sync]):
        return "a holder in the view comes before one that is away"
    here = {(holder.node, holder.disk) for holder in row.in_sync if holder.node in present}
    if here - lacking or (here and len(here) == len(row.in_sync)):
        return "no primary, although a holder is in the view"
    return (
        "" if here <= {(h.node, h.disk) for h in row.in_sync if h.node in row.incomplete} else "the row forgets a loss"
    )


def _succession(old: SlotRow, row: SlotRow, lost: bool, command: Command, disks: set[tuple[str, str]]) -> str:
    """Data is where it was: holders come in by request alone, and the last one goes with its disk, or because an
    operator gives it up."""
    if isinstance(command, RecoverSlots):
        return ""
    had = {(holder.node, holder.disk) for holder in old.in_sync}
    has = {(holder.node, holder.disk) for holder in row.in_sync}
    if not had:
        return ""  # no copy: any serving node may begin an empty one
    if lost:
        return "lost, although the disk of a holder is there" if had & disks else ""
    if not had & has:
        return "the last holder was removed"
    if has - had and not isinstance(command, SetSlots):
        return "a holder came in without a request"
    if row.primary is not None and (row.primary.node, row.primary.disk) not in had:
        return "the primary was not in sync before"
    return ""


def walk(seed: int, steps: int = 100, update: type[TableUpdate] = TableUpdate) -> Walk:
    """Make one history. Raises `Violation`."""
    made = Walk(seed, update)
    for _ in range(steps):
        made.step()
    return made


def first_seed_that_fails(update: type[TableUpdate], seeds: int) -> int | None:
    """The first seed whose history breaks a rule; None if none does."""
    for seed in range(seeds):
        try:
            walk(seed, update=update)
        except Violation:
            return seed
    return None
