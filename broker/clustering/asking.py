"""Requests that only the leader can carry out. They go to any known node; a follower names the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from ...cluster.membership.admission import CallAnswer, MalformedCall, asked_again, decode_answer
from ...cluster.transport.wire import CallFailed, Transport, Unproven
from .operator_port import ClusterError

CALL_S = 12.0
"""How long one call to another node may take: the leader removes a node only after the node's last lease."""
REDIRECTS = 5


def not_asked(address: str, error: Exception) -> str:
    """Why the node at this address was not asked to let this node join: a wrong address has no effect."""
    if isinstance(error, Unproven):  # a node is there
        return f"{error}. Nothing was changed"
    return f"{error}. {address} must be HOST:PORT of listener.vmq at a node of the cluster. Nothing was changed"


async def ask_leader(transport: Transport, address: str, method: str, request: bytes) -> CallAnswer:
    """Return the leader's answer, which may name a problem. It is `undecided`, too, if a former leader on the way has
    proposed a join. Raises `ClusterError` if the leader is not found."""
    proposed = False
    for _ in range(REDIRECTS):
        try:
            answer = decode_answer(await transport.call(address, method, request, CALL_S))
        except (CallFailed, MalformedCall) as error:
            raise ClusterError(f"{address}: {error}") from None
        if not answer.ask or answer.ask == address:
            doubtful = proposed and answer.problem and not answer.cluster_id
            return msgspec.structs.replace(answer, undecided=True) if doubtful else answer
        proposed = proposed or answer.undecided
        address, request = answer.ask, asked_again(method, request, answer)
    raise ClusterError(f"the leader changes too often to be asked, last at {address}")


async def until(true: Callable[[], bool], limit_s: float, problem: str, look_s: float = 0.02) -> None:
    """Check the condition every `look_s` seconds until it is true. Raises `ClusterError` with the problem when the time
    is over."""
    loop = asyncio.get_running_loop()
    end = loop.time() + limit_s
    while not true():
        if loop.time() > end:
            raise ClusterError(problem)
        await asyncio.sleep(look_s)
