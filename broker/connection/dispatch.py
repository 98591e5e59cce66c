"""The table of the functions that handle packets, and the start of a connection."""

from __future__ import annotations

from ...mqtt import packets
from . import auth, connect, plan_wait, publish, refusal, subscribe
from .connection import ClientConnection, PacketHandlers
from .services import ConnectionServices
from .transport import ClientTransport, ConnectionOrigin

HANDLERS = PacketHandlers(
    publish=publish.publish,
    accept=plan_wait.accept,
    puback=publish.puback,
    others={
        packets.Connect: connect.connect,
        packets.Pubrec: publish.pubrec,
        packets.Pubrel: publish.pubrel,
        packets.Pubcomp: publish.pubcomp,
        packets.Subscribe: subscribe.subscribe,
        packets.Unsubscribe: subscribe.unsubscribe,
        packets.Pingreq: connect.pingreq,
        packets.Disconnect: connect.disconnect,
        packets.Auth: auth.auth,
    },
    first=frozenset((packets.Connect, packets.Auth, packets.Disconnect)),
    refuse_malformed=refusal.refuse_malformed,
)


def open_connection(
    services: ConnectionServices, transport: ClientTransport, origin: ConnectionOrigin
) -> ClientConnection:
    """Return the connection for a new transport, before any bytes are received."""
    return ClientConnection(services, transport, origin, HANDLERS)
