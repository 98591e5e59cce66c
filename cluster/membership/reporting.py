"""Domain events of a member: lease acquired, lease lost with its cause, the view in force, and changes of slots.

The cause is determined when the loss is noticed, from the state of this process: its loop and clocks, its disk, the
applied view, and the peers that it hears.
"""

from __future__ import annotations

from ..slots.table import SlotTable, ranges
from .events import SlotsChanged, SlotsDoubtful, SlotsLost
from .host import Host


class Reporting:
    """Call `look` whenever the lease may have changed, and `tick` at the end of each tick of the member."""

    def __init__(self, member: Host) -> None:
        self._member = member
        self._leased = False
        self._view = 0
        self._ticked: tuple[float, float] | None = None
        self.because = ""
        """Why this process lost its lease, a clause for people; empty while it has a lease or never had one."""

    def look(self, leased: bool) -> None:
        """`leased`: whether this process, as a member, holds a lease and may acknowledge now."""
        if self._member.lease_service is None or leased == self._leased:
            return
        self._leased = leased
        if leased:
            self.because = ""
            self._member.ports.event("lease.get", view=self._member.view.id)
            return
        silent = self._silent()
        self.because = self._cause(silent)
        self._member.ports.event("lease.lose", view=self._member.view.id, detail=self.because, nodes=sorted(silent))

    def tick(self) -> None:
        """Call this when time has passed, after the member has done its due work."""
        ports = self._member.ports
        self._ticked = (ports.now_ms(), ports.wall_ms())
        self._report_view()

    def _report_view(self) -> None:
        """One event for all views applied since the last tick. Skips a view that has an earlier start of this node."""
        member = self._member
        view = member.view
        if view.id == self._view or member.consensus is None or not member.consensus.read:
            return
        mine = view.row(member.me.node)
        if mine is not None and mine.boot != member.me.boot:
            return
        self._view = view.id
        joining = [row.node for row in view.rows if not row.serving]
        members = member.membership.members.values()
        missing = sorted([row.node for row in members if row.served and view.row(row.node) is None])
        member.ports.event("mem.view", view=view.id, nodes=list(view.serving), joining=joining, missing=missing)

    def slots(self, happening: SlotsChanged | SlotsDoubtful | SlotsLost) -> None:
        """One event for all slots that an entry of the log changed. Skips the entries that this process applies without
        being in the view, such as those that it reads again after its start: the nodes of the view report them. The
        leader skips none, because the view may be empty."""
        member = self._member
        leads = member.consensus is not None and member.consensus.leads
        if member.incarnation is None and not leads:
            return
        if isinstance(happening, SlotsLost):
            count, named = len(happening.slots), ranges(happening.slots)
            member.ports.event("slot.lost", target=happening.node, count=count, slots=named, view=member.view.id)
        elif isinstance(happening, SlotsDoubtful):
            self._report_doubt(happening)
        else:
            self._report_primaries(happening.before, happening.after)

    def _report_doubt(self, happening: SlotsDoubtful) -> None:
        by = {"source": happening.by} if happening.by else {}
        self._member.ports.event(
            "slot.loss_possible",
            target=happening.node,
            count=len(happening.slots),
            slots=ranges(happening.slots),
            nodes=list(happening.holders),
            reason="recovered" if by else "power_loss",
            view=self._member.view.id,
            **by,
        )

    def _report_primaries(self, before: SlotTable, after: SlotTable) -> None:
        rows = [row for row in after.changes_since(before) if row.primary != before.row(row.slot).primary]
        if not rows:
            return
        primaries: dict[str, int] = {}
        for row in rows:
            if row.primary is not None:
                primaries[row.primary.node] = primaries.get(row.primary.node, 0) + 1
        self._member.ports.event(
            "slot.primary",
            count=len(rows),
            slots=ranges([row.slot for row in rows]),
            primaries=dict(sorted(primaries.items())),
            without=len(rows) - sum(primaries.values()),
            view=self._member.view.id,
        )

    def _cause(self, silent: dict[str, float]) -> str:
        return self._stood_still() or self._disk() or self._others(silent)

    def _stood_still(self) -> str:
        ports, settings = self._member.ports, self._member.settings.views
        if self._ticked is None:
            return ""
        passed = ports.now_ms() - self._ticked[0]
        parted = ports.wall_ms() - self._ticked[1] - passed
        if passed > settings.hearing_ms:
            return f"this process did nothing for {passed:.0f} ms: it was stopped, or the machine is overloaded"
        if abs(parted) > settings.parting_ms:
            return f"this machine stood still, or its clock was set, by {parted:.0f} ms"
        return ""

    def _disk(self) -> str:
        member = self._member
        assert member.lease_service is not None
        store, waiting = member.ports.store, member.lease_service.waiting_ms()
        if member.consensus is not None:
            waiting = max(waiting, member.consensus.waiting_ms())
        if store.state == "failed":
            return f"its message store has failed: {store.detail}"
        if waiting > member.settings.views.hearing_ms:
            return f"its disk has not answered for {waiting:.0f} ms"
        return ""

    def _others(self, silent: dict[str, float]) -> str:
        member = self._member
        others = [name for name in member.membership.members if name != member.me.node]
        if silent:
            shortest = min(silent.values())  # others may be down for days, and this node had its lease without them
            return f"it has not heard {len(silent)} of {len(others)} other members for {shortest:.0f} ms"
        if member.incarnation is None:
            return f"view {member.view.id} does not have it: the other nodes did not hear it in time"
        if member.consensus is None or member.consensus.leader is None:
            return "the cluster has no leader"
        return "the leader of the cluster does not renew it"

    def _silent(self) -> dict[str, float]:
        """The members that have been silent for longer than `hearing_ms`, each with the time in ms."""
        member = self._member
        now, limit = member.ports.now_ms(), member.settings.views.hearing_ms
        heard = {name: member.links.heard_ms(name) for name in member.membership.members if name != member.me.node}
        return {name: now - at for name, at in heard.items() if at is not None and now - at > limit}
