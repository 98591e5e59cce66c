"""Decides which operations of clients a node accepts: by its disk, the split policies, its state in the cluster, and
the number of copies that slots have.

`netsplit.policy` evaluates a policy. A plugin may override the configured policies for one client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from ..netsplit.policy import Decision, ViewState, decide
from .environment import Environment
from .observer import Connection

NETSPLIT = "netsplit"
"""Why an operation is refused: the split policy forbids it."""
COPIES = "copies"
"""Why an operation is refused: a slot has fewer copies than `queue_min_in_sync`."""
NO_SLOT = -1
"""Stands for the slot of an operation that changes no durable session."""


class Client(Connection, Protocol):
    """A client connection whose operation is refused."""

    modifiers: dict[str, Any]


class OperationPolicy:
    """The policy of one node. An operation is `register`, `publish`, `subscribe` or `unsubscribe`; `modifiers` are the
    settings that plugins gave to the client."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._view_state = ViewState.WHOLE
        self._waiting: list[Callable[[], None]] = []
        self.due = False
        """True after a change, until the end of the turn: then the node goes on with what waits. Defer each PUBLISH
        until then, or it overtakes those that wait."""
        self.restricted = False
        """True if the node may refuse PUBLISH packets: the disk is full, the node does not see the whole cluster, or a
        slot has too few copies. A plain attribute, because every PUBLISH reads it: 0.12 us less than a property."""
        self.few_copies: frozenset[int] = frozenset()
        """The slots with fewer copies than `queue_min_in_sync`: the node accepts nothing new for their durable
        sessions. Change it with `set_few_copies`."""
        self.fenced = False
        """True if the cluster does not admit the node: it may have lost data that it promised to keep. It serves no
        client."""
        self.loading = False
        """True while a node that starts does not know all subscriptions yet."""
        self.settling = False
        """True for a member that has just started, until it knows which other nodes have subscribers."""
        self.stops_soon = False
        """True if the node was told to stop, and still serves: a load balancer should send it no clients."""
        self.leased_since_ms = 0
        """When the node last got a lease, in cluster time; 0 if it has not been without one."""

    @property
    def view_state(self) -> ViewState:
        """How much of the cluster this node sees."""
        return self._view_state

    @view_state.setter
    def view_state(self, state: ViewState) -> None:
        if self._view_state is ViewState.MINORITY and state is not ViewState.MINORITY:
            self.leased_since_ms = self._env.now
        self._view_state = state
        self.look_again()

    def look_again(self) -> None:
        """Recompute `restricted` after a change of disk, view or copies, and call what waits at the end of this turn.

        Whoever looks at the lease may notice such a change, in the middle of its own work. So nothing else begins here.
        """
        self._restrict()
        if self._waiting:
            self.restricted = True  # so `due` is looked at
            if not self.due:
                self.due = True
                self._env.after_turn(self._call_waiting)

    def _restrict(self) -> None:
        whole = self._view_state is ViewState.WHOLE
        self.restricted = not self._env.store.accepting or not whole or bool(self.few_copies)

    def _call_waiting(self) -> None:
        self._env.tick()
        self.due = False
        self._restrict()
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()

    def when_accepting(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, after the turn of the next change of disk, view or copies. The node may then accept
        more."""
        self._waiting.append(callback)

    def set_few_copies(self, slots: frozenset[int]) -> None:
        """These slots have too few copies now. Call `look_again` in a later turn.

        Until then the node stays `restricted`: no PUBLISH overtakes one that waits.
        """
        self.few_copies = slots
        self.restricted = self.restricted or bool(slots)

    def refusal(self, operation: str, modifiers: dict[str, Any], slot: int = NO_SLOT) -> str:
        """Return why this operation may not begin, `NETSPLIT` or `COPIES`; "" if it may.

        `slot` is that of the durable session which the operation changes.
        """
        if not self.allows(operation, modifiers):
            return NETSPLIT
        return COPIES if slot in self.few_copies else ""

    def allows(self, operation: str, modifiers: dict[str, Any]) -> bool:
        """True if the split policy lets this operation begin."""
        return self._allowed(operation, modifiers, self._view_state)

    def _allowed(self, operation: str, modifiers: dict[str, Any], state: ViewState) -> bool:
        if self.fenced or (self.settling and state is ViewState.MINORITY):
            return False
        return decide(self._flag(operation, modifiers), state) is not Decision.REFUSE

    def _flag(self, operation: str, modifiers: dict[str, Any]) -> str:
        own = modifiers.get(f"allow_{operation}")
        if own is None:
            own = getattr(self._env.options, f"allow_{operation}_during_netsplit")
        return own if isinstance(own, str) else "on" if own else "off"

    @property
    def operations_on(self) -> list[str]:
        """The names of the operations that the configuration allows without a lease."""
        names = ("register", "publish", "subscribe", "unsubscribe")
        return [name for name in names if getattr(self._env.options, f"allow_{name}_during_netsplit") == "on"]

    def deny(self, connection: Client, operation: str, topic: str, why: str) -> None:
        """Report that this operation of a client is refused. `why`: as `refusal`, or what is wrong with the disk."""
        state = self._view_state.value
        self._env.observer.denied(connection, operation, topic, why, self._rule(connection, operation, why), state)

    def _rule(self, connection: Client, operation: str, why: str) -> str | None:
        """Returns the setting or the state of the node that refuses an operation; None if `why` says it."""
        if why == COPIES:
            return "queue_min_in_sync"
        if why != NETSPLIT:
            return None
        if self.fenced:
            return "fenced"
        if self.settling and self._view_state is ViewState.MINORITY:
            return "settling"
        return f"allow_{operation}_during_netsplit={self._flag(operation, connection.modifiers)}"

    def accepts_without_lease(self, operations: Iterable[str], modifiers: dict[str, Any]) -> bool:
        """True if the policy allows all these operations without a lease (`on`, or a plugin's flag).

        This ignores `view_state`, which may be out of date: the lease may have ended while the process was suspended.
        """
        if not all(self._allowed(operation, modifiers, ViewState.MINORITY) for operation in operations):
            return False
        if not self._env.clock.known:
            self._env.guess_wall()  # without a leader the wall clock is the only clock
        return True
