"""Which operations of clients a node accepts now: the disk, the split policies, and whether the cluster lets it serve.

The policies themselves are decided in `netsplit.policy`; a plugin may give a client flags of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..netsplit.policy import Decision, ViewState, decide
from .environment import Environment


class OperationPolicy:
    """For one node. An operation is `register`, `publish`, `subscribe` or `unsubscribe`; `modifiers` are what the
    plugins changed of the client that asks."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._view_state = ViewState.WHOLE
        self._waiting: list[Callable[[], None]] = []
        self.restricted = False
        """Something forbids some PUBLISH packets: the disk is full, or the cluster is not whole. A plain attribute,
        because every PUBLISH asks for it: 0.12 us less than a property."""
        self.fenced = False
        """The cluster refuses this start: the node may have lost data that it promised to keep. It serves no client."""
        self.settling = False
        """A member that has just started: it does not know yet which other nodes have subscribers."""

    @property
    def view_state(self) -> ViewState:
        """How much of the cluster this node sees."""
        return self._view_state

    @view_state.setter
    def view_state(self, state: ViewState) -> None:
        self._view_state = state
        self.look_again()

    def look_again(self) -> None:
        """The state of the disk or of the view has changed: call all waiters."""
        self.restricted = not self._env.store.accepting or self._view_state is not ViewState.WHOLE
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()

    def when_accepting(self, callback: Callable[[], None]) -> None:
        """Call back once more may be accepted than now."""
        self._waiting.append(callback)

    def allows(self, operation: str, modifiers: dict[str, Any]) -> bool:
        """True if the split policy lets this operation begin."""
        return self._allowed(operation, modifiers, self._view_state)

    def _allowed(self, operation: str, modifiers: dict[str, Any], state: ViewState) -> bool:
        if self.fenced or (self.settling and state is ViewState.MINORITY):
            return False
        flag = getattr(self._env.options, f"allow_{operation}_during_netsplit")
        own = modifiers.get(f"allow_{operation}")
        if own is not None:
            flag = own if isinstance(own, str) else "on" if own else "off"
        return decide(flag, state) is not Decision.REFUSE

    def accepts_without_lease(self, operations: Iterable[str], modifiers: dict[str, Any]) -> bool:
        """True if the policy lets all these operations be accepted without a lease (`on`, or a plugin's flag).

        `view_state` is not enough: the lease may have ended during a pause that this node has not noticed yet.
        """
        if not all(self._allowed(operation, modifiers, ViewState.MINORITY) for operation in operations):
            return False
        if not self._env.clock.known:
            self._env.follow(None)  # there is no leader to wait for: the wall clock is all there is
        return True
