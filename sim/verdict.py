"""The verdict on a world at its end: everything that is not at rest, and every violation that the checkers find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..broker.node import Node
from ..netsplit.policy import ViewState
from ..storage.keys import SLOT_KINDS
from . import relay
from .checkers import (
    ack_order,
    agreement,
    complaints,
    copies,
    early_ack,
    exactly_once,
    expiry,
    limits,
    lost,
    order,
    owners,
    packet_ids,
    policies,
    relay_bounds,
    rest,
    retained,
    sessions,
    stale,
    unexpected,
    waits,
    wills,
)
from .checkers.case import Case, Checker
from .faults.kinds import Freeze, Pause
from .history import Attempt, History
from .machines import ClusterMachine
from .workload.client import ModelClient
from .workload.swarm import Swarm
from .world import ClusterWorld, NodeWorld

RELAY_S = 30.0
"""The longest time, in seconds, in which one end of a relay does not know the end of the other: cuts and restarts."""

CHECKERS: tuple[Checker, ...] = (
    complaints.check,
    rest.check,
    lost.check,
    exactly_once.check,
    order.check,
    ack_order.check,
    early_ack.check,
    unexpected.check,
    packet_ids.check,
    sessions.check,
    owners.check,
    wills.check,
    expiry.check,
    limits.check,
    retained.check,
)


def make_case(
    history: History, swarm: Swarm, clients: list[ModelClient], node: Node, content: Mapping[bytes, bytes]
) -> Case:
    """Returns the input of the checkers for a world with one node at its end."""
    sessions = {client.name: client.epoch for client in clients if client.connected}
    found = rest.pending(node, clients, not history.power_lost)
    if not found:
        found += rest.leftovers(content)
    return Case(history, swarm, sessions, not history.power_lost, history.now(), found)


def judge(case: Case) -> Iterator[str]:
    """Yield every violation, in the order of the checkers."""
    for check in CHECKERS:
        yield from check(case)


def node_rests(world: NodeWorld) -> bool:
    """Whether no message, write or request is in progress in a world with one node."""
    node = world.machine.node
    assert node is not None
    if node.env.store.bytes_waiting or not all(client.connected or client.gone for client in world.clients):
        return False
    return not any(client.sender.open for client in world.clients if client.connected) and _queues_rest(node)


def _queues_rest(node: Node) -> bool:
    online = [each for each in node.sessions.in_memory() if each.online]
    return not any(each.queue.inflight or each.queue.size for each in online)


def of_node(world: NodeWorld) -> Iterator[str]:
    """Yield every violation in a world with one node."""
    machine = world.machine
    assert machine.node is not None
    case = make_case(world.history, world.swarm, world.clients, machine.node, machine.messages.disk.content())
    yield from judge(case)


def cluster_rests(world: ClusterWorld) -> bool:
    """Whether no message, write or request is in progress in a world with several nodes."""
    if not all(client.connected or client.gone for client in world.clients):
        return False
    connected = [client for client in world.clients if client.connected]
    if any(client.sender.open or client.wants for client in connected):
        return False
    if not {client.name for client in connected} <= _online(world):
        return False
    return not any(_waiting(world)) and not any(_unequal(world)) and not any(_pending(world))


def _pending(world: ClusterWorld) -> Iterator[str]:
    """Yield a sentence for each thing that a node still has to do. For example, a node that has much to commit does not
    read what its clients send."""
    for machine in world.machines.values():
        if machine.node is not None:
            left = rest.left_behind(world.clients, machine.name, world.history.views)
            for text in rest.pending(machine.node, [], True, alone=False, left=left):
                yield f"{machine.name}: {text}"


def _online(world: ClusterWorld) -> set[str]:
    """The clients whose sessions are online. A client that is connected may be none of them: its node has closed the
    connection, because its slot moves, and the client does not know it yet (3 nodes, copies, relay, seed 5500048)."""
    nodes = [machine.node for machine in world.machines.values() if machine.node is not None]
    return {session.client_id for node in nodes for session in node.sessions.in_memory() if session.online}


def _unequal(world: ClusterWorld) -> Iterator[str]:
    """Yield a sentence for each slot that lacks a copy, and for each copy that differs from another one."""
    members = {name: each.member for name, each in world.machines.items() if each.member is not None}
    if not world.history.copied or not members:
        return
    newest = max(members.values(), key=lambda member: member.slots.index)
    found = {name: _rows_by_slot(world.machines[name].messages.disk.content()) for name in members}
    wanted = min(world.swarm.options.queue_replicas, len(newest.view.serving))
    for row in newest.slots.rows:
        holders = [each.node for each in row.in_sync if each.node in members]
        yield from copies.judge(row.slot, wanted, {node: found[node].get(row.slot, {}) for node in holders})


def _rows_by_slot(content: Mapping[bytes, bytes]) -> dict[int, dict[bytes, bytes]]:
    rows: dict[int, dict[bytes, bytes]] = {}
    for key, value in content.items():
        if key[0] in SLOT_KINDS:
            rows.setdefault(key[1], {})[key] = value
    return rows


def _waiting(world: ClusterWorld) -> Iterator[str]:
    """Yield a sentence for everything that is not at rest on any node."""
    for machine in world.machines.values():
        node, member = machine.node, machine.member
        if node is None or member is None or machine.clustering is None:
            yield f"{machine.name} does not run"
            continue
        if not machine.joined:
            yield f"{machine.name} has not joined"
        if node.policy.view_state is not ViewState.WHOLE or not member.leased():
            yield f"{machine.name} is {node.policy.view_state.value} in view {member.view.id}"
        for text in waits.waiting(node, machine.clustering, member):
            yield f"{machine.name}: {text}"
        left = rest.left_behind(world.clients, machine.name, world.history.views)
        for session in node.sessions.in_memory():
            waits_for_client = session.online and (session.queue.inflight or session.queue.size)
            if waits_for_client and session.client_id not in left:
                yield f"{machine.name}: queue of {session.client_id}"
        if waiting := node.gateways.counts["relay_waiting_connects"]:
            yield f"{machine.name}: {waiting} CONNECTs wait for a primary"
    yield from relay_bounds.ends(*relay.ends(list(world.machines.values())))


def _still(world: ClusterWorld) -> Iterator[Pause | Freeze]:
    for step in world.plan.schedule.steps:
        if isinstance(step.fault, Pause | Freeze):
            yield step.fault


def _states(history: History, attempt: Attempt) -> set[ViewState]:
    """The states, before the answer, of the node that got a PUBLISH first, and of the node that got it last. These are
    two nodes if the slot of the client has moved (3 nodes, copies, seed 5400647)."""
    between = history.views.between
    seen = between(attempt.node, attempt.sent_at, attempt.acked_at)
    if attempt.resent_to is not None:
        seen |= between(*attempt.resent_to, attempt.acked_at)
    return seen


def _without_lease(world: ClusterWorld) -> None:
    """Set `without_lease` of all entries: the node had no lease at some time between request and answer.

    Such a node serves only the nodes that it reaches. If the policy is not `on`, an answer without a lease is no
    excuse: it must not leave the node (H-04).
    """
    history, options, between = world.history, world.swarm.options, world.history.views.between
    for attempt in history.attempts.values():
        attempt.without_lease = attempt.without_lease and options.allow_publish_during_netsplit == "on"
    for each in history.subscriptions:
        each.without_lease = each.without_lease and options.allow_subscribe_during_netsplit == "on"
    if options.allow_publish_during_netsplit == "on":
        for attempt in history.attempts.values():
            attempt.without_lease = attempt.without_lease or ViewState.MINORITY in _states(history, attempt)
    if options.allow_subscribe_during_netsplit == "on":
        for each in history.subscriptions:
            each.without_lease = each.without_lease or ViewState.MINORITY in between(
                each.node, each.asked_at, each.granted_at
            )
    if options.allow_register_during_netsplit == "on":
        for connections in history.connections.values():
            for one in connections:
                one.without_lease = ViewState.MINORITY in between(one.node, one.asked_at, one.opened_at)


def of_cluster(world: ClusterWorld) -> Iterator[str]:
    """Yield the violations in a world with several nodes that are found at its end."""
    history = world.history
    _without_lease(world)
    found = [*_waiting(world), *_unequal(world)]
    lost = history.power_lost or any(life.emptied for life in history.lives.values())
    found += rest.clients_waiting(list(world.clients), not lost)
    found += _pending(world)
    for machine in world.machines.values():
        if machine.node is not None and machine.member is not None and not found:
            content = machine.messages.disk.content()
            texts = rest.leftovers(content, waits.elsewhere(machine.member))
            found += [f"{machine.name}: {text}" for text in texts]
    sessions = {client.name: client.epoch for client in world.clients if client.connected}
    kept = not (history.power_lost or history.metadata_lost)
    case = Case(history, world.swarm, sessions, kept, history.now(), found)
    case.scattered = True
    case.relay_s = RELAY_S
    case.drift = max(abs(rate - 1.0) for rate in world.plan.rates) * 2
    case.stood_s = sum(fault.s for fault in _still(world))
    lengths = {str(fault): fault.s for fault in _still(world)}
    stood = [(each.node, each.at_s, each.at_s + lengths[each.kind]) for each in history.faults if each.kind in lengths]
    case.stood = tuple(stood)
    for check in CHECKERS:
        yield from check(case)
    for machine in world.machines.values():
        lines = {line for level, line in machine.lines if level == "error" and "relayed client" in line}
        yield from [f"relay error: {machine.name}: {line}" for line in sorted(lines)]
    yield from stale.check(case, world.history.views.between)
    yield from policies.check(case, world.history.views.between)
    if not found:
        yield from agreement.judge({name: _metadata(machine) for name, machine in world.machines.items()})


def _metadata(machine: ClusterMachine) -> dict[bytes, object]:
    """Returns the metadata that must be equal on all nodes: the values of each key, and the writes that made them."""
    assert machine.member is not None
    return dict(machine.member.metadata.versions())
