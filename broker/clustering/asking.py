"""Requests that only the leader can carry out. They go to any known node; a follower names the leader."""

from __future__ import annotations

from ...cluster.membership.admission import CallAnswer, MalformedCall, decode_answer
from ...cluster.transport.wire import CallFailed, Transport
from .operator_port import ClusterError

CALL_S = 12.0
"""How long one call to another node may take: the leader removes a node only after the node's last lease."""
REDIRECTS = 5


async def ask_leader(transport: Transport, address: str, method: str, request: bytes) -> CallAnswer:
    """Return the leader's answer, which may name a problem. Raises `ClusterError` if the leader is not found."""
    for _ in range(REDIRECTS):
        try:
            answer = decode_answer(await transport.call(address, method, request, CALL_S))
        except (CallFailed, MalformedCall) as error:
            raise ClusterError(f"{address}: {error}") from None
        if not answer.ask or answer.ask == address:
            return answer
        address = answer.ask
    raise ClusterError(f"the leader changes too often to be asked, last at {address}")
