"""Wills that came due on a node without a lease: on the disk until it has one (H-13, H-19; P5).

The session that they were of may have ended, and the node may be killed before it is let in again. A will is forgotten
in the batch in which it is routed, as any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...netsplit.policy import ViewState
from ..queues.records import RecordError, WillRecord, encode

if TYPE_CHECKING:
    from ..node import Node
    from .session import Session

PREFIX, END = b"l", b"m"


class PendingWill(msgspec.Struct, array_like=True):
    """A will and whose it was."""

    mountpoint: str
    client_id: str
    will: WillRecord


_decoder = msgspec.msgpack.Decoder(PendingWill)


class PendingWills:
    """All that wait on a node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def load(self) -> None:
        """Go on with what a restart left, in another turn. Raises `RecordError`."""
        for key, value in self._node.store.scan(PREFIX, END):
            try:
                parked = _decoder.decode(value)
            except msgspec.MsgspecError as error:
                raise RecordError(f"message database: the will at key {key!r} cannot be read: {error}") from None
            self._node.timers.at(self._node.now, lambda key=key, parked=parked: self._try(key, parked))  # type: ignore[misc]

    def park(self, session: Session | PendingWill, will: WillRecord) -> None:
        """Keep it from the open batch on, and publish it as soon as the node has a lease."""
        node = self._node
        parked = PendingWill(session.mountpoint, session.client_id, will)
        key = PREFIX + node.numbers.unique().to_bytes(8, "big")
        node.store.put(key, encode(parked))
        node.when_accepting(lambda: self._try(key, parked))

    def _try(self, key: bytes, parked: PendingWill) -> None:
        node = self._node
        if node.view_state is ViewState.MINORITY:
            node.when_accepting(lambda: self._try(key, parked))
            return
        node.store.delete(key)
        node.publish_will(parked, parked.will)
