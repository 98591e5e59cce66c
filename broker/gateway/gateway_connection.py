"""At the gateway: a client whose session is at another node.

It takes the transport of a `ClientConnection` after the hooks have answered. It asks the primary of the client id to
open the connection; from the answer on it copies bytes in both directions, and reads none of them as MQTT. The
`ClientConnection` stays until the answer, for the case that the client is refused here, or served here after all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from ...mqtt.errors import ProtocolError
from ...mqtt.reasons import ReasonCode
from ..connection import connect
from ..connection.connection import ClientConnection
from ..connection.refusal import refuse
from ..connection.transport import CLOSE_BOUND_S
from ..environment import Environment
from ..timers import Timer
from .credit import Window
from .locator import SlotLocator
from .messages import OPEN, OPEN_PART, PIECE_BYTES, RECALL, ROOM, SILENT, encode_opening
from .outflow import Outflow
from .peer import PeerNode

OPEN_BOUND_MS = 10_000
"""How long a CONNECT waits for the primary of its client id."""
REST_BOUND_MS = 60_000
"""How long the last bytes of a client that has gone wait for credit."""
SUPERSEDED = "superseded"
"""The reason in GONE of an attempt that no client has an answer to: the primary publishes no will."""
PENDING_BYTES = 1 << 20
"""The most bytes behind CONNECT that are kept until the answer. The socket is not read meanwhile."""


class Owner(Protocol):
    """The part of `Gateways` that one connection uses."""

    name: str
    env: Environment
    locator: SlotLocator

    def peer(self, node: str, /) -> PeerNode:
        """Return the tunnel to a node."""
        ...

    def asked(self, connection: GatewayConnection, number: int) -> None:
        """The connection has sent OPEN with this number."""
        ...

    def abandoned(self, connection: GatewayConnection, reason: str) -> None:
        """The connection needs the number that it asked with no more: tell the primary. Its messages are dropped."""
        ...

    def may_serve(self, connection: GatewayConnection) -> bool:
        """This node registers the client id. False if it has to wait, for example until a connection at another gateway
        has ended: `connection.ask` is called then."""
        ...

    def is_unknown(self, client: bytes) -> bool:
        """This node serves the client id already, and no registrar knows that yet: `connection.ask` is called when this
        node has a lease."""
        ...

    def stays(self, connection: GatewayConnection, client: ClientConnection) -> None:
        """The client needs no session elsewhere, and its registrar knows this gateway: the connection stays here."""
        ...

    def settled(self, connection: GatewayConnection) -> None:
        """The connection waits no more for an answer."""
        ...

    def forget(self, connection: GatewayConnection) -> None:
        """The connection has ended."""
        ...


class Flow(msgspec.Struct):
    """What an open connection needs: the way to the primary, the window of bytes for the client, and its silence.

    `unpassed` counts bytes that the client's socket has not taken; `silence_ms` is the limit, 0 for none.
    """

    out: Outflow
    window: Window
    unpassed: int = 0
    silence_ms: int = 0


class Wanted(NamedTuple):
    """What a client wants: its key; `clean` if it asks for no earlier session; `fresh` if it keeps none, either.

    Any registrar can serve a fresh client; only the primary can serve others.
    """

    client: bytes
    clean: bool
    fresh: bool


class GatewayConnection:
    """One client; the `ConnectionPort` of its transport. `place` is the (registrar, epoch) that was asked last."""

    __slots__ = (
        "_answered", "_connection", "_full", "_owner", "_pending", "_reading", "_seen", "_timer", "_transport",
        "flow", "opened", "over", "place", "refused_by", "wanted",
    )  # fmt: skip

    def __init__(self, owner: Owner, connection: ClientConnection, wanted: Wanted) -> None:
        self.wanted = wanted
        self.flow: Flow | None = None
        self.place: tuple[str, int] | None = None
        self.opened = self.over = False
        self.refused_by: tuple[str, int] | None = None
        """The (primary, epoch) that answered NOT_MINE: it is asked again when the table has another one."""
        self._owner = owner
        self._connection = connection
        self._transport = connection.output.transport
        self._answered = self._full = self._reading = False
        self._pending: list[bytes] = []
        self._seen = owner.env.now
        connection.flow.hold("relay")
        self._transport.hand_over(self)
        self._timer: Timer | None = owner.env.timers.at(owner.env.now + OPEN_BOUND_MS, self._too_late)

    @property
    def slot(self) -> int:
        """The slot of the client id."""
        return self.wanted.client[0]

    @property
    def waited_ms(self) -> int:
        """The time since this node has received the CONNECT, while there is no answer."""
        return connect.waited_ms(self._connection)

    # -- asking the primary

    def ask(self) -> None:
        """Ask the present primary, if it can be asked; called again when table or tunnel change."""
        owner, place = self._owner, self._present_place()
        if self.over or self.opened or (self.flow is not None and (place == self.place or not self.flow.out.peer.open)):
            return  # if the tunnel is broken, this connection ends soon
        if self._answered:
            self.end("moved")
            return
        if self.flow is not None:
            if not self.wanted.clean:
                # the asked node may have made the session, which then moves with its slot: any node would report a
                # session that the client does not know of, unless the asked one says that it has made none (H-35)
                return
            self._withdraw()
        if place is None or place == self.refused_by:
            return
        if place[0] == owner.name:
            if owner.may_serve(self):
                self._serve_here()
            return
        peer = owner.peer(place[0])
        if not peer.open or owner.is_unknown(self.wanted.client):
            return  # a node that does not know of a Clean Start here would continue the session that it has discarded
        if peer.full:
            peer.blocked[self] = None
            return
        self._send_open(peer, place)

    def _withdraw(self) -> None:
        """The client needs no answer of the node that was asked."""
        self._owner.abandoned(self, SUPERSEDED)
        self.flow = None

    def _present_place(self) -> tuple[str, int] | None:
        """Return the node that the table names now, with the epoch of the slot; None if it names none."""
        locator = self._owner.locator
        node = locator.registrar_of(self.slot) if self.wanted.fresh else locator.primary_of(self.slot)
        return None if node is None else (node, locator.epoch_of(self.slot))

    def stay(self) -> None:
        """The registrar has noted this gateway as the owner of the client id: serve the client here."""
        if self.opened or self.over or self.flow is None:
            return
        if self._present_place() != self.place:
            # the present registrar does not know of this client; the asked node has made no session
            self._withdraw()
            self.ask()
            return
        self._owner.stays(self, self._connection)
        self._serve_here()

    def pump(self) -> None:
        """The tunnel has room: ask."""
        self.ask()

    def _send_open(self, peer: PeerNode, place: tuple[str, int]) -> None:
        connection = self._connection
        if connection.flow.held or connection.decoder.error is not None:
            # decoded after the AUTH packets of the client [MQTT5-3.1.2-30]
            self._refuse(lambda: connection.wire_error(ProtocolError("a packet other than AUTH before CONNACK")))
            return
        try:
            opening = encode_opening(place[1], connection.origin, *connect.admission_of(connection), self.waited_ms)
        except ValueError as error:
            text = str(error)
            self._owner.env.log("error", f"client {connection.client_id!r} is refused: {text}")
            self._refuse(lambda: refuse(connection, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, text))
            return
        number = self._owner.env.numbers.unique()
        self.place = place
        self.flow = Flow(Outflow(peer, number, 0, self._out_free), Window(peer.room_down))
        self._owner.asked(self, number)
        for at in range(0, len(opening), PIECE_BYTES):
            last = at + PIECE_BYTES >= len(opening)
            peer.send(OPEN if last else OPEN_PART, number, opening[at : at + PIECE_BYTES])

    def not_mine(self) -> None:
        """The node that was asked is not the primary: ask when the table has another one."""
        self.refused_by, self.flow = self.place, None
        self.ask()

    def _too_late(self) -> None:
        env, connection = self._owner.env, self._connection
        env.counters.connect_error += 1
        text = self._waits_for()
        self._refuse(lambda: refuse(connection, ReasonCode.SERVER_UNAVAILABLE, text))

    def _waits_for(self) -> str:
        """Return the reason why no primary serves the client."""
        if self.flow is not None:
            asked = self.flow.out.peer.node
            return f"{asked} was asked to serve this client id, and did not answer within {OPEN_BOUND_MS // 1000} s"
        place = self._present_place()
        if place is None:
            text = f"no node serves this client id now: slot {self.slot} has no primary"
            holders = " and ".join(self._owner.locator.holders_of(self.slot))
            return f"{text}; its sessions and messages are at {holders}" if holders else text
        if place[0] == self._owner.name:
            return "another node has not said in time whether this client id is connected there"
        if self._owner.is_unknown(self.wanted.client):
            return "this node has no lease, so it cannot tell another node that this client id is connected here"
        if self.refused_by == place:
            return f"{place[0]} has another table: it does not serve this client id"
        return f"{place[0]} serves this client id, and has no link to this node"

    def _serve_here(self) -> None:
        """This node serves the client: the `ClientConnection` goes on."""
        connection = self._connection
        self._settle()
        self.over = True
        self._owner.forget(self)
        self._transport.hand_over(connection)
        for data in self._pending:
            connection.receive(data)
        connect.register(connection)
        if not connection.closed:
            connection.flow.release("relay")

    def _refuse(self, answer: Callable[[], None]) -> None:
        """Refuse the client here; `answer` sends CONNACK and closes the transport."""
        if self.flow is not None:
            self._owner.abandoned(self, SUPERSEDED)
        self._settle()
        self.over = True
        self._owner.forget(self)
        answer()

    def _settle(self) -> None:
        self._owner.env.timers.cancel(self._timer)
        self._timer = None
        self._owner.settled(self)

    # -- messages of the primary

    def welcome(self, silence_ms: int) -> None:
        """The client has its CONNACK: from now on its bytes go to the primary."""
        if self.opened or self.flow is None:
            return
        self._settle()
        self.opened = self._answered = True
        place = self._present_place()
        if place is not None and self.place is not None and place[0] == self.place[0]:
            self.place = place  # that node has got the slot again meanwhile; a connection of before has ended there
        self._owner.env.observer.relay_opened(self._connection, self.flow.out.peer.node, self.slot)
        rest = self._connection.decoder.take_rest()
        self._connection.retire()
        self._transport.accepted()
        pending = [rest, *self._pending] if rest else self._pending
        self._pending = []
        for data in pending:
            self.flow.out.write(data)
        self.flow.silence_ms = silence_ms
        self._seen = self._owner.env.now
        if silence_ms:
            self._timer = self._owner.env.timers.at(self._seen + silence_ms, self._check_silence)
        self._look()

    def data(self, body: bytes) -> None:
        """Bytes for the client. Raises `Overrun`."""
        flow = self.flow
        if flow is None:
            return
        flow.window.received(len(body))
        self._answered = True
        self._transport.write(body)
        if self._full:
            flow.unpassed += len(body)
        else:
            self._grant(flow, flow.window.passed(len(body)))

    def gone(self) -> None:
        """The primary has closed the connection: what it wrote before is written."""
        self._drop_useless_rest()
        self.end("", "closed_by_primary")

    def grow(self) -> bool:
        """The primary has used up its credit. Returns whether it got more."""
        flow = self.flow
        more = 0 if flow is None else flow.window.grow()
        if flow is not None:
            self._grant(flow, more)
        return more > 0

    def recall(self) -> bool:
        """Ask for unused credit. Returns whether the window is still larger than at first."""
        flow = self.flow
        if flow is None:
            return False
        asked = flow.window.recall()
        if asked:
            flow.out.peer.say(RECALL, flow.out.number, asked)
        return flow.window.grown

    def broken(self) -> None:
        """The tunnel is broken, and the client is disconnected, also without an answer.

        The primary may have served it: the session may exist, and its will may be published. Only a client that has
        sent another CONNECT expects that.
        """
        self._drop_useless_rest()
        self.end("", "tunnel_broken")

    def end(self, reason: str, known: str = "") -> None:
        """Close the client's connection without a reason code; tell the primary the reason, or it is `known` there."""
        if self.over:
            return
        self.over = True
        if reason and self.flow is not None:
            self._owner.abandoned(self, reason)
        if self.opened:
            self._owner.env.timers.cancel(self._timer)
            self._report_end(reason or known)
        else:
            self._settle()
            self._connection.retire()
        self._owner.forget(self)
        self._owner.env.counters.socket_close += 1
        self._transport.close()

    def _report_end(self, reason: str) -> None:
        if self.flow is not None:
            self._owner.env.observer.relay_closed(self._connection, self.flow.out.peer.node, reason)

    # -- events of the transport

    def receive(self, data: bytes, /) -> None:
        """As `ConnectionPort.receive`: copy the bytes to the primary."""
        flow = self.flow
        if self.opened and flow is not None:
            self._seen = self._owner.env.clock.now_ms()
            flow.out.write(data)
            if flow.out.stuck:
                self._look()
        elif not self.over:
            self._pending.append(data)
            if sum(map(len, self._pending)) > PENDING_BYTES:
                self.end("too many bytes before CONNACK")

    def lost(self, reason: str, /) -> None:
        """As `ConnectionPort.lost`: the primary learns it after the bytes that the client has sent."""
        if self.over:
            return
        if not self.opened:
            if self.flow is not None:
                self._owner.abandoned(self, reason)
            self._settle()
            self.over = True
            self._owner.forget(self)
            self._connection.lost(reason)
            return
        env = self._owner.env
        env.timers.cancel(self._timer)
        self.over = True
        self._report_end(reason)
        env.counters.socket_close += 1
        if self.flow is None:
            self._owner.forget(self)
            return
        self._timer = env.timers.at(env.now + REST_BOUND_MS, self._drop_rest)
        self.flow.out.end(reason)

    def writable(self, flag: bool, /) -> None:
        """As `ConnectionPort.writable`: bytes that the socket does not take keep their credit."""
        self._full = not flag
        flow = self.flow
        if flag and flow is not None and flow.unpassed:
            passed, flow.unpassed = flow.unpassed, 0
            self._grant(flow, flow.window.passed(passed))

    # -- inside

    def _grant(self, flow: Flow, size: int) -> None:
        if size and not self.over:
            flow.out.peer.say(ROOM, flow.out.number, size)

    def _look(self) -> None:
        """Read the socket, unless bytes of the client wait for credit."""
        reading = self.flow is not None and not self.flow.out.stuck
        if reading != self._reading:
            self._reading = reading
            if reading:
                self._seen = self._owner.env.tick()
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _out_free(self) -> None:
        """All bytes of the client are sent; after the end of its connection GONE is sent too."""
        if self.over:
            self._owner.env.timers.cancel(self._timer)
            self._owner.forget(self)
        else:
            self._look()

    def _drop_useless_rest(self) -> None:
        """Forget the last bytes of a client that has gone: no primary reads them."""
        if self.over:
            self._owner.env.timers.cancel(self._timer)
            self._owner.forget(self)

    def _drop_rest(self) -> None:
        if self.flow is not None:
            self.flow.out.drop()
            self.flow.out.end("the primary did not read the last bytes")

    def _check_silence(self) -> None:
        """Report the silence of the client to the primary, which closes the connection (H-34)."""
        flow, env = self.flow, self._owner.env
        if flow is None or self.over:
            return
        silent_ms = env.since(self._seen)
        left_ms = flow.silence_ms - (silent_ms if self._reading else 0)
        if left_ms > 0:
            self._timer = env.timers.at(env.now + left_ms, self._check_silence)
            return
        flow.out.peer.say(SILENT, flow.out.number, silent_ms)
        self._timer = env.timers.at(env.now + int(CLOSE_BOUND_S * 1000), lambda: self.end("keep_alive_timeout"))
