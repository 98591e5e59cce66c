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
RESOLVE_MS = 2_000
"""How long the client id of an ended connection waits for the other nodes' answers. They may be absent for days."""


class _Local(msgspec.Struct, eq=False):
    """One client. `connection` is None after its end; `open` counts the publishes without an answer. `registered`: the
    registrar knew the client as one without durable state when the connection ended."""

    client: bytes
    connection: ClientConnection | None
    epoch: int = 0
    open: int = 0
    registered: bool = True
    timer: Timer | None = None


class LocalClients:
    """The clients of one gateway. `ended` is called with client key and number of each client
    that counts no more; `claimed` with those of a client that ended here under no number."""

    def __init__(
        self,
        env: Environment,
        sessions: SessionRegistry,
        ended: Callable[[bytes, int], None],
        claimed: Callable[[bytes, int], bool],
    ) -> None:
        self._env = env
        self._sessions = sessions
        self._ended = ended
        self._claimed = claimed
        self._clients: dict[int, _Local] = {}
        self._numbers: dict[int, int] = {}
        """id of a connection -> its number."""

    def __len__(self) -> int:
        return len(self._clients)

    def begin(self, connection: ClientConnection, number: int, epoch: int) -> None:
        """The registrar knows this connection by this number, since this epoch of the slot."""
        self._numbers[id(connection)] = number
        self._clients[number] = _Local(_key_of(connection), connection, epoch)

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
            number, local = self._env.numbers.unique(), _Local(_key_of(connection), None, registered=False)
            if not self._claimed(local.client, number):
                return
            self._clients[number] = local
        else:
            return
        if not unanswered:
            self._over(number)
            return
        local.open = len(unanswered)
        for pending in unanswered:
            pending.waiter = lambda: self._answered(number)
        local.timer = self._env.timers.at(self._env.now + RESOLVE_MS, lambda: self._over(number))

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
        return any(local.connection is None and local.client[0] == slot for local in self._clients.values())

    def clients_in(self, slots: Container[int]) -> list[Client]:
        """Return what REPORT says of each client in these slots.

        One whose connection has ended under no number may have a durable session, which must not end because of it.
        Nobody has to wait for what such a client published: a node that asks has got the slot because this node was out
        of the view, and the other nodes skip its copies from before (H-14).
        """
        for session in self._sessions.local():
            connection = session.connection
            if not isinstance(connection, ClientConnection) or self.number_of(connection):
                continue
            if session.key[0] in slots:
                registered_in = connection.origin.registered_in
                epoch = LATEST if registered_in is None else registered_in
                self.begin(connection, self._env.numbers.unique(), epoch)
        known = [(local, number) for number, local in self._clients.items() if local.registered]
        return [
            (local.client, number, local.epoch, self._ago_ms(local))
            for local, number in known
            if local.client[0] in slots
        ]

    def _ago_ms(self, local: _Local) -> int:
        """How long ago the CONNECT of a client began; the time since 1970 if that is not known."""
        session = None if local.connection is None else local.connection.session
        return self._env.now - (0 if session is None else min(session.latest.began, self._env.now))

    def _answered(self, number: int) -> None:
        local = self._clients.get(number)
        if local is not None:
            local.open -= 1
            if not local.open:
                self._over(number)

    def _over(self, number: int) -> None:
        local = self._clients.pop(number, None)
        if local is not None:
            self._env.timers.cancel(local.timer)
            self._ended(local.client, number)


def _key_of(connection: ClientConnection) -> bytes:
    return client_key_of(connection.mountpoint, connection.client_id)
