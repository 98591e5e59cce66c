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
    """The services of one node. `spawn` runs a plugin's awaitable and passes its verdict to a function. A connection
    that closes calls `closed` with itself; that returns False if the connection was closed before."""

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
        self.connections = 0
        """Client connections so far: the number of the last one."""
        self.relay: Callable[[object], bool] | None = None
        """Relays the client connection to another node, or returns False if this node serves it. None: this node serves
        every connection."""

    def new_client_id(self) -> str:
        """Return a client id for a client that sent none."""
        return f"anon-{self.rng.getrandbits(128):032x}"
