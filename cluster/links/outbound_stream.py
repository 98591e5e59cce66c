"""The stream to one peer, dialled again after each loss: sends datagrams and lanes, receives acknowledgements."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf

from ..transport.wire import Dialing, Wire
from .flight import Flight
from .frames import Frame, MalformedFrame, Run, decode_frame, encode_frame, heartbeat
from .hello import PeerInfo, Welcome, agree, decode_welcome, disagreement, encode_hello
from .lane import ITEM_BYTES, KEPT_BYTES, SendLane
from .pieces import Piece
from .ports import Lane, LinkEvents, LinkPorts, Timer, Traffic
from .settings import FRAME_SLACK, LinkSettings
from .tunnel import MAX_ITEM, Tunnel

SAY_FIRST_MS, SAY_NEXT_MS, SAY_LAST_MS = 3_000.0, 60_000.0, 600_000.0
"""When a link that cannot be opened is logged, in ms: after the first time, then after the second, then after each
third."""


class OutboundStream:
    """The link to `node`. Its lanes live as long as this process; streams may break and open again."""

    def __init__(
        self,
        node: str,
        me: Callable[[], PeerInfo],
        ports: LinkPorts,
        listener: LinkEvents,
        settings: LinkSettings,
        traffic: Traffic,
        slow: dict[Lane, dict[str, None]],
        full: dict[str, None],
        tunnel: Tunnel,
    ) -> None:
        self.node = node
        self.tunnel = tunnel
        self.address: str | None = None
        self._welcome: Welcome | None = None
        whole = settings.whole_bytes
        self.lanes = {
            Lane.METADATA: SendLane(Lane.METADATA, None, whole),
            Lane.REPLICA: SendLane(Lane.REPLICA, settings.replica_window_bytes, whole),
            Lane.APPEND: SendLane(Lane.APPEND, settings.append_window_bytes, whole),
            Lane.PUBLISH: SendLane(Lane.PUBLISH, settings.publish_window_bytes, whole),
        }
        self.applied = 0
        """What `LinkEvents.applied` returned at the peer when it sent the last acknowledgement."""
        self.hears = False
        """A frame arrived on the peer's own stream, and no frame on this stream has reported that yet."""
        self.reported_ms = -inf
        """When this stream last reported that, while the peer heard this stream."""
        self._me = me
        self._ports = ports
        self._listener = listener
        self._settings = settings
        self._traffic = traffic
        self._wire: Wire | None = None
        self._dialing: Dialing | None = None
        self._redial: Timer | None = None
        self._pause_s = settings.redial_first_s
        self._failing_ms: float | None = None
        self._tries = 0
        self._say_ms = 0.0
        self._say_pause_ms = 0.0
        self._datagrams = _Datagrams()
        self._slow = slow
        self._full = full
        self._ahead_bytes = settings.ahead_bytes
        self._limits = dict.fromkeys(Lane, settings.buffer_bytes) | {
            Lane.METADATA: min(settings.map_bytes, settings.buffer_bytes)
        }
        self._flight = Flight(settings.flight_units)
        self._busy = self._data_busy = False
        self._scheduled = False
        self._sent_ms = self._heard_ms = 0.0
        self._confirmed_ms = -inf

    # Calls of the owner

    @property
    def peer(self) -> PeerInfo | None:
        """The process that accepted the last stream."""
        return None if self._welcome is None else self._welcome.me

    @property
    def version(self) -> int:
        """The version of the protocol on the last stream; 0 if there was none."""
        return 0 if self._welcome is None else self._welcome.version

    @property
    def up(self) -> bool:
        """Whether a stream is open."""
        return self._wire is not None

    @property
    def untouched(self) -> bool:
        """Whether nothing is dialled, no stream was ever open, and no item was ever sent."""
        return self.address is None and self._welcome is None and not any(half.last for half in self.lanes.values())

    def point_to(self, address: str | None) -> None:
        """Keep a stream open to this address; with None, close it and dial no more."""
        if address != self.address:
            self.address = address
            self.stop("the peer has another address" if address else "not a peer any more")
            self._pause_s, self._failing_ms = self._settings.redial_first_s, None
            self._dial()

    def stop(self, reason: str) -> None:
        """End the stream and do not dial."""
        if self._redial is not None:
            self._redial.cancel()
            self._redial = None
        dialing, self._dialing = self._dialing, None
        if self._wire is not None:
            self._wire.close(reason)
            self._down(reason)
        elif dialing is not None:
            dialing.cancel()

    def forget(self) -> None:
        """See `Links.forget`."""
        self.stop("forgotten")
        for lane in self.lanes:
            self.void(lane, None)
        if self.address is not None:
            self._dial_later()

    def datagram(self, kind: int, data: bytes) -> bool:
        """See `Links.datagram`. The last one may exceed the bound, so that a snapshot larger than it can be sent."""
        if self._wire is None or self._datagrams.size >= self._settings.buffer_bytes:
            self._traffic.datagrams_dropped += 1
            return False
        self._datagrams.add(kind, data)
        self._flush_soon()
        return True

    def send_through(self, payload: bytes) -> bool:
        """See `Links.tunnel`."""
        sent = self.tunnel.send(payload)
        if sent:
            self._flush_soon()
        return sent

    def send(self, lane: Lane, payload: bytes) -> int:
        """See `Links.send`."""
        half = self.lanes[lane]
        seq = half.add(payload)
        if lane is Lane.PUBLISH or lane is Lane.APPEND:
            half.follow(self.lanes[Lane.METADATA])
            if half.waiting_bytes - half.inflight_bytes >= self._ahead_bytes and lane is Lane.PUBLISH:
                self._fill()
        if half.memory_bytes > self._limits[lane] and self.node not in self._slow[lane]:
            self._crowded(lane, half)
        self._flush_soon()
        return seq

    def beside(self, lane: Lane, items: int, size_bytes: int) -> None:
        """See `Links.beside`."""
        half = self.lanes[lane]
        half.beside_bytes = 2 * size_bytes + KEPT_BYTES * items
        if half.memory_bytes > self._limits[lane] and self.node not in self._slow[lane]:
            self._crowded(lane, half)

    def void(self, lane: Lane, seqs: list[int] | None) -> None:
        """See `Links.void`."""
        half = self.lanes[lane]
        if seqs is None:
            half.void_all()
        else:
            for seq in seqs:
                half.void(seq)
        self._relieve(lane)
        self._flush_soon()

    def tick(self, now_ms: float) -> None:
        """Close a silent stream; send a heartbeat if this node sent no urgent frame for `heartbeat_s`."""
        if self._wire is None:
            return
        if now_ms - self._heard_ms > self._settings.silence_s * 1000:
            self._fail(f"silent for {now_ms - self._heard_ms:.0f} ms")
        elif not (self._busy or self._datagrams.waiting) and now_ms - self._sent_ms >= self._settings.heartbeat_s * 900:
            self._put(heartbeat(self._ports.stamp(), self.hears))

    def heard(self) -> None:
        """The peer reports on its own stream that it hears this one."""
        if self._wire is not None:
            self._heard_ms = self._confirmed_ms = self._ports.now_ms()
            self._proved_good()

    def extend_deadline(self, now_ms: float) -> None:
        """This node's loop was stuck and read no frames: give the peer at least half of `silence_s` from now."""
        self._heard_ms = max(self._heard_ms, now_ms - self._settings.silence_s * 500)

    # Dialling

    def _dial(self) -> None:
        self._redial = None
        if self.address is not None and self._dialing is None:
            self._traffic.dials += 1
            self._dialing = self._ports.transport.dial(self.address, encode_hello(self._me()), self)

    def _dial_later(self) -> None:
        pause_s = self._pause_s
        self._pause_s = min(2 * pause_s, self._settings.redial_last_s)
        self._redial = self._ports.later(self._ports.rng.uniform(pause_s / 2, pause_s), self._dial)

    def _say(self, reason: str) -> None:
        """Log a link that cannot be opened, but only if that lasts, and then seldom: an outage has many dials."""
        now = self._ports.now_ms()
        if self._failing_ms is None:
            self._failing_ms, self._tries, self._say_ms, self._say_pause_ms = now, 0, now + SAY_FIRST_MS, SAY_NEXT_MS
        self._tries += 1
        if self.address is None or now < self._say_ms:
            return
        self._ports.log(
            "warning",
            f"no link to {self.node} at {self.address} for {(now - self._failing_ms) / 1000:.0f} s, after "
            f"{self._tries} tries: {reason}",
        )
        self._say_ms, self._say_pause_ms = now + self._say_pause_ms, SAY_LAST_MS

    # Events of the stream

    def opened(self, wire: Wire, welcome: bytes) -> None:
        """Wire: the peer has accepted the dial. Check its welcome, set the lanes to its watermarks, report `up`."""
        try:
            answer = decode_welcome(welcome)
            refusal = self._refusal(answer)
            if refusal is None:
                freed = self._resume(answer)
        except MalformedFrame as error:
            refusal = str(error)
        if refusal is not None:
            wire.close(refusal)
            self._over(refusal)
            return
        self._wire = wire
        self._flight.begin()
        self._welcome, self.applied = answer, answer.applied
        self._sent_ms = self._heard_ms = self._ports.now_ms()
        for lane in freed:
            self._listener.acked(self.node, lane, self.lanes[lane].acked_upto)
            self._relieve(lane)
        self._listener.up(self.node, answer.me)
        if self._wire is wire:
            self.tunnel.begin()
        self._flush_soon()

    def _refusal(self, answer: Welcome) -> str | None:
        me, peer = self._me(), answer.me
        if peer.node != self.node:
            return f"at {self.address} is {peer.node}, not {self.node}"
        if peer.cluster_id != me.cluster_id:
            return f"{peer.node} belongs to the cluster {peer.cluster_id}, not to {me.cluster_id}"
        if agree(me, peer) != answer.version:
            return disagreement(me, peer)
        return self._listener.check(peer)

    def _resume(self, answer: Welcome) -> list[Lane]:
        """Set the lanes to the peer's watermarks. Returns the lanes in which this freed items."""
        if self.peer is not None and self.peer.process != answer.me.process:
            # Items that only the earlier process of the peer had in memory are lost; anti-entropy repairs that.
            self.lanes[Lane.METADATA].void_all()
        freed = []
        for lane, half in self.lanes.items():
            watermark = answer.watermarks.get(lane, 0)
            kept = lane is Lane.APPEND or lane is Lane.PUBLISH
            if kept and watermark < half.acked_upto:
                self._ports.log(
                    "warning" if self.peer is not None and self.peer.disk == answer.me.disk else "info",
                    f"{self.node} has forgotten {lane.name} {watermark + 1} to {half.acked_upto}",
                )
            if half.resume(watermark):
                freed.append(lane)
        return freed

    def received(self, frame: bytes) -> None:
        """Wire: a frame of the peer arrived: acknowledgements, windows, lanes to hold or to resume."""
        wire = self._wire
        self._heard_ms = self._ports.now_ms()
        self._traffic.frames_in += 1
        self._traffic.bytes_in += len(frame)
        try:
            decoded = decode_frame(frame, self._settings.max_frame_bytes)
            self._ports.observe(decoded.stamp)
            self._flight.taken(decoded.taken, self._heard_ms)
            if decoded.acks or decoded.early:
                self.applied = decoded.applied
            for number, upto in decoded.acks:
                if self._wire is wire:
                    self._acked(self._lane(number), upto)
            for number, size in decoded.windows:
                self.lanes[self._lane(number)].window = size
            for number, seqs in decoded.early:
                if self._wire is wire:
                    self._early(self._lane(number), seqs)
            for number, _ in decoded.holds:
                self.lanes[self._lane(number)].hold()
            for number, first in decoded.resumes:
                self.lanes[self._lane(number)].rewind(first)
            self._proved_good()
        except MalformedFrame as error:
            self._fail(f"malformed frame from {self.node}: {error}")
        self._flush_soon()

    def _proved_good(self) -> None:
        """The peer has answered on this stream, so the pause before a dial is the first one again."""
        self._pause_s, self._failing_ms = self._settings.redial_first_s, None

    def _lane(self, number: int) -> Lane:
        try:
            return Lane(number)
        except ValueError as error:
            raise MalformedFrame(f"there is no lane {number}") from error

    def _acked(self, lane: Lane, upto: int) -> None:
        half = self.lanes[lane]
        before = half.acked_upto
        half.acked(upto)
        if half.acked_upto > before:
            self._listener.acked(self.node, lane, half.acked_upto)
            self._relieve(lane)

    def _early(self, lane: Lane, seqs: list[int]) -> None:
        self.lanes[lane].early(seqs)
        self._listener.acked_early(self.node, lane, seqs)
        self._relieve(lane)
        self._flush_soon()

    def _crowded(self, lane: Lane, half: SendLane) -> None:
        """Unacknowledged items exceed the limit: add the peer to `slow`, so that the owner pauses its publishers."""
        self._slow[lane][self.node] = None
        if lane is Lane.METADATA:
            return  # happens often and ends soon
        text = f"{half.memory_bytes >> 10} KiB wait on lane {lane.name} for {self.node} to acknowledge them"
        effect = f"clients that publish to {self.node} are not read until half of that is acknowledged"
        if lane is Lane.REPLICA:
            effect = f"changes of slots with a copy at {self.node} wait"
        self._ports.log("warning", f"{text}: {effect}")

    def _relieve(self, lane: Lane) -> None:
        if self.node in self._slow[lane] and self.lanes[lane].memory_bytes <= self._limits[lane] // 2:
            del self._slow[lane][self.node]
            effect = "clients that publish to it are read again"
            if lane is Lane.REPLICA:
                effect = "changes of slots go on"
            if lane is not Lane.METADATA:
                self._ports.log("info", f"lane {lane.name} to {self.node} is relieved: {effect}")
            self._listener.relieved(self.node)

    def drained(self) -> None:
        """Wire: the network has taken the urgent frame. Send what waits."""
        self._busy = False
        self._flush()

    def data_drained(self) -> None:
        """Wire: the network has taken the data frame. Send what waits."""
        self._data_busy = False
        self._flush()

    def closed(self, reason: str) -> None:
        """Wire: the stream is closed, or the peer could not be reached or refused it. Dial again after a pause."""
        if self._wire is None:
            self._ports.refused(self.node, reason)
        self._over(reason)

    def _over(self, reason: str) -> None:
        """The stream has ended, or could not be opened."""
        self._dialing = None
        if self._wire is not None:
            self._down(reason)
        self._say(reason)
        if self.address is not None and self._redial is None:
            self._dial_later()

    def _fail(self, reason: str) -> None:
        """Close the stream from this side. The wire then reports no `closed`, so call that here."""
        if self._wire is not None:
            self._wire.close(reason)
            self.closed(reason)

    def _down(self, reason: str) -> None:
        self._wire = None
        self._busy = self._data_busy = False
        self._datagrams = _Datagrams()
        self._offer_room()
        self._listener.down(self.node, reason)
        self.tunnel.end(reason)

    # Sending

    def _flush_soon(self) -> None:
        if self._wire is not None and not self._scheduled and not (self._busy and self._data_busy):
            self._scheduled = True
            self._ports.soon(self._flush)

    def _fill(self) -> None:
        """The next frame has enough items: add the peer to `full`, so that the owner keeps further items."""
        if self._wire is not None:
            self._full[self.node] = None

    def _offer_room(self) -> None:
        """If the next frame has space again, or the stream is closed, ask the owner for the items that it keeps."""
        if self.node not in self._full:
            return
        if self._wire is None or self.lanes[Lane.PUBLISH].unsent_bytes < self._ahead_bytes:
            del self._full[self.node]
            self._listener.room(self.node)

    def _flush(self) -> None:
        """Send one frame with the datagrams and one with items of the lanes, as far as they fit.

        Items that are added while these are written form the next frames.
        """
        self._scheduled = False
        if self._wire is not None and not self._busy and self._datagrams.waiting:
            datagrams = self._datagrams.take(self._settings)
            self._put(encode_frame(Frame(datagrams, heard=self.hears, stamp=self._ports.stamp())))
        if self._wire is not None and not self._data_busy and not self._flight.full:
            self._offer_room()
            self.tunnel.offer_room()
            frame = self._gather_data()
            if frame is not None:
                self._put_data(frame)

    def _gather_data(self) -> Frame | None:
        """Returns a frame with the items that lanes and tunnel may send now; None if there are none."""
        settings = self._settings
        room = settings.max_frame_bytes - FRAME_SLACK // 2
        used = 0
        runs: list[Run] = []
        pieces: list[Piece] = []
        for half in self.lanes.values():
            if half.sent == half.last:
                continue
            resent = half.resent
            budget = settings.gather_bytes
            last = half.free(self.lanes[Lane.METADATA])
            while budget > 0 and (run := half.take(budget, room - used, last)) is not None:
                size = sum(map(len, run.payloads)) + ITEM_BYTES * (len(run.payloads) + 2)
                budget -= size
                used += size
                runs.append(run)
                self._traffic.items_out += len(run.payloads)
            if budget > 0 and (piece := half.take_piece(room - used, last)) is not None:
                used += len(piece.data) + ITEM_BYTES
                pieces.append(piece)
                self._traffic.items_out += piece.last
            self._traffic.resent += half.resent - resent
        tunnel: list[bytes] = []
        if self.tunnel.waits and (not used or used + MAX_ITEM < room):
            tunnel = self.tunnel.take(min(settings.gather_bytes, room - used))
            self._traffic.items_out += len(tunnel)
        if not (runs or pieces or tunnel):
            return None
        return Frame(runs=runs, pieces=pieces, tunnel=tunnel, stamp=self._ports.stamp())

    def _put(self, frame: bytes) -> None:
        assert self._wire is not None
        self._busy = True
        self._sent_ms = now_ms = self._ports.now_ms()
        if self.hears and now_ms - self._confirmed_ms < self._settings.echo_s * 1000:
            self.reported_ms = now_ms
        self.hears = False
        self._count(frame)
        self._wire.send(frame)

    def _put_data(self, frame: Frame) -> None:
        assert self._wire is not None
        data = encode_frame(frame)
        self._data_busy = True
        self._flight.sent(frame.items, len(data), self._ports.now_ms())
        self._count(data)
        self._wire.send_data(data)

    def _count(self, frame: bytes) -> None:
        self._traffic.frames_out += 1
        self._traffic.bytes_out += len(frame)


class _Datagrams:
    """The datagrams that wait for a frame. `size` is their number of bytes."""

    __slots__ = ("size", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, bytes]] = deque()
        self.size = 0

    def add(self, kind: int, data: bytes) -> None:
        self.waiting.append((kind, data))
        self.size += len(data) + ITEM_BYTES

    def take(self, settings: LinkSettings) -> list[tuple[int, bytes]]:
        """Returns the datagrams for one frame."""
        room = settings.max_frame_bytes - FRAME_SLACK // 2  # the largest payload fits, with its headers
        datagrams: list[tuple[int, bytes]] = []
        used = 0
        while self.waiting and (not datagrams or used < settings.gather_bytes):
            size = len(self.waiting[0][1]) + ITEM_BYTES
            if datagrams and used + size > room:
                break
            datagrams.append(self.waiting.popleft())
            used += size
        self.size -= used
        return datagrams
