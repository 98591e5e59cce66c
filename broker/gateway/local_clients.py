"""At the gateway: the clients without durable state, which this node serves itself.

Their registrars know them by a number (`registrar.py`). A client counts until its connection has ended and the other
nodes have answered for what it published: else a message that it publishes at its next gateway could overtake one of
these (H-38).
"""

from __future__ import annotations

from collections.abc import Callable, Container

import msgspec

from ...storage import keys
from ..connection.connection import ClientConnection
from ..environment import Environment
from ..sessions.registry import SessionRegistry
from ..sessions.session import client_key_of
from ..timers import Timer
from .messages import Client

LATEST = (1 << 63) - 1
"""In place of the epoch of a client that is served without a lease: no session counts as newer."""
UNKNOWN = 0
"""In place of the epoch of a connection that has ended without a registration: it may have had a durable session."""
RESOLVE_MS = 2_000
"""How long the client id of an ended connection waits for the other nodes' answers. They may be absent for days."""


class _Local(msgspec.Struct, eq=False):
    """One client. `connection` is None after its end; `open` counts the publishes without an answer, those of earlier
    connections that have ended here as well. `number` is that of the last connection."""

    client: bytes
    number: int
    connection: ClientConnection | None
    epoch: int
    open: int = 0
    timer: Timer | None = None


class LocalClients:
    """The clients of one gateway. `ended` is called with client key and number of each client
    that counts no more; `claimed` with those of a client whose connection has ended and that still counts."""

    def __init__(
        self,
        env: Environment,
        sessions: SessionRegistry,
        ended: Callable[[bytes, int], None],
        claimed: Callable[[bytes, int], None],
    ) -> None:
        self._env = env
        self._sessions = sessions
        self._ended = ended
        self._claimed = claimed
        self._clients: dict[int, _Local] = {}
        self._numbers: dict[int, int] = {}
        """id of a connection -> its number."""
        self._resolving: dict[bytes, _Local] = {}
        """The clients whose connection has ended while other nodes still have to answer for it."""

    def __len__(self) -> int:
        return len(self._clients)

    def begin(self, connection: ClientConnection, number: int, epoch: int) -> None:
        """The registrar knows this connection by this number, since this epoch of the slot."""
        self._numbers[id(connection)] = number
        self._clients[number] = _Local(_key_of(connection), number, connection, epoch)

    def number_of(self, connection: ClientConnection) -> int:
        """The number of a connection; 0 if it has none."""
        return self._numbers.get(id(connection), 0)

    def closed(self, connection: ClientConnection) -> None:
        """A client connection of this node has ended; its answers still wait in it."""
        number = self._numbers.pop(id(connection), 0)
        unanswered = connection.acks.open_conditions()
        if number:
            local = self._clients[number]
            local.connection = None
        elif unanswered and connection.client_id:
            local = _Local(_key_of(connection), self._env.numbers.unique(), None, UNKNOWN)
        else:
            return
        if unanswered or local.client in self._resolving:
            resolving = self._resolve(local, len(unanswered))
            for pending in unanswered:
                pending.waiter = lambda: self._answered(resolving)
        else:
            self._over(local)

    def _resolve(self, last: _Local, unanswered: int) -> _Local:
        """Wait for so many answers, and for those to earlier connections of the client: the registrar knows only the
        last connection here. Returns what counts the answers."""
        local = self._resolving.setdefault(last.client, last)
        former, local.number, local.epoch = local.number, last.number, last.epoch
        self._clients.pop(former, None)
        self._clients[local.number] = local
        local.open += unanswered
        if unanswered:
            self._env.timers.cancel(local.timer)
            local.timer = self._env.timers.at(self._env.now + RESOLVE_MS, lambda: self._over(local))
        self._claimed(local.client, local.number)
        if former != local.number:
            self._ended(local.client, former)
        return local

    def is_unknown(self, client: bytes) -> bool:
        """True if the client id is connected here, and no registrar has a number for the connection."""
        session = self._sessions.known(*keys.parse_client_key(client))
        connection = None if session is None else session.connection
        return isinstance(connection, ClientConnection) and not self.number_of(connection)

    def evict(self, number: int) -> None:
        """The client id has connected elsewhere: end this connection (0x8E); `ended` follows."""
        local = self._clients.get(number)
        if local is None or local.connection is None:
            return
        connection = local.connection
        session = connection.session
        if session is None:
            connection.drop("session_taken_over")
        else:
            self._sessions.take_over(session)

    def knows(self, number: int) -> bool:
        """True if the client with this number still counts."""
        return number in self._clients

    def resolving(self, slot: int) -> bool:
        """True if a connection of a client in this slot has ended, and the other nodes still have to answer for it."""
        return any(client[0] == slot for client in self._resolving)

    def ended(self) -> list[tuple[bytes, int]]:
        """Client key and number of each client whose connection has ended and that still counts."""
        return [(client, local.number) for client, local in self._resolving.items()]

    def void(self) -> None:
        """What the clients of ended connections have published is void (H-14): nobody waits for it."""
        for local in list(self._resolving.values()):
            self._over(local)

    def clients_in(self, slots: Container[int]) -> list[Client]:
        """Return what REPORT says of each client in these slots, by its last connection.

        One whose connection has ended under no number may have a durable session, which must not end because of it: its
        epoch is `UNKNOWN`.
        """
        for session in self._sessions.local():
            connection = session.connection
            if not isinstance(connection, ClientConnection) or self.number_of(connection):
                continue
            if session.key[0] in slots:
                registered_in = connection.origin.registered_in
                epoch = LATEST if registered_in is None else registered_in
                self.begin(connection, self._env.numbers.unique(), epoch)
        connected = {local.client: local for local in self._clients.values() if local.connection is not None}
        return [
            (client, local.number, local.epoch, self._ago_ms(local))
            for client, local in {**self._resolving, **connected}.items()
            if client[0] in slots
        ]

    def _ago_ms(self, local: _Local) -> int:
        """How long ago the CONNECT of a client began; the time since 1970 if that is not known."""
        session = None if local.connection is None else local.connection.session
        return self._env.now - (0 if session is None else min(session.latest.began, self._env.now))

    def _answered(self, local: _Local) -> None:
        local.open -= 1
        if not local.open:
            self._over(local)

    def _over(self, local: _Local) -> None:
        if self._clients.pop(local.number, None) is not None:
            self._resolving.pop(local.client, None)
            self._env.timers.cancel(local.timer)
            self._ended(local.client, local.number)


def _key_of(connection: ClientConnection) -> bytes:
    return client_key_of(connection.mountpoint, connection.client_id)
