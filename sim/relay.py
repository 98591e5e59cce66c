"""Clients that connect to any node, and are relayed to the primary of their slot."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from ..broker.gateway import credit, early_opens, gateway_connection, gateways, messages, outflow
from ..cluster.identity import slot_of
from ..cluster.slots.table import SlotTable
from .checkers.primaries import Served
from .checkers.relay_bounds import Level
from .cluster_plan import ClusterPlan
from .engine.cluster_host import ClusterHost

BASES = (40, 300, credit.BASE_BYTES)
"""The credit, in bytes, that a relayed connection always has. The seed chooses one of them."""


def server_of(machines: Iterable[ClusterHost], client: str) -> str | None:
    """Returns the node that has the session of a client id, or that had it before it went away.

    The newest slot table of all nodes tells. None before the table begins.
    """
    tables = [machine.member.slots for machine in machines if machine.member is not None]
    row = max(tables, key=lambda table: table.index, default=SlotTable()).row(slot_of("", client))
    holders = [holder for holder in (row.primary, *row.in_sync) if holder is not None]
    return holders[0].node if holders else None


def home_of(plan: ClusterPlan, slot: int) -> str | None:
    """Returns the home node of the client with this slot (of several, the first by name); None if no client has it."""
    homes = [home for client, home in sorted(plan.homes.items()) if slot_of("", client) == slot]
    return homes[0] if homes else None


def all_placed(plan: ClusterPlan, machines: Collection[ClusterHost]) -> bool:
    """Whether the slots of all clients are at their homes."""
    return all(server_of(machines, client) == home_of(plan, slot_of("", client)) for client in plan.homes)


@contextmanager
def small_credit(plan: ClusterPlan) -> Iterator[None]:
    """While a world with a relay runs, connections have little credit, so that they use it up."""
    if not plan.relay:
        yield
        return
    sender: Any = outflow  # both modules have the constant
    before, most = credit.BASE_BYTES, credit.MOST_BYTES
    base = Random(f"relay/{plan.swarm.seed}").choice(BASES)
    credit.BASE_BYTES = sender.BASE_BYTES = base
    credit.MOST_BYTES = 4 * base
    try:
        yield
    finally:
        credit.BASE_BYTES = sender.BASE_BYTES = before
        credit.MOST_BYTES = most


def served(machine: ClusterHost, leased: bool) -> Iterator[Served]:
    """Yield the clients of slots that a node serves now, its own and those of gateways.

    With one copy of each slot none of a process that has been in no view yet, which serves if a policy is `on`: its
    table may be older than the one of its last process, so it keeps the slots of that one until it enters a view.
    """
    node, clustering = machine.node, machine.clustering
    if node is None or node.closing:
        return
    if node.options.queue_replicas == 1 and clustering is not None and not clustering.gate.entered:
        return
    locator = node.gateways.locator
    opened: dict[int, int] = {}
    for peer in _peers(node.gateways):
        for transport, client in peer.served.values():
            opened[id(client)] = transport.epoch
    for session in node.sessions.in_memory():
        connection: Any = session.connection
        if connection is None or connection.closed or connection in node.sessions.lost or not session.in_slot:
            continue  # a client without state in its slot stays at its gateway
        slot = slot_of(session.mountpoint, session.client_id)
        yield Served(
            machine.name, session.client_id, locator.primary_of(slot), locator.epoch_of(slot),
            opened.get(id(connection)), leased, connection.leaving,
        )  # fmt: skip


def levels(machine: ClusterHost) -> Iterator[Level]:
    """Yield everything in the relay of a node that has a limit, with its present value."""
    node, member = machine.node, machine.member
    if node is None or member is None:
        return
    relay: Any = node.gateways
    yield "waiting CONNECTs", len(relay._waiting), gateways.WAITING_MOST
    for waiting in relay._waiting.values():
        yield "bytes behind a CONNECT", sum(map(len, waiting._pending)), gateway_connection.PENDING_BYTES
    for peer in _peers(relay):
        yield "early OPENs", len(peer.early), early_opens.EARLY_MOST
        yield "bytes of an OPEN", len(peer.part), messages.OPENING_BYTES
        windows = [each.flow.window for each in peer.asked.values() if each.flow is not None]
        yield from _windows("down", windows, peer.node.room_down.free)
        windows = [transport.window for transport, _ in peer.served.values()]
        yield from _windows("up", windows, peer.node.room_up.free)
        for each in peer.asked.values():
            if each.flow is not None:
                yield "bytes that a socket did not take", each.flow.unpassed, each.flow.window.size
                yield "credit of a gateway", each.flow.out.credit, credit.MOST_BYTES
        for transport, _ in peer.served.values():
            yield "bytes that wait at a primary", sum(map(len, transport._arrived)), transport.window.size
            yield "credit of a primary", transport.out.credit, credit.MOST_BYTES
    most = machine.settings.links.tunnel_most_bytes
    for name, link in member.links._out.items():
        yield f"bytes in the tunnel to {name}", link.tunnel.waiting_bytes, most


def _windows(way: str, windows: Collection[credit.Window], free: int) -> Iterator[Level]:
    grown = 0
    for window in windows:
        yield f"a window {way}", window.size, credit.MOST_BYTES
        yield f"credit in a window {way}", window.left, window.size
        grown += window.size - credit.BASE_BYTES
    yield f"growth of windows {way}", grown, credit.BUDGET_BYTES
    yield f"growth {way} that no window has", credit.BUDGET_BYTES - free - grown, 0


def credits(machines: Collection[ClusterHost]) -> Iterator[tuple[str, str, int, int]]:
    """Yield sender, receiver, credit at the sender and credit at the receiver, for both ways of each connection."""
    nodes = {machine.name: machine.node for machine in machines if machine.node is not None}
    for gateway, node in nodes.items():
        for primary, peer in node.gateways._peers.items():
            there = nodes[primary].gateways._peers.get(gateway) if primary in nodes else None
            for number, connection in peer.asked.items():
                if there is None or number not in there.served or connection.flow is None:
                    continue
                transport, _ = there.served[number]
                yield gateway, primary, connection.flow.out.credit, transport.window.left
                yield primary, gateway, transport.out.credit, connection.flow.window.left


def linked(machines: Collection[ClusterHost]) -> set[tuple[str, str]]:
    """Returns each two running nodes whose tunnel is open at both ends, and has no items that wait."""
    ready = set()
    for machine in machines:
        if machine.node is not None and machine.member is not None:
            for name, link in machine.member.links._out.items():
                if link.tunnel.open and not link.tunnel.waiting_bytes:
                    ready.add((machine.name, name))
    return {(a, b) for a, b in ready if (b, a) in ready}


def ends(machines: Collection[ClusterHost]) -> tuple[dict[tuple[str, str], set[int]], dict[tuple[str, str], set[int]]]:
    """Returns (gateway, primary) -> numbers of the connections, as the gateways have them and as the primaries do.

    Leaves out connections of which the primary knows that the gateway has ended them. Also leaves out those whose OPEN
    has no answer while the primary's disk has something to write: the answer may wait for that."""
    writing = {each.name for each in machines if each.node is not None and each.node.env.store.bytes_waiting}
    asked: dict[tuple[str, str], set[int]] = {}
    found: dict[tuple[str, str], set[int]] = {}
    unanswered: dict[tuple[str, str], set[int]] = {}
    for machine in machines:
        if machine.node is None:
            continue
        for name, peer in machine.node.gateways._peers.items():
            waiting = {number for number, each in peer.asked.items() if name in writing and not each._answered}
            unanswered[machine.name, name] = waiting
            asked[machine.name, name] = set(peer.asked) - waiting
            served = {number for number, (transport, _) in peer.served.items() if not transport.gone_for}
            found[name, machine.name] = served | set(peer.early)
    for pair, numbers in unanswered.items():
        found[pair] = found.get(pair, set()) - numbers
    return asked, found


def _peers(relay: Any) -> Collection[Any]:
    return list(relay._peers.values())
