"""What is demanded of a fleet: while it runs, and at its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...netsplit.faults import Freeze, Pause
from ...netsplit.policy import ViewState
from ..checkers import leases, rest, roles, waits
from ..checkers.case import Case, Checker
from ..judge import CHECKERS
from .overseer import Judge

if TYPE_CHECKING:
    from .fleet import Fleet

JUDGES: tuple[Judge, ...] = (
    lambda fleet, held: roles.judge(held),
    lambda fleet, held: leases.judge(held),
)
"""Asked every moment."""

FLEET_CHECKERS: tuple[Checker, ...] = CHECKERS
"""Asked at the end."""


def rests(fleet: Fleet) -> bool:
    """Nothing is under way any more."""
    if not all(client.connected or client.gone for client in fleet.clients):
        return False
    if any(client.sender.open for client in fleet.clients if client.connected):
        return False
    return not any(_waiting(fleet))


def _waiting(fleet: Fleet) -> Iterator[str]:
    """What is not at rest on some node."""
    for machine in fleet.machines.values():
        node, member = machine.node, machine.member
        if node is None or member is None:
            yield f"{machine.name} does not run"
            continue
        if node.view_state is not ViewState.WHOLE or not member.leased():
            yield f"{machine.name} is {node.view_state.value} in view {member.view.id}"
        for text in waits.waiting(machine):
            yield f"{machine.name}: {text}"
        for session in node.slots:
            if session.online and (session.queue.inflight or session.queue.size):
                yield f"{machine.name}: queue of {session.client_id}"


def _still(fleet: Fleet) -> Iterator[Pause | Freeze]:
    for step in fleet.plan.scenario.steps:
        if isinstance(step.fault, Pause | Freeze):
            yield step.fault


def verdict(fleet: Fleet) -> Iterator[str]:
    """Every violation."""
    yield from fleet.overseer.seen.problems
    history = fleet.history
    found = list(_waiting(fleet))
    found += rest.clients_waiting(fleet.all_clients, not history.power_lost)
    for machine in fleet.machines.values():
        if machine.node is not None:
            found += [f"{machine.name}: {text}" for text in rest.pending(machine.node, [], True, alone=False)]
            if not found:
                found += [f"{machine.name}: {text}" for text in rest.leftovers(machine.watch.disk.content())]
    sessions = {client.name: client.epoch for client in fleet.clients if client.connected}
    case = Case(history, fleet.swarm, sessions, not history.power_lost, history.now(), found)
    case.scattered = True
    case.drift = max(abs(rate - 1.0) for rate in fleet.plan.rates) * 2
    case.stood_s = sum(fault.s for fault in _still(fleet))
    for check in FLEET_CHECKERS:
        yield from check(case)
