"""All links of one process: an outbound stream to each peer, and an inbound stream from each peer.

An item of a lane arrives once and in order at one process of the peer, or is cancelled. A datagram may be lost. All
datagrams of one loop turn for one peer share one frame. All items of its lanes share another frame, which uses the
wire's data channel. While a frame is being written, further items form the next frame of their kind. Everything runs on
the thread of one loop, so that a node with a stuck loop falls silent.

Measured over gRPC between two processes on two busy cores, payloads of 100 bytes, two batches in flight, each
acknowledged: 3,000 items/s in batches of 1, 20,000 in batches of 10, 85,000 of 64, 125,000 to 200,000 of 512.
"""

from __future__ import annotations

import msgspec

from ..transport.wire import Accepted, Refused, Wire
from .frames import MalformedFrame
from .hello import PeerInfo, Welcome, agree, decode_hello, disagreement, encode_welcome
from .inbound_stream import InboundStream
from .outbound_stream import SAY_FIRST_MS, OutboundStream
from .ports import Lane, LinkEvents, LinkPorts, Refuse, SetAside, Timer, Traffic, Unreadable
from .settings import LinkSettings
from .tunnel import Tunnel, TunnelEvents, Unused

__all__ = [
    "Lane", "LinkEvents", "LinkPorts", "LinkSettings", "Links", "PeerInfo", "Refuse", "SetAside", "Traffic",
    "Unreadable",
]  # fmt: skip

_REMEMBERED = 256
"""Number of nodes whose last refusal is remembered, so that it is not logged twice."""


class Links:
    """The links of `me`. The owner gives `accept` to `Transport.serve` and names the peers with `set_peers`."""

    def __init__(
        self, me: PeerInfo, ports: LinkPorts, listener: LinkEvents, settings: LinkSettings | None = None
    ) -> None:
        self.me = me
        self.traffic = Traffic()
        self._ports = ports
        self._listener = listener
        self._settings = settings or LinkSettings()
        self._datagram_bytes = self._settings.max_payload_bytes
        self._out: dict[str, OutboundStream] = {}
        self._in: dict[str, InboundStream] = {}
        self._refusals: dict[str, tuple[float, str]] = {}
        self.slow: dict[Lane, dict[str, None]] = {lane: {} for lane in Lane}
        """For each lane the nodes with too many unacknowledged items.

        A node enters when these items take more than `buffer_bytes` of memory (`map_bytes` for METADATA), and leaves at
        half of that: `LinkEvents.relieved` reports it. No item is dropped.
        """
        self.full: dict[str, None] = {}
        """The nodes whose link is open and for which `ahead_bytes` of PUBLISH wait for a frame.

        The owner keeps further items until `LinkEvents.room`.
        """
        self.tunnel_events: TunnelEvents = Unused()
        """The owner of all tunnels."""
        self._closed = False
        self._ticked_ms = ports.now_ms()
        self._timer: Timer | None = None

    # Peers

    def adopt(self, cluster_id: str) -> None:
        """This process has become a member of a cluster: later hellos carry the cluster id."""
        self.me = msgspec.structs.replace(self.me, cluster_id=cluster_id)

    def joined(self, index: int) -> None:
        """This disk became a member at an index of the log: later hellos carry the index."""
        self.me = msgspec.structs.replace(self.me, joined=index)

    def set_peers(self, peers: dict[str, str]) -> None:
        """Keep streams open to these nodes (name -> address) and to no others. Items for others stay in their lanes."""
        for node, link in self._out.items():
            if node not in peers:
                link.point_to(None)
        for node, address in sorted(peers.items()):
            if node != self.me.node and not self._closed:
                self._outgoing(node).point_to(address)

    def forget(self, node: str) -> None:
        """The node has a new disk or has left: end both streams and cancel all items that wait for it.

        If `set_peers` still names it, it is dialled again. The numbers of its lanes continue.
        """
        if node in self._out:
            self._out[node].forget()
        if node in self._in:
            self._in[node].stop("forgotten")

    def release(self, node: str) -> None:
        """The node is no peer: free its streams if this node has never reached it. Otherwise the numbers of its lanes
        have to continue."""
        link, stream = self._out.get(node), self._in.get(node)
        if (link is None or link.untouched) and not (stream is not None and stream.open):
            self._out.pop(node, None)
            self._in.pop(node, None)

    def hang_up(self, node: str) -> None:
        """End the stream from a node, so that its next hello is checked again."""
        if node in self._in:
            self._in[node].stop("to be checked again")

    def close(self) -> None:
        """End all streams; dial and send nothing more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for link in self._out.values():
            link.address = None
            link.stop("the node stops")
        for stream in self._in.values():
            stream.stop("the node stops")

    # Sending

    def datagram(self, node: str, kind: int, data: bytes) -> bool:
        """Send in this turn's frame; it may be lost. Returns False if it was dropped: no stream, or the buffer is full.

        Raises `ValueError` if it does not fit into a frame.
        """
        if len(data) > self._datagram_bytes:
            raise ValueError(f"{len(data)} bytes do not fit into a frame, {self._datagram_bytes} do")
        link = self._out.get(node)
        if link is not None:
            return link.datagram(kind, data)
        self.traffic.datagrams_dropped += 1
        return False

    def send(self, node: str, lane: Lane, payload: bytes) -> int:
        """Send once and in order; the item is kept until it is acknowledged or cancelled. Returns its number in the
        lane.

        Numbers begin at 1 and rise for the life of this process. Raises `ValueError` for more than `max_item_bytes`.
        """
        if len(payload) > self._settings.max_item_bytes:
            raise ValueError(f"an item of {len(payload)} bytes, {self._settings.max_item_bytes} are allowed")
        link = self._out.get(node)
        return (link if link is not None else self._outgoing(node)).send(lane, payload)

    def void(self, node: str, lane: Lane, seqs: list[int] | None = None) -> None:
        """Cancel these items, or all items of the lane. Items in flight may still be delivered."""
        if node in self._out:
            self._out[node].void(lane, seqs)

    def beside(self, node: str, lane: Lane, items: int, size_bytes: int) -> None:
        """The owner keeps this many items and bytes until the lane has free space: count them for `slow` like items in
        the lane."""
        self._outgoing(node).beside(lane, items, size_bytes)

    def tunnel(self, node: str, payload: bytes) -> bool:
        """Send an item through the tunnel: once and in order, unless the tunnel breaks (`Tunnel.send`).

        Returns False if the tunnel is not open.
        """
        link = self._out.get(node)
        return link is not None and link.send_through(payload)

    # Receiving

    def ack(self, node: str, lane: Lane, seq: int, boot: int | None = None) -> None:
        """All items up to `seq` of the peer's lane are finished, durably if required: acknowledge them in this turn.

        A caller that acknowledges after `deliver` has returned names the `boot` of the sender: if the peer has started
        again since, the call does nothing.
        """
        stream = self._in[node]
        if boot is None or (stream.peer is not None and stream.peer.boot == boot):
            stream.ack(lane, seq)

    def ack_early(self, node: str, lane: Lane, seqs: list[int], boot: int) -> None:
        """These items of a lane are finished, although an item before them is not: acknowledge them in this turn.

        The sender forgets them. After a restart this node gets voids for them, so use it only for items that a later
        start of this node does not need.
        """
        stream = self._in[node]
        if stream.peer is not None and stream.peer.boot == boot:
            stream.ack_early(lane, seqs)

    def try_again(self) -> None:
        """The owner can perhaps take refused items now: ask the senders at once to resume all held lanes."""
        for stream in self._in.values():
            stream.resume_held()

    def grant(self, node: str, lane: Lane, window_bytes: int) -> None:
        """From now on a peer may have this many unacknowledged bytes of a lane in flight to this node."""
        self._incoming(node).grant(lane, window_bytes)

    def accept(self, hello: bytes, wire: Wire) -> Accepted | Refused:
        """Transport: a peer has dialled. Returns the welcome, or the reason for a refusal (`transport.wire.Accept`)."""
        try:
            peer = decode_hello(hello)
        except MalformedFrame as error:
            self._ports.log("warning", f"stream from {wire.peer} refused: {error}")
            return Refused(str(error))
        reason = self._objection(peer)
        if reason is not None:
            return self._refuse(peer.node, reason)
        version = agree(self.me, peer)
        assert version is not None
        self._refusals.pop(peer.node, None)
        stream = self._incoming(peer.node)
        watermarks = stream.accept(peer, wire)
        return Accepted(encode_welcome(Welcome(self.me, version, watermarks, self._listener.applied())), stream)

    def _objection(self, peer: PeerInfo) -> str | None:
        me = self.me
        if self._closed:
            return f"{me.node} stops"
        if peer.node == me.node:
            return f"{me.node} is the name of this node itself"
        if peer.cluster_id != me.cluster_id:
            return f"{me.node} belongs to the cluster {me.cluster_id}, not to {peer.cluster_id}"
        if agree(me, peer) is None:
            return disagreement(me, peer)
        known = self._in.get(peer.node)
        return self._listener.check(peer) or (known.objection(peer) if known is not None else None)

    def _refuse(self, who: str, reason: str) -> Refused:
        """Refuse a stream. Log only a refusal that lasts: a node that is behind in the log refuses a joining node for a
        moment."""
        now = self._ports.now_ms()
        if who not in self._refusals and len(self._refusals) >= _REMEMBERED:
            self._refusals.clear()
        since, said = self._refusals.setdefault(who, (now, ""))
        if said != reason and now - since >= SAY_FIRST_MS:
            self._refusals[who] = (since, reason)
            self._ports.log("warning", f"stream from {who} refused: {reason}")
        return Refused(reason)

    # Asking

    def up(self, node: str) -> bool:
        """Whether the stream to a node is open."""
        return node in self._out and self._out[node].up

    def hears(self, node: str) -> bool:
        """Whether a stream from a node is open: its process runs, or ended a moment ago."""
        return node in self._in and self._in[node].open

    def hello_of(self, node: str) -> PeerInfo | None:
        """Returns the last accepted hello of a node; None if there was none."""
        return self._in[node].peer if node in self._in else None

    def applied_by(self, node: str) -> int:
        """Returns what `LinkEvents.applied` returned at the node when it sent its last acknowledgement; 0 if none."""
        return self._out[node].applied if node in self._out else 0

    def answered_by(self, node: str) -> tuple[int, int]:
        """Returns `applied_by` of a node, and the start of the process that sent the acknowledgement."""
        stream = self._out.get(node)
        return (0, 0) if stream is None or stream.peer is None else (stream.applied, stream.peer.boot)

    def heard_ms(self, node: str) -> float | None:
        """When the last frame arrived on the stream from a node, in `now_ms`; None if none ever did."""
        return self._in[node].heard_ms if node in self._in else None

    def waiting_bytes(self, node: str, lane: Lane) -> int:
        """Bytes of a lane that are not acknowledged."""
        return self._out[node].lanes[lane].waiting_bytes if node in self._out else 0

    @property
    def publish_window_bytes(self) -> int:
        """See `LinkSettings.publish_window_bytes`."""
        return self._settings.publish_window_bytes

    @property
    def ahead_bytes(self) -> int:
        """See `LinkSettings.ahead_bytes`."""
        return self._settings.ahead_bytes

    @property
    def behind_bytes(self) -> int:
        """See `LinkSettings.behind_bytes`."""
        return self._settings.behind_bytes

    def memory_bytes(self, node: str) -> int:
        """Memory of the items that a node has not acknowledged, in all lanes and kept by the owner."""
        return sum(half.memory_bytes for half in self._out[node].lanes.values()) if node in self._out else 0

    def tunnel_open(self, node: str) -> bool:
        """Whether the tunnel with a node is open."""
        return node in self._out and self._out[node].tunnel.open

    def tunnel_full(self, node: str) -> bool:
        """Whether `LinkSettings.tunnel_bytes` wait in the tunnel to a node: `TunnelEvents.tunnel_room` follows."""
        return node in self._out and self._out[node].tunnel.full

    def waiting_items(self, node: str, lane: Lane) -> int:
        """Items of a lane that are not acknowledged."""
        return self._out[node].lanes[lane].unacknowledged if node in self._out else 0

    # Inside

    def _outgoing(self, node: str) -> OutboundStream:
        link = self._out.get(node)
        if link is None:
            settings, traffic = self._settings, self.traffic
            tunnel = Tunnel(node, lambda: self.tunnel_events, settings, self._ports.soon)
            link = OutboundStream(
                node, lambda: self.me, self._ports, self._listener, settings, traffic, self.slow, self.full, tunnel
            )
            self._out[node] = link
            if self._timer is None:
                self.tick()
        return link

    def _incoming(self, node: str) -> InboundStream:
        stream = self._in.get(node)
        if stream is None:
            stream = InboundStream(
                node, self._ports, self._listener, self._settings, self.traffic, self._outgoing(node)
            )
            self._in[node] = stream
        return stream

    def tick(self) -> None:
        """Send the heartbeats that are due and close silent streams.

        A timer calls it one heartbeat after the last call. An owner that already runs in a turn of the loop may call it
        earlier and so save the timer's turn.
        """
        if self._timer is not None:
            self._timer.cancel()
        now_ms = self._ports.now_ms()
        stuck = now_ms - self._ticked_ms > 2000 * self._settings.heartbeat_s
        self._ticked_ms = now_ms
        for link in list(self._out.values()):
            if stuck:
                link.extend_deadline(now_ms)
            link.tick(now_ms)
        for stream in list(self._in.values()):
            stream.tick(now_ms)
        if not self._closed:
            self._timer = self._ports.later(self._settings.heartbeat_s, self.tick)
