"""The replicated membership: members, view and slot table, as the Raft log makes them. The same on every node.

    a member's row    none --SetView--> joining --SetView--> serving --SetView--> none
                      none <--Boot, Join, Leave-- joining, serving

The state machine checks each command when it is applied, and refuses an invalid one: a view has only the last start of
a node, a node serves only after joining, and a restart always removes the row (H-01, H-04). A refused command changes
nothing. The slot table follows from members and view, and from `SetSlots`: see `slots/update.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import msgspec
from msgspec import Struct

from ..slots.table import Holder, PackedTable, SlotTable, pack, unpack
from ..slots.update import Roll, TableUpdate
from .commands import (
    Away,
    Boot,
    Command,
    Join,
    Leave,
    MalformedCommand,
    RecoverSlots,
    Row,
    SetSlots,
    Settle,
    SetView,
    Stale,
    decode_command,
)
from .events import (
    BarriersAllowed,
    Booted,
    Joined,
    Left,
    MembershipEvent,
    Refused,
    Settled,
    SlotsChanged,
    SlotsDoubtful,
    SlotsLost,
    ViewChanged,
    WentStale,
)
from .view import View

VOTERS_MAX = 7
"""More voters would make each decision slower; with seven, three may fail at once."""

UNLOGGED_MAX = 1000
"""How many consecutive starts of one disk may be missing in the log."""


class MemberRow(Struct, array_like=True, frozen=True):
    """A member and its last start.

    `joined`: the log index at which this disk became a member. `joined_view`: id of the view then in force; messages of
    the node from that view or an earlier one belong to another disk. `served`: the node has served once; before that
    no policy counts it as missing. `disk_served`: it has served with this disk, so this disk has the log. `away_ms`:
    cluster time since which it has had no row, 0 while it has one or the leader has not recorded it. `notice_ms`:
    cluster time of the last notice that it is to be given up, 0 if there was none since. `zone`: see `zone_of`.
    """

    node: str
    disk: str
    boot: int
    process: str
    address: str
    joined: int
    stale: bool = False
    served: bool = False
    away_ms: int = 0
    disk_served: bool = False
    joined_view: int = 0
    notice_ms: int = 0
    zone: str = ""


def is_unknown(row: MemberRow, earlier: tuple[tuple[int, str], ...]) -> bool:
    """True if the disk of a later start, with these `earlier` starts, lacks the member's logged start (H-01).

    Starts before the first of `earlier` are not judged: a node that is behind in the log may compare with one of those.
    """
    return bool(earlier) and earlier[0][0] <= row.boot and (row.boot, row.process) not in earlier


class _State(Struct, array_like=True):
    cluster_id: str = ""
    index: int = 0
    members: tuple[MemberRow, ...] = ()
    view: View = View()
    boots: dict[str, int] = {}
    informed_members: tuple[str, ...] = ()
    slots: PackedTable | None = None


class MembershipState:
    """`boots` has the highest boot that each name ever had, member or not: no `(node, boot)` exists twice, ever.

    `informed_members`: the nodes that know every acknowledged write; the serving nodes are among them. A write is
    acknowledged only after a barrier, and barriers complete only while all nodes in `informed_members` serve
    (`barriers_allowed`). If all nodes in `informed_members` are away, no reachable node knows every acknowledged write.

    `index`: the last applied entry of the log. `view` and the rows of `members` are replaced, never changed in place.
    Two values are read in every turn and derived once for each entry: `peers`, the Raft peers of all members that are
    not stale, eldest first; and `whole`, whether every member that has ever served is in the view and serves.
    """

    table_update: type[TableUpdate] = TableUpdate

    def __init__(self) -> None:
        self.cluster_id = ""
        self.index = 0
        self.members: dict[str, MemberRow] = {}
        self.view = View()
        self.boots: dict[str, int] = {}
        self.informed_members: tuple[str, ...] = ()
        self.barriers_allowed = True
        self.peers: tuple[str, ...] = ()
        self.whole = False
        self.slots = SlotTable()

    def apply(self, index: int, data: bytes) -> tuple[MembershipEvent, ...]:
        """Apply the entry at `index` of the log. Returns the events. Raises `MalformedCommand`, then on every node."""
        command = decode_command(data)
        assert index > self.index, (index, self.index)
        self.index = index
        before, barriers_allowed, slots = self.view, self.barriers_allowed, self.slots
        happened = self._carry_out(command)
        self._derive()
        if self.barriers_allowed is not barriers_allowed:
            happened = (
                BarriersAllowed(self.barriers_allowed),
                *happened,
            )  # before a barrier completes without a removed node
        if self.view is not before:
            happened = (*happened, ViewChanged(before, self.view))
        incomplete = tuple([each.node for each in happened if isinstance(each, Booted) and each.incomplete])
        if self.slots.index and (self.view is not before or incomplete or isinstance(command, Join | Leave | Stale)):
            update = self._follow(incomplete)
            if not (isinstance(command, Leave) and command.empty):
                happened = (*happened, *[SlotsLost(node, tuple(slots)) for node, slots in update.lost.items()])
            happened = (*happened, *_doubtful(update))
        if self.slots is not slots:
            happened = (*happened, SlotsChanged(slots, self.slots))
        return happened

    def _carry_out(self, command: Command) -> tuple[MembershipEvent, ...]:
        match command:
            case Settle():
                return self._settle(command)
            case Join():
                return self._join(command)
            case Boot():
                return self._boot(command)
            case Leave():
                return self._leave(command)
            case Stale(node):
                return self._stale(node)
            case Away():
                return self._away(command)
            case SetView():
                return self._set_view(command)
            case SetSlots():
                return self._set_slots(command)
            case RecoverSlots():
                return self._recover_slots(command)

    @property
    def missed(self) -> tuple[str, ...]:
        """The nodes for which the cluster waits.

        Not empty if no node serves and no node of the view knows every acknowledged write.
        """
        if self.view.serving or not self.view.rows or self.known_to(self.view.nodes):
            return ()
        return self.informed_members

    def known_to(self, nodes: Iterable[str]) -> bool:
        """Whether one of these nodes knows every acknowledged write."""
        return not self.informed_members or any(node in self.informed_members for node in nodes)

    def last_possible(self, node: str) -> int:
        """Returns the highest boot that a former or present member may have had; 0 if it was never a member."""
        logged = self.boots.get(node, 0)
        return logged + UNLOGGED_MAX if logged else 0

    # -- members

    def _settle(self, command: Settle) -> tuple[MembershipEvent, ...]:
        if self.cluster_id:
            return (Refused(command, f"this cluster is settled as {self.cluster_id}"),)
        self.cluster_id = command.cluster_id
        self._enter(Join(command.node, command.disk, command.boot, command.process, command.address, command.zone))
        self.view = View(1, (Row(command.node, command.boot, 1, True),))
        self._note_served(True)
        if command.slots:
            self._begin_slots()
        return (Settled(command.cluster_id), Joined(command.node, False))

    def _join(self, command: Join) -> tuple[MembershipEvent, ...]:
        known = self.members.get(command.node)
        if not self.cluster_id:
            return (Refused(command, "this cluster is not settled"),)
        if known and known.disk == command.disk:
            if known.disk_served and command.process != known.process:
                # A disk that has the log never asks to join: this is a copy from an earlier time.
                return (Refused(command, "its disk is a copy from before it joined: begin with an empty one"),)
            return self._boot(command)
        had = self.last_possible(command.node)
        if command.boot <= had:
            # Another disk had this name with these boots, perhaps with unlogged later ones; others may have its writes.
            return (Refused(command, f"boot {command.boot} is not above {had}, which this name may have had", had),)
        self._remove_row(command.node)
        self._forget(command.node)
        self._enter(command)
        return (Joined(command.node, known is not None),)

    def _enter(self, command: Join) -> None:
        known = self.members.get(command.node)
        self.boots[command.node] = command.boot
        self.members[command.node] = MemberRow(
            command.node,
            command.disk,
            command.boot,
            command.process,
            command.address,
            self.index,
            served=known is not None and known.served,
            joined_view=self.view.id,
            zone=command.zone,
        )

    def _boot(self, command: Boot | Join) -> tuple[MembershipEvent, ...]:
        known = self.members.get(command.node)
        if known is None:
            return (Refused(command, "not a member"),)
        if known.stale:
            return (Refused(command, "away for too long: it has to join with an empty disk", known.boot),)
        if known.disk != command.disk:
            return (Refused(command, f"the member's disk is {known.disk}, not {command.disk}", known.boot),)
        if command.boot == known.boot and command.process == known.process:
            if (command.address, command.zone) != (known.address, known.zone):
                self.members[command.node] = msgspec.structs.replace(known, address=command.address, zone=command.zone)
            return ()
        if command.boot <= known.boot:
            # The disk is an old copy: its contents contradict the history of the cluster.
            return (Refused(command, f"boot {command.boot} is not above the logged {known.boot}", known.boot),)
        if isinstance(command, Boot) and is_unknown(known, command.earlier):
            return (Refused(command, f"its disk does not know the logged start {known.boot}", known.boot),)
        self._remove_row(command.node)
        self.boots[command.node] = command.boot
        self.members[command.node] = msgspec.structs.replace(
            known, boot=command.boot, process=command.process, address=command.address, zone=command.zone
        )
        # an earlier loss is in the log already, with the start that found it
        return (Booted(command.node, command.boot, isinstance(command, Boot) and command.incomplete > known.boot),)

    def _leave(self, command: Leave) -> tuple[MembershipEvent, ...]:
        node = command.node
        if node not in self.members:
            return ()
        if len(self.members) == 1:
            return (Refused(command, "the last member cannot leave"),)
        self._remove_row(node)
        self._forget(node)
        del self.members[node]
        return (Left(node),)

    def _stale(self, node: str) -> tuple[MembershipEvent, ...]:
        known = self.members.get(node)
        if known is None or known.stale:
            return ()
        if self.view.row(node) is not None:
            return (Refused(Stale(node), "it is in the view"),)
        self._forget(node)
        self.members[node] = msgspec.structs.replace(known, stale=True)
        return (WentStale(node),)

    def _away(self, command: Away) -> tuple[MembershipEvent, ...]:
        known = self.members.get(command.node)
        if known is not None and self.view.row(command.node) is None:
            self.members[command.node] = msgspec.structs.replace(
                known, away_ms=known.away_ms or command.since_ms, notice_ms=command.notice_ms or known.notice_ms
            )
        return ()

    def _forget(self, node: str) -> None:
        """The cluster gives up the node's disk: the node no longer counts as knowing the acknowledged writes."""
        self.informed_members = tuple([each for each in self.informed_members if each != node])

    # -- the view

    def _remove_row(self, node: str) -> None:
        self.view = self.view.without(node)

    def _set_view(self, command: SetView) -> tuple[MembershipEvent, ...]:
        if command.after != self.view.id:
            return (Refused(command, f"made for view {command.after}, the present one is {self.view.id}"),)
        rows = tuple(sorted(command.rows))
        names = [row.node for row in rows]
        wrong = next((name for name, following in pairwise(names) if name == following), None)
        if wrong is not None:
            return (Refused(command, f"two rows for {wrong}"),)
        for row in rows:
            reason = self._wrong(row)
            if reason:
                return (Refused(command, f"row of {row.node}: {reason}"),)
        if rows != self.view.rows:
            self.view = View(self.view.id + 1, rows)
        self._note_served(command.serving_only)
        if command.slots and not self.slots.index and self.view.serving:
            self._begin_slots()
        return ()

    def _note_served(self, serving_only: bool) -> None:
        serving = self.view.serving
        if serving:
            self.informed_members = serving if serving_only else tuple(sorted({*self.informed_members, *serving}))
        for row in self.view.rows:
            member = self.members[row.node]
            if member.away_ms or (row.serving and not member.disk_served):
                self.members[row.node] = msgspec.structs.replace(
                    member,
                    away_ms=0,
                    notice_ms=0,
                    served=member.served or row.serving,
                    disk_served=member.disk_served or row.serving,
                )

    def _wrong(self, row: Row) -> str:
        """Returns the reason why the row is not allowed in the next view; "" if it is."""
        member = self.members.get(row.node)
        if member is None:
            return "not a member"
        if member.stale:
            return "away for too long"
        if row.boot != member.boot:
            return f"boot {row.boot}, the logged one is {member.boot}"
        former = self.view.row(row.node)
        if former is None:
            if row.entered_in_view != self.view.id + 1:
                return f"since {row.entered_in_view}, but it enters in view {self.view.id + 1}"
            return "serving without having joined" if row.serving else ""
        if row.entered_in_view != former.entered_in_view:
            return f"since {row.entered_in_view}, but it entered in view {former.entered_in_view}"
        return "joining after having served" if former.serving and not row.serving else ""

    # -- the slot table

    def holders(self) -> dict[str, Holder]:
        """Returns node -> its incarnation in the view, as a holder of slots."""
        rows = self.view.rows
        return {row.node: Holder(row.node, self.members[row.node].disk, row.entered_in_view) for row in rows}

    def _updating(self, incomplete: tuple[str, ...] = ()) -> TableUpdate:
        """Returns the table, to be changed by the present entry. `incomplete` as in `Roll`."""
        disks = {(member.node, member.disk) for member in self.members.values() if not member.stale}
        roll = Roll(self.holders(), self.view.serving, disks, incomplete)
        return self.table_update(self.slots, roll, self.index)

    def _begin_slots(self) -> None:
        eldest = min(self.view.serving, key=lambda node: (self.members[node].joined, node))
        update = self._updating()
        update.begin(eldest)
        self.slots = update.table

    def _follow(self, incomplete: tuple[str, ...]) -> TableUpdate:
        update = self._updating(incomplete)
        update.follow()
        self.slots = update.table
        return update

    def _set_slots(self, command: SetSlots) -> tuple[MembershipEvent, ...]:
        update = self._updating()
        refused = update.change(command.changes, command.leaving)
        self.slots = update.table
        leaving = command.leaving
        return tuple(
            [Refused(SetSlots((change,), leaving), f"slot {change.slot}: {reason}") for change, reason in refused]
        )

    def _recover_slots(self, command: RecoverSlots) -> tuple[MembershipEvent, ...]:
        update = self._updating()
        refused = update.recover(command.changes)
        self.slots = update.table
        reasons = [
            Refused(RecoverSlots((change,), command.by), f"slot {change.slot}: {reason}") for change, reason in refused
        ]
        return (*reasons, *_doubtful(update, command.by))

    # -- snapshots

    def snapshot(self) -> bytes:
        """Returns the whole state, for `restore` on another node or after a restart. Equal states give equal bytes."""
        members = tuple(self.members[node] for node in sorted(self.members))
        boots = {node: self.boots[node] for node in sorted(self.boots)}
        return msgspec.msgpack.encode(
            _State(
                self.cluster_id,
                self.index,
                members,
                self.view,
                boots,
                self.informed_members,
                pack(self.slots) if self.slots.index else None,
            )
        )

    def restore(self, data: bytes) -> None:
        """Load the state that `snapshot` wrote. Raises `MalformedCommand`, and then changes nothing."""
        try:
            state = msgspec.msgpack.decode(data, type=_State)
            slots = SlotTable() if state.slots is None else unpack(state.slots)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
            raise MalformedCommand(f"snapshot of a membership, {len(data)} bytes: {error}") from error
        self.cluster_id, self.index, self.view, self.boots = state.cluster_id, state.index, state.view, state.boots
        self.informed_members = state.informed_members or state.view.serving
        self.members = {row.node: row for row in state.members}
        self.slots = slots
        self._derive()

    def _derive(self) -> None:
        rows = sorted(self.members.values(), key=lambda row: (row.joined, row.node))
        self.peers = tuple([peer_of(row) for row in rows if not row.stale])
        serving = self.view.serving
        self.barriers_allowed = not serving or set(self.informed_members) <= set(serving)
        self.whole = bool(serving) and all(row.node in serving for row in rows if row.served)


def _doubtful(update: TableUpdate, by: str = "") -> list[SlotsDoubtful]:
    return [
        SlotsDoubtful(
            node,
            tuple([row.slot for row in rows]),
            tuple(sorted({holder.node for row in rows for holder in row.in_sync})),
            by,
        )
        for node, rows in update.doubtful.items()
    ]


def peer_of(row: MemberRow) -> str:
    """Returns the member's Raft peer. A node with a new disk is a new peer, because that disk lacks the old votes."""
    return f"{row.node}/{row.disk}"


def zone_of(row: MemberRow) -> str:
    """Returns the zone of a member, such as its machine or its rack; the node itself if it is not configured."""
    return row.zone or row.node


def wanted_voters(membership: MembershipState) -> tuple[str, ...]:
    """Returns the peers that should vote, sorted: an odd number, `VOTERS_MAX` at most (H-21).

    These are the eldest members. If there are more members than voters, members recorded as away are chosen last.
    """
    able = membership.peers
    if len(able) > VOTERS_MAX:
        away = {peer_of(row) for row in membership.members.values() if row.away_ms}
        return tuple(sorted(sorted(able, key=lambda peer: peer in away)[:VOTERS_MAX]))
    return tuple(sorted(able if len(able) % 2 else able[:-1]))
