"""All relayed client connections of one node, in both roles: as gateway, and as primary.

A connection is known by the node of its gateway and the number of the attempt (`messages.py`). OPEN, the bytes and GONE
of a connection travel through the same tunnel, so none of them overtakes another (H-30). An answer with an unknown
number is of an earlier attempt, and is dropped. When the tunnel to a node breaks, or the node leaves the view, all
connections with it end: here as lost clients, at the gateway by closing the sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from ...cluster.identity import slot_of
from ...mqtt.errors import WireError
from ...mqtt.packets import Connect
from ...mqtt.reasons import ReasonCode
from ...netsplit.policy import ViewState
from ...storage import keys
from ..connection import connect
from ..connection.connection import CLUSTER_ENDS, SHUTTING_DOWN, ClientConnection
from ..connection.refusal import refuse
from ..connection.transport import ClientTransport, ConnectionOrigin
from ..environment import Environment
from ..observer import Connection
from ..operation_policy import OperationPolicy
from ..sessions.latest_connect import MARGIN_MS
from ..sessions.registry import SessionRegistry
from ..timers import Timer
from .credit import BUDGET_BYTES, Overrun
from .early_opens import Arrival, EarlyOpens
from .gateway_connection import SUPERSEDED, GatewayConnection, Wanted
from .locator import EverySlotHere, SlotLocator
from .messages import (
    DATA,
    EVICT,
    FROM_PRIMARY,
    GONE,
    NOT_MINE,
    OPEN,
    OPEN_PART,
    OPENED,
    OPENING_BYTES,
    RECALL,
    RETURNED,
    ROOM,
    SILENT,
    WANT,
    MalformedRelay,
    decode_opening,
    epoch_body,
    read,
)  # fmt: skip
from .peer import PeerNode, TunnelPort
from .registration import KINDS, Registration
from .relayed_transport import RelayedTransport, ended_by

WAITING_MOST = 10_000
"""The most CONNECTs that wait for a primary at a gateway."""
RECALL_MS = 5_000
"""The interval at which unused growth of windows is asked back."""

_DATA_DOWN = DATA | FROM_PRIMARY


def _nobody_asks(_lives: bool) -> None:
    pass


class _Peer:
    """One other node: the tunnel to it, and the connections with it."""

    __slots__ = ("asked", "early", "ended", "grown", "node", "part", "served")

    def __init__(self, node: PeerNode) -> None:
        self.node = node
        self.asked: dict[int, GatewayConnection] = {}
        """Connections of this gateway for which that node is the primary, by number."""
        self.served: dict[int, tuple[RelayedTransport, ClientConnection]] = {}
        """Connections of that gateway that this node serves, by number."""
        self.ended: dict[int, Callable[[bool], None]] = {}
        """Connections that this node has ended, by number; that gateway is to answer."""
        self.early = EarlyOpens()
        self.grown: dict[GatewayConnection | RelayedTransport, None] = {}
        self.part = b""


class Gateways:
    """The relay of one node. It relays nothing before `bind` and `use`. `accept` makes a client connection.

    `locator` is the table by which the node relays. A node with cluster links uses the replicated slot table.
    """

    def __init__(
        self,
        name: str,
        env: Environment,
        sessions: SessionRegistry,
        policy: OperationPolicy,
        accept: Callable[[ClientTransport, ConnectionOrigin], ClientConnection],
    ) -> None:
        self.name = name
        self.env = env
        self.locator: SlotLocator = EverySlotHere(name)
        self.closing = False
        self.joining = False
        """True while this node joins a cluster. Until the end of the join it begins no durable session, because another
        node may become the primary of this session."""
        self._accept = accept
        self._policy = policy
        self._tunnel: TunnelPort | None = None
        self._peers: dict[str, _Peer] = {}
        self._waiting: dict[bytes, GatewayConnection] = {}
        """The CONNECTs that wait for an answer: one at most for each client id."""
        self._timer: Timer | None = None
        self._sessions = sessions
        self._lost = sessions.lost
        self.registration = Registration(name, env, sessions, self.peer, self._connection_asked)

    def bind(self, tunnel: TunnelPort) -> None:
        """Use these tunnels; their owner reports their events to this object (`TunnelEvents`)."""
        self._tunnel = tunnel

    def use(self, locator: SlotLocator) -> None:
        """Relay the clients of slots whose primary is another node, by this table. Call `bind` before.

        The caller also sets `ConnectionServices.relay` to `relay`.
        """
        self.locator = locator
        locator.when_changed(self.table_changed)
        self.registration.use(locator)

    @property
    def counts(self) -> dict[str, int]:
        """How many clients are relayed from here, served here for gateways, and wait for a primary; and the bytes by
        which windows have grown."""
        return {
            "relayed_connections": sum(len(peer.asked) for peer in self._peers.values()),
            "relayed_sessions": sum(len(peer.served) for peer in self._peers.values()),
            "relay_waiting_connects": len(self._waiting),
            "local_clients": len(self.registration.local),
            "registered_clients": len(self.registration.registrar),
            "relay_window_growth": sum(
                2 * BUDGET_BYTES - peer.node.room_up.free - peer.node.room_down.free for peer in self._peers.values()
            ),
        }

    def of_connections(self) -> dict[int, str]:
        """Return the gateway of each relayed client that this node serves, by the `id` of the connection object."""
        return {id(client): name for name, peer in self._peers.items() for _, client in peer.served.values()}

    # -- the gateway

    def relay(self, connection: object) -> bool:
        """Find the node that serves an admitted client; False if this node serves it now.

        A client that needs a session is relayed to the primary of its client id; so is one with a will, if that primary
        can keep the will in the slot. Another one stays here, once the registrar of its client id knows that. Meanwhile
        the client waits, and is refused after `OPEN_BOUND_MS`, or closed when its client id connects here again.
        Without a lease only the policy `on` admits clients: this node serves what it can without the other nodes.
        """
        assert isinstance(connection, ClientConnection)
        if self.registration.local.number_of(connection):
            return False
        packet, admission = connect.admission_of(connection)
        slot = slot_of(connection.mountpoint, connection.client_id)
        fresh = (
            packet.clean_start
            and not connect.asked_expiry_s(packet, admission.modifiers, self.env.options)
            and not self._keeps_will(packet, slot)
        )
        client = keys.client_key(slot, connection.mountpoint, connection.client_id)
        if self.joining and not fresh and self.locator.primary_of(slot) == self.name:
            refuse(connection, ReasonCode.SERVER_UNAVAILABLE, "this node is joining a cluster: connect again")
            return True
        waiting, waited_ms = self._waiting.get(client), connect.waited_ms(connection)
        if self._is_outdated(client, waited_ms) or (waiting is not None and waited_ms > waiting.waited_ms + MARGIN_MS):
            connect.refuse_outdated(connection)
            return True
        if waiting is not None:
            waiting.end("session_taken_over")  # its answer would take the client id back (H-37)
        if self._policy.view_state is ViewState.MINORITY and (fresh or self.locator.holds(slot)):
            self.registration.serve_unasked(client)
            return False  # the policy `on` asks no other node
        node = self.locator.registrar_of(slot) if fresh else self.locator.primary_of(slot)
        here = node == self.name and slot not in self._sessions.elsewhere
        if here and self.registration.registrar.is_free_now(client, self.name):
            connection.origin.registered_in = self.locator.epoch_of(slot)
            return False
        if len(self._waiting) >= WAITING_MOST:
            refuse(connection, ReasonCode.SERVER_UNAVAILABLE, "too many clients wait for another node")
            return True
        waiting = GatewayConnection(self, connection, Wanted(client, packet.clean_start, fresh))
        self._waiting[client] = waiting
        # a client with enhanced authentication may have sent more packets: they are known at the end of the turn
        if connection.auth.method is None:
            waiting.ask()
        else:
            self.env.after_turn(waiting.ask)
        return True

    def _is_outdated(self, client: bytes, waited_ms: int) -> bool:
        """As `SessionRegistry.is_outdated`, with the connection elsewhere that this node registers."""
        owner = self.registration.registrar.owner(client)
        return self._sessions.is_outdated(client, waited_ms, 0 if owner is None else owner.began)

    def _keeps_will(self, packet: Connect, slot: int) -> bool:
        """True if this node must serve the client, because its will is in the slot: there it outlives this node."""
        return packet.will is not None and self.env.cluster.is_copied(slot)

    def peer(self, node: str) -> PeerNode:
        """As `Owner.peer`: the tunnel to a node."""
        return self._peer(node).node

    def asked(self, connection: GatewayConnection, number: int) -> None:
        """As `Owner.asked`."""
        assert connection.flow is not None
        self._peers[connection.flow.out.peer.node].asked[number] = connection

    def abandoned(self, connection: GatewayConnection, reason: str) -> None:
        """As `Owner.abandoned`."""
        flow = connection.flow
        if flow is not None:
            flow.out.drop()
            flow.out.peer.send(GONE, flow.out.number, reason.encode()[:200])
            self._release(connection)

    def may_serve(self, connection: GatewayConnection) -> bool:
        """As `Owner.may_serve`."""
        if connection.slot in self._sessions.elsewhere:
            return False  # its session is on its way to another node, and a Clean Start must end it there
        if self._is_outdated(connection.wanted.client, connection.waited_ms):
            return True  # `relay` refuses it
        return self.registration.registrar.is_free(connection.wanted.client, self.name, connection.ask)

    def is_unknown(self, client: bytes) -> bool:
        """As `Owner.is_unknown`."""
        return self.registration.is_unknown(client)

    def stays(self, connection: GatewayConnection, client: ClientConnection) -> None:
        """As `Owner.stays`."""
        assert connection.flow is not None and connection.place is not None
        self.registration.local.begin(client, connection.flow.out.number, connection.place[1])

    def _connection_asked(self, node: str, number: int) -> GatewayConnection | None:
        return self._peer(node).asked.get(number)

    def settled(self, connection: GatewayConnection) -> None:
        """As `Owner.settled`."""
        self._waiting.pop(connection.wanted.client, None)

    def forget(self, connection: GatewayConnection) -> None:
        """As `Owner.forget`."""
        if connection.flow is not None:
            connection.flow.out.drop()
            connection.flow.out.peer.blocked.pop(connection, None)
            self._release(connection)

    def _release(self, connection: GatewayConnection) -> None:
        flow = connection.flow
        assert flow is not None
        peer = self._peer(flow.out.peer.node)
        peer.asked.pop(flow.out.number, None)
        peer.grown.pop(connection, None)
        flow.window.close()

    # -- events of table, view and tunnels

    def table_changed(self) -> None:
        """The table of slots has changed: ask the new primaries; end connections whose slot has another one."""
        self.env.tick()
        place = cache(self._place)
        self.registration.table_changed()
        for waiting in list(self._waiting.values()):
            waiting.ask()
        for peer in list(self._peers.values()):
            asked = peer.asked.values()
            moved = [each for each in asked if each.opened and each.place != place(each.slot)]
            self._lost.add({each: partial(each.end, "moved") for each in moved if each not in self._lost})
            for transport, client in list(peer.served.values()):
                if not self._goes_on(transport, place(transport.slot)):
                    client.drop("moved")
            for number, arrival in peer.early.pop_all().items():
                try:
                    self._serve(peer, number, arrival)
                except MalformedRelay as error:
                    self._close(peer, OPEN, number, error)

    def view_changed(self, others: tuple[str, ...]) -> None:
        """These other nodes are in the view now. Call `table_changed` afterwards."""
        self.registration.others = others

    def lease_is_back(self) -> None:
        """This node has a lease again: registrars have to learn of the clients that it has served without one, and
        after that of the clients that have waited for it. Call it in a turn of its own: it may serve clients."""
        self.registration.lease_is_back()
        for waiting in list(self._waiting.values()):
            waiting.ask()

    def closed(self, connection: ClientConnection) -> None:
        """A client connection of this node has ended."""
        self.registration.local.closed(connection)

    def _place(self, slot: int) -> tuple[str | None, int]:
        return self.locator.primary_of(slot), self.locator.epoch_of(slot)

    def _goes_on(self, transport: RelayedTransport, place: tuple[str | None, int]) -> bool:
        """Whether this node serves a client of a slot with this place. In a slot that it closes, it goes on with one
        that has gone (H-19)."""
        return place == (self.name, transport.epoch) or (bool(transport.gone_for) and place == (None, transport.epoch))

    def _registrar_place(self, slot: int) -> tuple[str | None, int]:
        return self.locator.registrar_of(slot), self.locator.epoch_of(slot)

    def left(self, node: str) -> None:
        """The node has left the view: end all connections with it, some in each turn."""
        peer = self._peers.get(node)
        if peer is None:
            return
        asked = peer.asked.values()
        ended = [each for each in asked if each.opened or not each.wanted.clean]  # that node may have made the session
        self._lost.add({each: partial(each.end, "left") for each in ended})
        self._lost.add({client: transport.left for transport, client in peer.served.values()})

    def end_all(self, reason: str) -> None:
        """End all connections of this gateway: this node must serve no client."""
        for waiting in list(self._waiting.values()):
            waiting.end(reason)
        for peer in list(self._peers.values()):
            for connection in list(peer.asked.values()):
                connection.end(reason)

    def close(self) -> None:
        """The node stops."""
        self.closing = True
        self.end_all(SHUTTING_DOWN)
        for peer in self._peers.values():
            peer.node.flush()

    def tunnel_opened(self, node: str) -> None:
        """As `TunnelEvents.tunnel_opened`: ask for the clients that wait."""
        self.env.tick()
        self._peer(node).node.begin()
        self.registration.registrar.opened(node)
        for waiting in list(self._waiting.values()):
            waiting.ask()

    def tunnel_broken(self, node: str, reason: str) -> None:
        """As `TunnelEvents.tunnel_broken`: everything with this node ends (H-32), some in each turn. Until its turn a
        connection sends nothing and gets nothing (H-42)."""
        peer = self._peer(node)
        self.env.tick()
        count = len(peer.asked) + len(peer.served)
        if count:
            self.env.log("warning", f"{count} relayed client connections with {node} end: {reason}")
        peer.node.broken()
        peer.early.pop_all()
        del self._peers[node]
        self._lost.add({connection: connection.broken for connection in peer.asked.values()})
        self._lost.add({client: transport.broken for transport, client in peer.served.values()})
        self.registration.broken(node)

    def tunnel_room(self, node: str) -> None:
        """As `TunnelEvents.tunnel_room`."""
        self.env.tick()
        self._peer(node).node.room()

    def tunnelled(self, node: str, payload: bytes) -> None:
        """As `TunnelEvents.tunnelled`: the messages of one turn of that node."""
        self.env.tick()
        peer = self._peer(node)
        try:
            messages = read(payload)
        except MalformedRelay as error:
            self.env.log("error", f"messages of relayed clients from {node} cannot be read: {error}")
            return
        for kind, number, value, body in messages:
            try:
                if kind == _DATA_DOWN:
                    connection = peer.asked.get(number)
                    if connection is not None:
                        connection.data(body)
                elif kind == DATA:
                    served = peer.served.get(number)
                    if served is not None:
                        served[0].received(body)
                elif kind in KINDS:
                    self.registration.received(node, kind, number, body)
                elif kind & FROM_PRIMARY:
                    self._from_primary(peer, kind & ~FROM_PRIMARY, number, value)
                else:
                    self._from_gateway(peer, kind, number, value, body)
            except (Overrun, MalformedRelay) as error:
                self._close(peer, kind, number, error)

    # -- inside

    def _peer(self, node: str) -> _Peer:
        peer = self._peers.get(node)
        if peer is None:
            assert self._tunnel is not None
            peer = self._peers[node] = _Peer(PeerNode(node, self._tunnel, self.env.after_turn))
        return peer

    def _close(self, peer: _Peer, kind: int, number: int, error: ValueError) -> None:
        """A message of the peer broke the rules: end its connection at both ends."""
        self.env.log("error", f"relayed client connection {number} with {peer.node.node} is closed: {error}")
        if kind & FROM_PRIMARY:
            if number in peer.asked:
                peer.asked[number].end("relay_error")
        elif number in peer.served:
            peer.served[number][0].abort()
        else:
            peer.node.send(GONE | FROM_PRIMARY, number, b"relay_error")

    def _from_primary(self, peer: _Peer, kind: int, number: int, value: int) -> None:
        connection = peer.asked.get(number)
        if connection is None or connection.flow is None:
            return  # an answer to an earlier attempt
        flow = connection.flow
        if kind == ROOM:
            flow.out.room(value)
        elif kind == OPENED:
            connection.welcome(value)
        elif kind == WANT:
            self._grow(peer, connection)
        elif kind == RECALL:
            flow.out.recall(value)
        elif kind == RETURNED:
            flow.window.returned(value)
        elif kind == GONE:
            connection.gone()
        elif kind == NOT_MINE:
            self._release(connection)
            connection.not_mine()

    def _from_gateway(self, peer: _Peer, kind: int, number: int, value: int, body: bytes) -> None:
        if kind == OPEN_PART:
            peer.part += body
            if len(peer.part) > OPENING_BYTES:
                peer.part = b""
        elif kind == OPEN:
            data, peer.part = peer.part + body, b""
            if number not in peer.served:
                self._serve(peer, number, Arrival(data, self.env.now))
        elif number in peer.served:
            self._to_served(peer, kind, number, value, body)
        elif kind == GONE:
            peer.early.pop(number)
            self.registration.registrar.ended(peer.node.node, number)
            reason = ended_by(body.decode(errors="replace"))
            peer.ended.pop(number, _nobody_asks)(reason not in CLUSTER_ENDS)

    def _to_served(self, peer: _Peer, kind: int, number: int, value: int, body: bytes) -> None:
        transport, client = peer.served[number]
        if kind == ROOM:
            transport.out.room(value)
        elif kind == WANT:
            self._grow(peer, transport)
        elif kind == RECALL:
            transport.out.recall(value)
        elif kind == RETURNED:
            transport.window.returned(value)
        elif kind == SILENT and not client.closed:
            connect.silent(client, value)
        elif kind == GONE:
            if body == SUPERSEDED.encode():
                client.drop(SUPERSEDED, fire_will=False)
            transport.gone(body.decode(errors="replace"))

    def ask(self, ended: Connection, answered: Callable[[bool], None]) -> bool:
        """Ask the gateway of a connection that this node has just ended whether it lives, and pass the answer to
        `answered`: False if the gateway stops, and had ended that connection itself. A gateway that dies first never
        answers. Returns False if this node cannot ask, because the gateway does not take the last bytes of the client
        at once, or its tunnel is broken."""
        peer = self._peers.get(ended.gateway)
        transport = ended.output.transport if isinstance(ended, ClientConnection) else None
        if peer is None or not isinstance(transport, RelayedTransport) or transport.out.waiting:
            return False
        peer.ended[transport.out.number] = answered
        peer.node.say(EVICT | FROM_PRIMARY, transport.out.number, 0)
        return True

    def _grow(self, peer: _Peer, connection: GatewayConnection | RelayedTransport) -> None:
        if connection.grow():
            peer.grown[connection] = None
            if self._timer is None:
                self._timer = self.env.timers.at(self.env.now + RECALL_MS, self._recall)

    def _recall(self) -> None:
        """Ask unused growth back, as long as there is any."""
        self._timer = None
        for peer in self._peers.values():
            peer.grown = {each: None for each in peer.grown if each.recall()}
            if peer.grown and self._timer is None:
                self._timer = self.env.timers.at(self.env.now + RECALL_MS, self._recall)

    # -- the primary

    def _serve(self, peer: _Peer, number: int, arrival: Arrival) -> None:
        """Serve a client of that gateway, if this node is the primary of its slot. Raises `MalformedRelay`."""
        opening = decode_opening(arrival.data)
        waited_ms = opening.waited_ms + self.env.since(arrival.at)
        admission, packet = opening.admission, opening.packet()
        slot = slot_of(admission.mountpoint, admission.client_id)
        registrar, epoch = self._registrar_place(slot)
        if opening.epoch > epoch and peer.early.keep(number, arrival):
            return
        try:
            client = keys.client_key(slot, admission.mountpoint, admission.client_id)
            expires = connect.asked_expiry_s(packet, admission.modifiers, self.env.options)
            allowed = self._policy.allows("register", admission.modifiers)
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            raise MalformedRelay(f"a client cannot be served with {admission!r:.1000}: {error}") from error
        keeps_will = self._keeps_will(packet, slot)
        fresh = packet.clean_start and not expires and not keeps_will
        primary = self.locator.primary_of(slot)
        waits = not fresh or slot in self._sessions.elsewhere
        if waits and primary is None and registrar == self.name and peer.early.keep(number, arrival):
            return  # this node is handing the slot over, or keeps it
        if (registrar if fresh else primary) != self.name or self.closing:
            peer.node.send(NOT_MINE | FROM_PRIMARY, number, epoch_body(epoch))
            return
        if not allowed and self._policy.view_state is not ViewState.MAJORITY and peer.early.keep(number, arrival):
            # this node has just started, and has no lease yet: the gateway has judged the client by its own
            self._policy.when_accepting(lambda: self._open_again(peer, number))
            return
        # a client that the policy refuses below, or `relay`, ends nothing of its client id
        if allowed and not self._is_outdated(client, waited_ms):
            on_disk = self._sessions.on_disk
            stays = fresh or not (expires or keeps_will or on_disk(admission.mountpoint, admission.client_id))
            if not self._may_open(peer, number, arrival, client, opening.epoch, stays):
                return
            if stays:
                self._leave_there(peer, number, arrival, client, opening.epoch, waited_ms)
                return
        origin = opening.origin()
        origin.gateway = peer.node.node
        transport = RelayedTransport(self.env, peer.node, number, (slot, epoch), lambda ended: self._over(peer, ended))
        served = self._accept(transport, origin)
        transport.hand_over(served)
        peer.served[number] = transport, served
        try:
            connect.admit(served, packet, admission, waited_ms)
        except (WireError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise MalformedRelay(f"a client cannot be served with {admission!r:.1000}: {error}") from error

    def _over(self, peer: _Peer, transport: RelayedTransport) -> None:
        peer.served.pop(transport.out.number, None)
        peer.grown.pop(transport, None)

    def _may_open(self, peer: _Peer, number: int, arrival: Arrival, client: bytes, epoch: int, stays: bool) -> bool:
        """True if the client id is free. Otherwise the OPEN waits here."""
        gateway = peer.node.node if stays else self.name
        if self.registration.registrar.is_free_now(client, gateway):
            return True
        if peer.early.keep(number, arrival):
            self.registration.registrar.is_free(client, gateway, lambda: self._open_again(peer, number))
        else:
            peer.node.send(NOT_MINE | FROM_PRIMARY, number, epoch_body(epoch))
        return False

    def _open_again(self, peer: _Peer, number: int) -> None:
        arrival = peer.early.pop(number)
        if arrival is not None:
            try:
                self._serve(peer, number, arrival)
            except MalformedRelay as error:
                self._close(peer, OPEN, number, error)

    # -- clients that stay at their gateway

    def _leave_there(
        self, peer: _Peer, number: int, arrival: Arrival, client: bytes, epoch: int, waited_ms: int
    ) -> None:
        """The client needs no session: end what its client id has here, and let its gateway serve it."""
        deleting = self._sessions.end(client, peer.node.node)
        if not self._may_open(peer, number, arrival, client, epoch, True):
            return  # messages of the ended connection are on their way
        self.registration.leave_there(peer.node.node, number, client, waited_ms, deleting)
