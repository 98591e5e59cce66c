"""The parts of the node that client connections use."""

from __future__ import annotations

from collections.abc import Callable

from ..environment import Environment, Ports
from ..failed_logins import FailedLogins
from ..operation_policy import OperationPolicy
from ..routing.publisher import Publisher
from ..routing.router import Router
from ..sessions.registry import SessionRegistry
from ..sessions.retained_replay import ReplayTurns
from .output_buffer import Flusher
from .turns import Turns


class ConnectionServices:
    """One for each node. `spawn` runs a plugin's awaitable and gives its verdict to a function. `closed` is called with
    a connection when it is given up, and returns False if it was given up before."""

    def __init__(
        self,
        env: Environment,
        policy: OperationPolicy,
        router: Router,
        publisher: Publisher,
        sessions: SessionRegistry,
        replays: ReplayTurns,
        ports: Ports,
        closed: Callable[[object], bool],
    ) -> None:
        self.env = env
        self.policy = policy
        self.router = router
        self.publisher = publisher
        self.sessions = sessions
        self.replays = replays
        self.spawn = ports.spawn
        self.rng = ports.rng
        self.flusher = Flusher(env)
        self.turns = Turns(env.after_turn, env.clock.now_ms)
        self.failed_logins = FailedLogins()
        self.closed = closed

    def new_client_id(self) -> str:
        """A client id for a client that brought none."""
        return f"anon-{self.rng.getrandbits(128):032x}"
