"""Looks at all machines at once, by true time: who holds a lease, who sees whom, and what nobody answers.

It finds what no node can know by itself, and what is wrong for a moment only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..netsplit.policy import OPERATIONS, ViewState
from .engine.machine import Machine

if TYPE_CHECKING:
    from .cluster_world import ClusterWorld

Judge = Callable[["ClusterWorld", list["Lease"]], Iterable[str]]

EVERY_S = 0.05
"""How often the machines are looked at."""


@dataclass(frozen=True, slots=True)
class Lease:
    """One process that may promise something now, by the view that it has applied.

    `rows` are (node, since) of that view; `boot` and `process` what it is, `row_boot` and `row_process` what the view
    and the members say of it.
    """

    node: str
    view: int
    since: int
    rows: tuple[tuple[str, int], ...]
    boot: int
    row_boot: int
    process: str
    row_process: str


@dataclass(slots=True)
class Sightings:
    """What was seen. `states` has the changes of each node's state, (time, state) in the order of time.

    `problems` are sentences about what may never be, whatever else happens.
    """

    states: dict[str, list[tuple[float, ViewState]]] = field(default_factory=dict)
    problems: dict[str, None] = field(default_factory=dict)
    leases: int = 0


class InvariantMonitor:
    """Looks every `EVERY_S`, from `begin` on. Each of `judges` gets the fleet and its leases and says what is wrong."""

    def __init__(self, world: ClusterWorld, judges: tuple[Judge, ...], at_promises: int = 0) -> None:
        """The first `at_promises` judges are asked at every promise as well."""
        self._world = world
        self._judges = judges
        self._at_promises = at_promises
        self.seen = Sightings({name: [] for name in world.machines})
        self._shown: dict[str, str] = {}
        self._leases: dict[str, tuple[object, Lease]] = {}
        self._since: dict[str, tuple[int, int]] = {}

    def begin(self) -> None:
        """Look from now on."""
        self._look()

    def _look(self) -> None:
        world = self._world
        leases = self._leases_now()
        self.seen.leases += len(leases)
        for machine in world.machines.values():
            self.state(machine)
        for judge in self._judges:
            for text in judge(world, leases):
                self.complain(text)
        world.loop.call_later(EVERY_S, self._look)

    def guard(self, machine: Machine) -> None:
        """Look also at each moment at which a process that has just started lets a promise leave."""
        node: Any = machine.node
        flags = self._world.swarm.options
        allows = node.guard
        lenient = any(getattr(flags, f"allow_{operation}_during_netsplit") == "on" for operation in OPERATIONS)

        def guarding(front: Any, promised: int, out: list[bytes]) -> bool:
            leaves = allows(front, promised, out)
            if leaves:
                self._promised(machine, lenient)
            return bool(leaves)

        node.guard = guarding

    def _promised(self, machine: Machine, lenient: bool) -> None:
        member = machine.member
        if member is None or not member.clustered:
            return
        if not _holds_lease(machine) and not lenient and not member.alone:
            self.complain(f"two leases: {machine.name} promises without a lease")
            return
        leases = self._leases_now()
        for judge in self._judges[: self._at_promises]:
            for text in judge(self._world, leases):
                self.complain(text)

    def _leases_now(self) -> list[Lease]:
        return [self._lease(machine) for machine in self._world.machines.values() if _holds_lease(machine)]

    def complain(self, text: str) -> None:
        """Something is wrong; said once."""
        if text not in self.seen.problems:
            self.seen.problems[text] = None
            self._world.history.say("PROBLEM", text)

    def state(self, machine: Machine) -> None:
        """Note the state of the view of a machine's node, and the moment when the node entered a view."""
        node = machine.node
        if node is None or machine.member is None:
            return
        states = self.seen.states[machine.name]
        if not states or states[-1][1] is not node.view_state:
            states.append((self._world.loop.now_s, node.view_state))
        incarnation = machine.member.incarnation
        since = (machine.life, 0 if incarnation is None else incarnation.since)
        if since[1] and self._since.get(machine.name) != since:
            self._since[machine.name] = since
            self._world.history.life(machine.name).entered.append(self._world.loop.now_s)
        if self._world.history.lines is not None:
            self._show(machine)

    def _show(self, machine: Machine) -> None:
        """A line of the trace when view, lease or leader are others than before."""
        member, node = machine.member, machine.node
        assert member is not None and node is not None
        rows = " ".join(f"{row.node}/{row.boot}@{row.since}{'' if row.serving else '?'}" for row in member.view.rows)
        leads = "leads, " if member.consensus is not None and member.consensus.leads else ""
        text = f"{leads}{node.view_state.value}, view {member.view.id}: {rows}"
        if self._shown.get(machine.name) != text:
            self._shown[machine.name] = text
            self._world.history.say(machine.name, text)

    def _lease(self, machine: Machine) -> Lease:
        """The lease that a machine holds; the same as before while nothing in it is another."""
        member, name = machine.member, machine.name
        assert member is not None
        known = member.membership.members.get(name)
        source = (member, member.view, known)
        before = self._leases.get(name)
        if before is not None and before[0] == source:
            return before[1]
        row = member.view.row(name)
        lease = Lease(
            name,
            member.view.id,
            row.since if row is not None else -1,
            tuple([(each.node, each.since) for each in member.view.rows]),
            machine.boot,
            row.boot if row is not None else -1,
            member.me.process,
            known.process if known is not None else "",
        )
        self._leases[name] = (source, lease)
        return lease

    def between(self, node: str, begin_s: float, end_s: float) -> set[ViewState]:
        """What the node saw of the cluster between two times."""
        found: set[ViewState] = set()
        for at_s, state in self.seen.states.get(node, []):
            if at_s <= begin_s:
                found = {state}
            elif at_s <= end_s:
                found.add(state)
        return found

    def lacked_whole_view(self, node: str, since_s: float) -> bool:
        """Whether the node did not see the whole cluster at some time since then, or does not now."""
        running = self._world.machines[node].node
        if running is not None and running.view_state is not ViewState.WHOLE:
            return True
        states = self.seen.states.get(node, [])
        last = ViewState.MINORITY
        for at_s, state in states:
            if at_s <= since_s:
                last = state
            elif state is not ViewState.WHOLE:
                return True
        return last is not ViewState.WHOLE


def _holds_lease(machine: Machine) -> bool:
    """Whether a machine whose process runs holds a lease, without touching anything in it."""
    member = machine.member
    if member is None or member.lease_service is None or member.closed or machine.gate.shut:
        return False
    return member.lease_service.holder.serving and member.lease_service.left_ms() > 0
