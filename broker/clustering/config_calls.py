"""What nodes do together about settings: wait until all of them have a change, and ask one for its values."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from ...cluster.node import ClusterNode
from ...cluster.transport.wire import CallFailed, Transport
from ..runtime_settings import SetError
from .operator_port import ClusterError

VALUES = "settings"
"""The call that asks a node which values are in force there: a list of keys, answered by the list of their values."""
VALUES_S = 5.0
"""How long a node may take to answer it."""

_keys = msgspec.msgpack.Decoder(list[str])
_values = msgspec.msgpack.Decoder(list[str | None])


async def spread(member: ClusterNode, limit_s: float) -> None:
    """Wait until every node of the view has the writes of this one. Raises `ClusterError` after `limit_s`, and at
    once without a lease: during a netsplit the others may not answer for long."""
    if not member.leased():
        raise ClusterError(f"{member.me.node} has it, and no lease: the other nodes get it as soon as they are reached")
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    metadata = member.metadata
    handle = metadata.barrier(metadata.counter, lambda _: None if done.done() else done.set_result(None))
    try:
        async with asyncio.timeout(limit_s):
            await done
    except TimeoutError:
        raise ClusterError(
            f"{member.me.node} has it, but not every node of its view has said within {limit_s:g} s that it has it "
            "too: they get it as soon as they are reached"
        ) from None
    finally:
        metadata.cancel(handle)


async def ask_values(transport: Transport, node: str, address: str, keys: list[str]) -> list[str | None]:
    """The values in force at another node, in the order of the keys. Raises `ClusterError`."""
    try:
        values = _values.decode(await transport.call(address, VALUES, msgspec.msgpack.encode(keys), VALUES_S))
    except (CallFailed, msgspec.MsgspecError) as error:
        raise ClusterError(f"{node}: {error}") from None
    if len(values) != len(keys):
        raise ClusterError(f"{node}: {len(values)} values came for {len(keys)} keys")
    return values


def answer_values(request: bytes, in_force: Callable[[str], str | None]) -> bytes:
    """The answer of a node. Raises `CallFailed`."""
    try:
        return msgspec.msgpack.encode([in_force(key) for key in _keys.decode(request)])
    except (SetError, msgspec.MsgspecError) as error:
        raise CallFailed(f"{VALUES}: {error}") from None
