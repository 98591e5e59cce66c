"""Whether the nodes of a cluster under test have converged: joined, serving, complete, with the same metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from ...broker.clustering.adapter import CLUSTER_SPACES
from ...cluster.links.ports import Lane
from ...cluster.membership.state_machine import wanted_voters
from ...cluster.node import ClusterNode
from ...cluster.slots.balance import lacking_copies
from ..faults.network_faults import NetworkFaults
from .node_handle import NodeHandle

_LANES = {Lane.METADATA: "writes", Lane.PUBLISH: "messages"}


async def join(nodes: Sequence[NodeHandle], address: str) -> None:
    """Make a cluster of started nodes: all others join the first at its `address`, concurrently.

    Raises `ClusterError`, in an ExceptionGroup.
    """
    async with asyncio.TaskGroup() as joining:
        for handle in nodes[1:]:
            shell = handle.server.cluster
            assert shell is not None
            joining.create_task(shell.join(address, False))


def member_of(handle: NodeHandle) -> ClusterNode | None:
    """Returns the node's part in the cluster protocol; None if the node is down, paused or in no cluster."""
    if not handle.up or handle.paused:
        return None
    shell = handle.server.cluster
    member = shell.member if shell is not None else None
    return member if member is not None and member.clustered else None


def can_serve(handle: NodeHandle, nodes: Sequence[NodeHandle], network_faults: NetworkFaults) -> bool:
    """Whether a started node reaches a majority of the voters, in spite of the injected faults."""
    member = member_of(handle)
    if member is None or member.consensus is None:
        return handle.up
    running = [each.number for each in nodes if each.up and not each.paused]
    names = {nodes[number].name for number in (handle.number, *network_faults.reached(handle.number, running))}
    voters = [voter.rpartition("/")[0] for voter in member.consensus.raft.configuration.voters]
    return 2 * sum(voter in names for voter in voters) > len(voters)


def serves(handle: NodeHandle) -> bool:
    """Whether a node serves: it is in no cluster, or it is in the view and has a lease."""
    if not handle.up or handle.paused:
        return False
    member = member_of(handle)
    if member is None:
        return True
    service = member.lease_service
    return member.standalone or (service is not None and service.holder.serving and member.leased())


def complete(handle: NodeHandle) -> bool:
    """Whether a node serves and sees the whole cluster, and all intended voters vote.

    Only then the cluster tolerates its promised number of failures, if each slot is `copied`, too.
    """
    if not serves(handle) or handle.sees != "whole":
        return False
    member = member_of(handle)
    if member is None or member.consensus is None:
        return True
    return set(wanted_voters(member.membership)) == set(member.consensus.raft.configuration.voters)


def copied(handle: NodeHandle) -> bool:
    """Whether each slot has as many copies as it can have among the serving nodes, and this node hands over none.

    A slot with sessions that waits for the balancing counts as in place.
    """
    member = member_of(handle)
    if member is None or member.standalone:
        return True
    shell = handle.server.cluster
    assert shell is not None
    copies = min(handle.server.node.options.queue_replicas, len(member.view.serving))
    return not lacking_copies(member.slots, copies) and shell.clustering.slots.at_rest


def in_progress(nodes: Sequence[NodeHandle], network_faults: NetworkFaults) -> Iterator[str]:
    """Yield a line for each node that is still entering the cluster, and for unacknowledged items on uncut links."""
    running = [each for each in nodes if each.up and not each.paused]
    for handle in running:
        member = member_of(handle)
        if member is None:
            continue
        if member.rejoin.active and can_serve(handle, nodes, network_faults):
            yield f"node {handle.number}: it is still entering the cluster"
        for number in network_faults.reached(handle.number, [each.number for each in running]):
            peer = nodes[number].name
            for lane, what in _LANES.items():
                count = member.links.waiting_items(peer, lane)
                if count:
                    yield f"node {handle.number}: {count} {what} for node {number} are not acknowledged"


def diverged(nodes: Sequence[NodeHandle]) -> Iterator[str]:
    """Yield a line for each serving node whose metadata differ from those of the first serving node of its view."""
    seen: dict[int, tuple[int, list[tuple[bytes, bytes]]]] = {}
    for handle in nodes:
        member = member_of(handle)
        if member is None or not serves(handle):
            continue
        content = sorted(row for space in CLUSTER_SPACES for row in member.metadata.scan(space))
        number, first = seen.setdefault(member.view.id, (handle.number, content))
        if content != first:
            different = {key for key, _ in set(content) ^ set(first)}
            yield f"node {handle.number}: {len(different)} metadata differ from those of node {number}"
