"""Both ends of the registration of clients without durable state: the messages of gateways and registrars.

`registrar.py` has the rules of a registrar, `local_clients.py` the clients of a gateway. This module connects them with
the tunnels.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ..environment import Environment
from ..sessions.registry import SessionRegistry
from ..sessions.slot_counters import epoch_of
from .gateway_connection import GatewayConnection
from .local_clients import LocalClients
from .locator import EverySlotHere, SlotLocator
from .messages import (
    ASK,
    EVICT,
    FROM_PRIMARY,
    GONE,
    LOCAL,
    PIECE_BYTES,
    REPORT,
    REPORTED,
    Client,
    decode_clients,
    decode_slots,
    encode_clients,
    encode_slots,
)
from .peer import PeerNode
from .registrar import Owner, Registrar

QUESTIONS_MOST = 100
"""The most questions of one registrar that wait until this node has applied the table of that registrar. The oldest
gives way to a later one."""
REPORTED_AT_ONCE = 100
"""Clients in one REPORT. A client id has up to 65,535 bytes, so a REPORT may hold fewer."""

KINDS = frozenset((LOCAL | FROM_PRIMARY, EVICT | FROM_PRIMARY, ASK | FROM_PRIMARY, ASK, REPORT, REPORTED))
"""The messages that `Registration.received` takes."""


class _Report:
    """The answer to a question, with the clients that are not sent yet. While the tunnel is full it waits: all at once
    could break the tunnel, and the registrar would ask again. `knows` as `LocalClients.knows`."""

    __slots__ = ("_clients", "_knows", "_number", "_peer")

    def __init__(self, peer: PeerNode, number: int, clients: list[Client], knows: Callable[[int], bool]) -> None:
        self._peer = peer
        self._number = number
        self._clients = deque(clients)
        self._knows = knows

    def pump(self) -> None:
        """As `Sender.pump`."""
        while self._clients:
            if self._peer.full:
                self._peer.blocked[self] = None
                return
            some = self._next()
            if some:
                self._peer.send(REPORT, self._number, encode_clients(some))
        self._peer.say(REPORTED, self._number, 0)

    def _next(self) -> list[Client]:
        """Take clients for one message. The end of a client that has gone was sent before."""
        some: list[Client] = []
        size = 0
        while self._clients and len(some) < REPORTED_AT_ONCE:
            each = self._clients[0]
            client, connection = each[:2]
            if some and size + len(client) > PIECE_BYTES:
                break
            self._clients.popleft()
            if self._knows(connection):
                some.append(each)
                size += len(client)
        return some


class Registration:
    """The registration at one node, in both roles. `peer` returns the tunnel to a node; `asked` the connection that has
    asked this node with this number, None if it does not wait any more."""

    def __init__(
        self,
        name: str,
        env: Environment,
        sessions: SessionRegistry,
        peer: Callable[[str], PeerNode],
        asked: Callable[[str, int], GatewayConnection | None],
    ) -> None:
        self.name = name
        self.locator: SlotLocator = EverySlotHere(name)
        self._used = False
        self.unknown_clients = False
        """True if this node has served a client that no registrar knows, because it had no lease."""
        self.registrar = Registrar(name, self)
        self.local = LocalClients(env, sessions, self._ended, self._claimed)
        self._env = env
        self._sessions = sessions
        self._peer = peer
        self._asked = asked
        self.others: tuple[str, ...] = ()
        """The other nodes of the view. Call `table_changed` after a change."""
        self._questions: dict[str, dict[int, dict[int, int]]] = {}
        """For each registrar its questions that have no answer yet, by number: slot -> epoch."""
        self._unanswered: set[str] = set()
        """The registrars of which a question was forgotten: let them ask again."""

    def use(self, locator: SlotLocator) -> None:
        """Register the clients of the slots for which this table names this node."""
        self.locator, self._used = locator, True
        self.table_changed()

    def table_changed(self) -> None:
        """The table of slots has changed: ask for the clients of new slots, and answer questions that have waited."""
        if not self._used:
            return
        self.registrar.applied(self.locator.registered_by(self.name), self.others, self.local.ended())
        for node in list(self._questions):
            self._answer(node)

    def serve_unasked(self, client: bytes) -> None:
        """This node serves a client without a lease. If it is the registrar, it ends a connection elsewhere: nobody
        would ask for that one if all nodes stay in the view (H-37)."""
        self.unknown_clients = True
        owner = self.registrar.owner(client)
        if owner is not None:
            self.evict(client, owner)

    def lease_is_back(self) -> None:
        """Let the other nodes ask for the clients of this one (H-37). Those without a tunnel ask when it opens."""
        if self.unknown_clients:
            self.unknown_clients = False
            for node in self.others:
                if self._peer(node).open:
                    self._peer(node).send(ASK, 0, b"")

    def is_unknown(self, client: bytes) -> bool:
        """True if this node serves the client id without a lease, and no registrar knows that yet."""
        return self.unknown_clients and self.local.is_unknown(client)

    def broken(self, node: str) -> None:
        """The tunnel to a node is broken."""
        self._questions.pop(node, None)
        self._unanswered.discard(node)
        self.registrar.broken(node)

    def leave_there(self, gateway: str, number: int, client: bytes, waited_ms: int, deleting: bool) -> None:
        """The gateway serves this client itself. With `deleting` the open batch must be safe first."""
        owner = Owner(gateway, number, self._sessions.began(waited_ms))
        self.registrar.claim(client, gateway, number, owner.began)

        def tell() -> None:
            if self.registrar.owner(client) == owner:
                self._peer(gateway).say(LOCAL | FROM_PRIMARY, number, 0)

        if deleting:
            self._env.store.when_committed(self._env.store.open_commit, tell)
        else:
            tell()

    def _claimed(self, client: bytes, number: int) -> None:
        """A connection has ended while other nodes still have to answer for its publishes. If this node is the
        registrar, it notes that the client id stays here: it may not have known this connection."""
        owner = self.registrar.owner(client)
        if self.locator.registrar_of(client[0]) == self.name and (owner is None or owner.node == self.name):
            self.registrar.claim(client, self.name, number)

    def _ended(self, client: bytes, number: int) -> None:
        """A local client counts no more: tell its registrar."""
        registrar = self.locator.registrar_of(client[0])
        if registrar == self.name:
            self.registrar.ended(self.name, number)
        elif registrar is not None:
            self._peer(registrar).send(GONE, number, b"ended")

    def ask(self, node: str, number: int, slots: dict[int, int]) -> bool:
        """As `RegistrarPort.ask`."""
        peer = self._peer(node)
        if not peer.open:
            return False
        peer.send(ASK | FROM_PRIMARY, number, encode_slots(slots))
        return True

    def evict(self, _client: bytes, owner: Owner) -> None:
        """As `RegistrarPort.evict`."""
        if owner.node == self.name:
            self.local.evict(owner.number)
        else:
            self._peer(owner.node).say(EVICT | FROM_PRIMARY, owner.number, 0)

    def received(self, node: str, kind: int, number: int, body: bytes) -> None:
        """A message between a gateway and a registrar arrived. Raises `MalformedRelay`."""
        if kind == LOCAL | FROM_PRIMARY:
            waiting = self._asked(node, number)
            if waiting is not None:
                waiting.stay()
        elif kind == EVICT | FROM_PRIMARY:
            self._evicted(node, number)
        elif kind == ASK | FROM_PRIMARY:
            self._take_question(node, number, decode_slots(body))
        elif kind == ASK:
            self.registrar.ask_again(node)
        elif kind == REPORT:
            for reported in decode_clients(body):
                self._reported(node, number, reported)
        elif kind == REPORTED:
            self.registrar.answered(node, number)

    def _take_question(self, node: str, number: int, slots: dict[int, int]) -> None:
        """Answer a question, perhaps later. If too many wait, forget the oldest; once there is room, let the registrar
        ask for everything again."""
        questions = self._questions.setdefault(node, {})
        questions[number] = slots
        if len(questions) > QUESTIONS_MOST:
            del questions[next(iter(questions))]
            self._unanswered.add(node)
        self._answer(node)

    def _evicted(self, node: str, number: int) -> None:
        self.local.evict(number)
        waiting = self._asked(node, number)
        if waiting is not None:  # the answer about this client is not here yet
            waiting.end("session_taken_over")
        elif not self.local.knows(number):
            self._peer(node).send(GONE, number, b"ended")

    def _answer(self, node: str) -> None:
        """Answer the questions of a registrar whose table this node has applied."""
        peer = self._peer(node)
        for number, slots in list(self._questions[node].items()):
            if any(self.locator.epoch_of(slot) < epoch for slot, epoch in slots.items()):
                continue
            del self._questions[node][number]
            clients = self.local.clients_in({s for s, epoch in slots.items() if self.locator.epoch_of(s) == epoch})
            _Report(peer, number, clients, self.local.knows).pump()
        if node in self._unanswered and len(self._questions[node]) < QUESTIONS_MOST:
            self._unanswered.discard(node)
            peer.send(ASK, 0, b"")

    def _reported(self, node: str, number: int, reported: Client) -> None:
        """A gateway has this client since this epoch of the slot. The Clean Start of that client has ended a durable
        session from an earlier epoch, while this node was absent. One that has begun since then is newer, for the
        registrar of that epoch has ended those from before; so is a connection here (H-37). Without an epoch the
        connection has ended, and only its messages are on their way (H-38): it ends no session."""
        client, connection, epoch, ago_ms = reported
        began = self._sessions.began(ago_ms)
        self._sessions.end_if_lost(client)
        session = self._sessions.wake(client)
        newer = session is not None and session.durable and epoch_of(session.incarnation) >= epoch
        if session is not None and (session.connection is not None or newer):
            self.evict(client, Owner(node, connection))
        elif self.registrar.reported(node, number, client, connection, began) and session is not None and epoch:
            session.discard()
