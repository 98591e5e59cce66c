"""Settings of several nodes: wait until all nodes have a change, and ask one node for its values."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from ...cluster.node import ClusterNode
from ...cluster.transport.wire import CallFailed, Transport
from ..runtime_settings import SetError
from .operator_port import ClusterError

VALUES = "settings"
"""The call that asks a node for the values in force there: the request is a list of keys, the answer their values."""
VALUES_S = 5.0
"""How long a node may take to answer this call."""

_keys = msgspec.msgpack.Decoder(list[str])
_values = msgspec.msgpack.Decoder(list[str | None])


async def spread(member: ClusterNode, limit_s: float) -> None:
    """Wait until every node of the view has the writes of this node. Raises `ClusterError` after `limit_s`, and at
    once without a lease: during a netsplit it may take long until the other nodes answer."""
    if not member.leased():
        raise ClusterError(
            f"{member.me.node} has the change, but no lease: the other nodes get it as soon as they can be reached"
        )
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    metadata = member.metadata
    handle = metadata.barrier(metadata.counter, lambda _: None if done.done() else done.set_result(None))
    try:
        async with asyncio.timeout(limit_s):
            await done
    except TimeoutError:
        raise ClusterError(
            f"{member.me.node} has the change, but not every node of its view confirmed it within {limit_s:g} s: "
            "these nodes get it as soon as they can be reached"
        ) from None
    finally:
        metadata.cancel(handle)


async def ask_values(transport: Transport, node: str, address: str, keys: list[str]) -> list[str | None]:
    """Return the values in force at another node, in the order of the keys. Raises `ClusterError`."""
    try:
        values = _values.decode(await transport.call(address, VALUES, msgspec.msgpack.encode(keys), VALUES_S))
    except (CallFailed, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ClusterError(f"{node}: {error}") from None
    if len(values) != len(keys):
        raise ClusterError(f"{node}: it sent {len(values)} values for {len(keys)} keys")
    return values


def answer_values(request: bytes, in_force: Callable[[str], str | None]) -> bytes:
    """Encode this node's answer to the call `VALUES`. Raises `CallFailed`."""
    try:
        return msgspec.msgpack.encode([in_force(key) for key in _keys.decode(request)])
    except (SetError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CallFailed(f"{VALUES}: {error}") from None
