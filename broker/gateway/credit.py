"""Credit: how many bytes of a connection may be on their way to the other node, or wait there (H-31).

Each direction of a connection has a window. The receiver bears its memory: bytes count from the moment they are sent
until the receiver has passed them on. `BASE_BYTES` belong to the connection, and nothing takes them away. A sender
whose credit is used up asks for more: the window doubles up to `MOST_BYTES`, out of one budget for each peer. A window
that was not used up for a while is asked to return what it has beyond `BASE_BYTES`.
"""

from __future__ import annotations

BASE_BYTES = 16 << 10
MOST_BYTES = 256 << 10
BUDGET_BYTES = 16 << 20
"""The growth of all windows of one peer, for each role of this node."""


class Overrun(ValueError):
    """The peer has sent more bytes than it had credit."""


class Budget:
    """The bytes by which the windows of one peer may grow."""

    __slots__ = ("free",)

    def __init__(self, size: int = BUDGET_BYTES) -> None:
        self.free = size

    def take(self, wanted: int) -> int:
        """Take up to this many bytes. Returns how many."""
        taken = min(wanted, self.free)
        self.free -= taken
        return taken

    def give(self, size: int) -> None:
        """Give bytes back."""
        self.free += size


class Window:
    """The receiver's half of a connection's credit in one direction.

    `size` is the window, `left` the credit that the sender has, by all that has arrived here.
    """

    __slots__ = ("_budget", "_passed", "left", "size", "wanted")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.size = self.left = BASE_BYTES
        self._passed = 0  # bytes passed on, whose credit the sender does not have back yet
        self.wanted = False
        """Whether the sender has asked for credit since the last `recall`."""

    @property
    def grown(self) -> bool:
        """True if the window has bytes of the budget."""
        return self.size > BASE_BYTES

    def received(self, size: int) -> None:
        """Bytes arrived. Raises `Overrun`."""
        self.left -= size
        if self.left < 0:
            raise Overrun(f"{-self.left} bytes more than the credit")

    def passed(self, size: int) -> int:
        """Bytes were passed on. Returns the credit to give now, 0 until a quarter of the window is due."""
        self._passed += size
        if self._passed * 4 < self.size:
            return 0
        given, self._passed = self._passed, 0
        self.left += given
        return given

    def grow(self) -> int:
        """The sender has used up its credit. Returns the additional credit, 0 if there is none."""
        self.wanted = True
        more = self._budget.take(max(0, min(self.size, MOST_BYTES - self.size)))
        self.size += more
        self.left += more
        return more

    def recall(self) -> int:
        """Returns the credit to ask back: all growth of a window that nobody wanted since the last call."""
        wanted, self.wanted = self.wanted, False
        if wanted:
            return 0
        kept = min(self._passed, self.size - BASE_BYTES)  # the sender does not have it: keep it
        self._passed -= kept
        self.size -= kept
        self._budget.give(kept)
        return self.size - BASE_BYTES

    def returned(self, size: int) -> None:
        """The sender gives credit back. Raises `Overrun` if it has not so much beyond `BASE_BYTES`."""
        if size > min(self.left, self.size - BASE_BYTES):
            raise Overrun(f"{size} bytes of credit came back, of a window of {self.size}")
        self.size -= size
        self.left -= size
        self._budget.give(size)

    def close(self) -> None:
        """The connection has ended: give its growth back. Does nothing the second time."""
        self._budget.give(self.size - BASE_BYTES)
        self.size = BASE_BYTES
