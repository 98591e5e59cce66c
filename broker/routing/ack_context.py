"""The conditions on other nodes that the answer to one packet waits for, collected while this node handles it."""

from __future__ import annotations

from .pending_acks import PendingAcks


class AckContext:
    """Travels with a packet or message through router and cluster, which add to it.

    `pending` is None while the answer waits for no other node. With `answered` False no publisher waits for an
    answer, so none sends the message again: a will, for example. `write` is the last of this node's writes into the
    replicated map that the answer waits for, 0 without one.
    """

    __slots__ = ("answered", "pending", "write")

    def __init__(self, pending: PendingAcks | None = None, answered: bool = True) -> None:
        self.pending = pending
        self.answered = answered
        self.write = 0

    def need(self) -> PendingAcks:
        """The conditions that the answer waits for, made when the first node or write is added to it."""
        pending = self.pending
        if pending is None:
            pending = self.pending = PendingAcks()
        return pending

    def take(self) -> PendingAcks | None:
        """Return the collected conditions and empty the context."""
        pending, self.pending = self.pending, None
        return pending


def unanswered() -> AckContext:
    """The context of a message that no client waits for."""
    return AckContext(None, False)
