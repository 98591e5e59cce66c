"""The sender's half of one direction of a relayed connection: bytes leave as far as credit and tunnel allow."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from .credit import BASE_BYTES
from .messages import DATA, GONE, PIECE_BYTES, RETURNED, WANT
from .peer import PeerNode

REASON_BYTES = 200


class Outflow:
    """Sends the bytes of connection `number` to `peer`; `role` is `FROM_PRIMARY` at the primary, else 0.

    `waiting` counts the bytes that are not sent. `stuck` is True while there are any; `on_free` is called when there
    are none any more. The owner bounds `waiting`: it stops its source while the outflow is stuck.
    """

    __slots__ = ("_asked", "_end", "_pieces", "_role", "credit", "number", "on_free", "peer", "stuck", "waiting")

    def __init__(self, peer: PeerNode, number: int, role: int, on_free: Callable[[], None]) -> None:
        self.peer = peer
        self.number = number
        self.on_free = on_free
        self.credit = BASE_BYTES
        self.waiting = 0
        self.stuck = False
        self._role = role
        self._pieces: deque[bytes] = deque()
        self._asked = False
        self._end: str | None = None

    def write(self, data: bytes) -> None:
        """Send bytes, now or later."""
        size = len(data)
        if not self.stuck and size <= self.credit and size <= PIECE_BYTES and not self.peer.full:
            self.credit -= size
            self.peer.send(DATA | self._role, self.number, data)
            return
        self._pieces.append(data)
        self.waiting += size
        self.stuck = True
        self.pump()

    def pump(self) -> None:
        """Send waiting bytes, as far as credit and tunnel allow."""
        pieces, peer = self._pieces, self.peer
        while pieces and self.credit and not peer.full:
            data = pieces[0]
            most = min(self.credit, PIECE_BYTES)
            if len(data) > most:
                pieces[0] = memoryview(data)[most:]  # type: ignore[assignment]
                data = data[:most]
            else:
                pieces.popleft()
            self.credit -= len(data)
            self.waiting -= len(data)
            peer.send(DATA | self._role, self.number, data)
        if pieces:
            if not self.credit and not self._asked:
                self._asked = True
                peer.say(WANT | self._role, self.number, min(self.waiting, 1 << 30))
            if peer.full:
                peer.blocked[self] = None
            return
        if self._end is not None:
            self._say_gone(self._end)
        elif self.stuck:
            self.stuck = False
            self.on_free()

    def room(self, size: int) -> None:
        """The receiver gives credit."""
        self.credit += size
        self._asked = False
        if self.stuck:
            self.pump()

    def recall(self, size: int) -> None:
        """The receiver asks for credit back: return what is not used."""
        back = max(0, min(size, self.credit - BASE_BYTES))
        self.credit -= back
        if back:
            self.peer.say(RETURNED | self._role, self.number, back)

    def end(self, reason: str) -> None:
        """Send the waiting bytes, then GONE."""
        self._end = reason
        if not self._pieces:
            self._say_gone(reason)

    def drop(self) -> None:
        """Forget the waiting bytes, and send nothing more."""
        self._pieces.clear()
        self.waiting = 0
        self._end = None
        self.peer.blocked.pop(self, None)

    def _say_gone(self, reason: str) -> None:
        self._end = None
        self.peer.send(GONE | self._role, self.number, reason.encode()[:REASON_BYTES])
        self.on_free()
