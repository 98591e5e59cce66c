"""The stream from one peer: receives datagrams and items of lanes, and sends acknowledgements back."""

from __future__ import annotations

from msgspec import Struct

from ..transport.wire import Wire
from .flight import Handled
from .frames import Frame, MalformedFrame, Run, decode_frame, encode_frame, heartbeat
from .hello import PeerInfo
from .lane import ReceiveLane
from .numbers import Numbers
from .outbound_stream import OutboundStream
from .pieces import Piece
from .ports import Lane, LinkEvents, LinkPorts, Refuse, SetAside, Traffic, Unreadable
from .refusal import RefusalReason
from .settings import LinkSettings


class _Hold(Struct):
    """A held lane: number of the refused item, reason, length and end of the pause.

    `asked`: this node has asked the sender to resume.
    """

    seq: int
    reason: str
    pause_ms: float
    until_ms: float
    asked: bool = False


class InboundStream:
    """The receiving side for `node`. The lanes live as long as the peer's process; streams may break and open again.

    `link` is this node's own stream to the peer: each of the two streams reports that the other is heard.
    """

    def __init__(
        self,
        node: str,
        ports: LinkPorts,
        listener: LinkEvents,
        settings: LinkSettings,
        traffic: Traffic,
        link: OutboundStream,
    ) -> None:
        self.node = node
        self.peer: PeerInfo | None = None
        """The process that the lanes belong to."""
        self.heard_ms: float | None = None
        self._ports = ports
        self._listener = listener
        self._settings = settings
        self._traffic = traffic
        self._link = link
        self._lanes: dict[Lane, ReceiveLane] = {}
        self._wire: Wire | None = None
        self._acks: dict[Lane, int] = {}
        self._grants: dict[Lane, int] = {}
        self._windows: dict[Lane, int] = {}
        self._early: dict[Lane, list[int]] = {}
        self._told_early: dict[Lane, Numbers] = {}
        self._holds: dict[Lane, int] = {}
        self._resumes: dict[Lane, int] = {}
        self._held: dict[Lane, _Hold] = {}
        self._handled = Handled(settings.flight_units, settings.report_s, ports.later, self._flush_soon)
        self._busy = self._data_busy = False
        self._scheduled = False
        self._sent_ms = 0.0

    @property
    def open(self) -> bool:
        """Whether a stream is open."""
        return self._wire is not None

    def objection(self, peer: PeerInfo) -> str | None:
        """Returns the reason to refuse a stream of this process; None if there is none.

        It is refused if the peer has started again since, or if another process of the disk has the same boot.
        """
        known = self.peer
        if known is None or known.process == peer.process:
            return None
        if peer.boot < known.boot:
            return RefusalReason.OLD_COPY.says(
                f"{peer.node} was started again since: boot {known.boot} is known, this is {peer.boot}"
            )
        if peer.boot == known.boot and peer.disk == known.disk:
            # Its numbers would be taken for those of the other process: new items would look like duplicates.
            return RefusalReason.OLD_COPY.says(f"boot {peer.boot} of {peer.node} belongs to another process")
        return None

    def accept(self, peer: PeerInfo, wire: Wire) -> dict[int, int]:
        """Use a new stream of the peer, and close an older one. Returns the watermarks of the lanes."""
        if self._wire is not None:
            self._wire.close("a newer stream has taken its place")
        if self.peer is None or self.peer.process != peer.process:
            self._told_early.clear()
            watermark = self._listener.watermark
            largest = self._settings.max_item_bytes
            self._lanes = {
                lane: ReceiveLane(lane, watermark(peer.node, peer.disk, peer.boot, lane), largest) for lane in Lane
            }
        self.peer = peer
        self._wire = wire
        self._busy = self._data_busy = self._link.hears = False
        self._handled.begin()
        for half in self._lanes.values():
            half.reopen()
        for answers in (self._acks, self._holds, self._resumes, self._held):
            answers.clear()
        self._early = {}  # what the former stream lost is told again when the sender sends these items again
        self._windows = dict(self._grants)
        self.heard_ms = self._sent_ms = self._ports.now_ms()
        self._flush_soon()
        return {int(lane): half.done for lane, half in self._lanes.items()}

    def stop(self, reason: str) -> None:
        """End the stream, if there is one."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close(reason)
            self._link.tunnel.peer_ended(reason)

    def ack(self, lane: Lane, seq: int) -> None:
        """See `Links.ack`."""
        half = self._lanes[lane]
        if half.finish(seq):
            self._acks[lane] = half.done
            if lane in self._told_early:
                self._told_early[lane].drop(half.done)
            self._flush_soon()

    def ack_early(self, lane: Lane, seqs: list[int]) -> None:
        """See `Links.ack_early`."""
        self._early.setdefault(lane, []).extend(seqs)
        told = self._told_early.setdefault(lane, Numbers())
        for seq in seqs:
            told.add(seq)
        self._flush_soon()

    def _tell_early_again(self, lane: int, first: int, last: int) -> None:
        """The sender has sent these numbers again: it does not know that some of them were acknowledged early."""
        told = self._told_early.get(Lane(lane))
        if told is not None and (again := told.within(first, last)):
            self._early.setdefault(Lane(lane), []).extend(again)

    def grant(self, lane: Lane, size: int) -> None:
        """See `Links.grant`."""
        self._grants[lane] = self._windows[lane] = size
        self._flush_soon()

    def resume_held(self, now_ms: float | None = None) -> None:
        """Ask the sender to resume held lanes; with `now_ms` only those whose pause is over."""
        for lane, hold in self._held.items():
            if not hold.asked and (now_ms is None or now_ms >= hold.until_ms):
                hold.asked = True
                self._holds.pop(lane, None)
                self._resumes[lane] = self._lanes[lane].received + 1
                self._flush_soon()

    def tick(self, now_ms: float) -> None:
        """Close a silent stream. Else ask for lanes whose pause is over, and send a heartbeat if one is due.

        None is due while this node's own stream reports to the peer that it hears this one.
        """
        if self._wire is None or self.heard_ms is None:
            return
        if self._held:
            self.resume_held(now_ms)
        if now_ms - self.heard_ms > self._settings.silence_s * 2000:
            self.stop(f"silent for {now_ms - self.heard_ms:.0f} ms")
        elif not self._busy and now_ms - max(self._sent_ms, self._link.reported_ms) >= self._settings.echo_s * 900:
            self._put(heartbeat(self._ports.stamp()))

    # Events of the stream

    def opened(self, wire: Wire, welcome: bytes) -> None:
        """Never called: the acceptor's stream is open after `accept`."""
        raise AssertionError(wire.peer)

    def received(self, frame: bytes) -> None:
        """Wire: a frame arrived. Deliver its contents in the order datagrams, runs, pieces, tunnel."""
        wire = self._wire
        self.heard_ms = self._ports.now_ms()
        self._traffic.frames_in += 1
        self._traffic.bytes_in += len(frame)
        self._link.hears = True
        self._listener.heard(self.node)
        try:
            decoded = decode_frame(frame, self._settings.max_frame_bytes)
            self._ports.observe(decoded.stamp)
            if decoded.heard:
                self._link.heard()
            for kind, data in decoded.datagrams:
                if self._wire is wire:
                    self._listener.datagram(self.node, kind, data)
            self._take_data(decoded, wire)
            has_data = decoded.runs or decoded.pieces or decoded.tunnel
            if has_data and self._wire is wire:
                self._handled.handled(decoded.items, len(frame))
        except MalformedFrame as error:
            self._give_up(wire, f"malformed frame from {self.node}: {error}")
        self._flush_soon()

    def _take_data(self, frame: Frame, wire: Wire | None) -> None:
        for run in frame.runs:
            if self._wire is wire:
                self._take(run, wire)
        for piece in frame.pieces:
            if self._wire is wire:
                self._take_piece(piece)
        for item in frame.tunnel:
            if self._wire is wire:
                self._traffic.items_in += 1
                self._link.tunnel.received(item)

    def _give_up(self, wire: Wire | None, reason: str) -> None:
        self._ports.log("warning", f"stream from {self.node} closed: {reason}")
        if self._wire is wire:
            self.stop(reason)

    def _half(self, number: int) -> ReceiveLane:
        if number not in self._lanes:
            raise MalformedFrame(f"there is no lane {number}")
        return self._lanes[Lane(number)]

    def _take(self, run: Run, wire: Wire | None) -> None:
        half = self._half(run.lane)
        done, duplicates = half.done, half.duplicates
        if self._told_early:
            self._tell_early_again(run.lane, run.first + run.voids, min(run.last, half.received))
        for seq, payload in half.take(run):
            if self._wire is not wire:
                half.refuse(seq)  # the listener has ended the stream: the peer sends the item again on the next one
                return
            if not self._deliver(half, seq, payload):
                break
        self._count(half, done, duplicates)

    def _take_piece(self, piece: Piece) -> None:
        half = self._half(piece.lane)
        done, duplicates = half.done, half.duplicates
        if self._told_early and not piece.offset and piece.seq <= half.received:
            self._tell_early_again(piece.lane, piece.seq, piece.seq)
        whole = half.take_piece(piece)
        if whole is not None:
            seq, payload = whole
            if payload is None:
                self._set_aside(half, seq, piece.size, f"{self._settings.max_item_bytes} bytes are allowed")
            else:
                self._deliver(half, seq, payload)
        self._count(half, done, duplicates)

    def _count(self, half: ReceiveLane, done: int, duplicates: int) -> None:
        self._traffic.duplicates += half.duplicates - duplicates
        if half.done > done or half.duplicates > duplicates:
            self._acks[Lane(half.lane)] = half.done
        if self._held and not half.held:
            self._released(half)

    def _deliver(self, half: ReceiveLane, seq: int, payload: bytes) -> bool:
        """Deliver one item. Returns False if the lane is held now."""
        try:
            self._listener.deliver(self.node, half.lane, seq, payload)
        except Refuse as refusal:
            half.refuse(seq)
            self._hold(Lane(half.lane), seq, str(refusal))
            return False
        except Unreadable as error:
            self._set_aside(half, seq, len(payload), str(error))
            return True
        except BaseException:
            if half.done < seq:
                half.refuse(seq)
            raise
        self._traffic.items_in += 1
        return True

    # Holding a lane, and setting an item aside

    def _hold(self, lane: Lane, seq: int, reason: str) -> None:
        """Hold the lane at this item. After a pause this node asks for it again; each refusal doubles the pause."""
        self._traffic.held += 1
        before = self._held.get(lane)
        settings = self._settings
        if before is not None and before.seq == seq:
            pause_ms = min(before.pause_ms * 2, settings.hold_last_s * 1000)
        else:
            pause_ms = settings.hold_first_s * 1000
        if before is None or before.reason != reason:
            self._ports.log("info", f"lane {lane.name} from {self.node} is held at item {seq}: {reason}")
        self._held[lane] = _Hold(seq, reason, pause_ms, self._ports.now_ms() + pause_ms)
        self._resumes.pop(lane, None)
        self._holds[lane] = seq

    def _released(self, half: ReceiveLane) -> None:
        """The item that held the lane was taken or cancelled."""
        lane = Lane(half.lane)
        hold = self._held.get(lane)
        if hold is not None and half.received >= hold.seq:
            del self._held[lane]
            self._ports.log("info", f"lane {lane.name} from {self.node} continues with item {hold.seq}")

    def _set_aside(self, half: ReceiveLane, seq: int, size: int, reason: str) -> None:
        """An item cannot be decoded: it counts as cancelled, and the log has its size and the reason."""
        half.set_aside(seq)
        self._traffic.set_aside += 1
        lane = Lane(half.lane)
        self._ports.log(
            "error",
            f"item {seq} of lane {lane.name} from {self.node} ({size} bytes) cannot be read and is set aside: {reason}",
        )
        self._ports.set_aside(SetAside(self.node, lane, seq, size, reason))

    def drained(self) -> None:
        """Wire: the network has taken the urgent frame, so another one may follow."""
        self._busy = False

    def data_drained(self) -> None:
        """Wire: the network has taken the data frame. Send the answers that wait."""
        self._data_busy = False
        self._flush()

    def closed(self, reason: str) -> None:
        """Wire: the stream is closed. The lanes stay for the next one."""
        self._wire = None
        self._link.tunnel.peer_ended(reason)

    # Answering

    def _flush_soon(self) -> None:
        if self._wire is not None and not self._data_busy and not self._scheduled and self._anything_to_say():
            self._scheduled = True
            self._ports.soon(self._flush)

    def _anything_to_say(self) -> bool:
        return self._handled.due or bool(self._acks or self._windows or self._early or self._holds or self._resumes)

    def _flush(self) -> None:
        self._scheduled = False
        if self._wire is None or self._data_busy or not self._anything_to_say():
            return
        frame = Frame(
            acks=_drain(self._acks),
            windows=_drain(self._windows),
            holds=_drain(self._holds),
            resumes=_drain(self._resumes),
            early=[(int(lane), seqs) for lane, seqs in self._early.items() if seqs],
            taken=self._handled.count,
            applied=self._listener.applied(),
            stamp=self._ports.stamp(),
        )
        self._handled.reported()
        self._early = {}
        self._data_busy = True
        self._wire.send_data(self._counted(encode_frame(frame)))

    def _put(self, frame: bytes) -> None:
        assert self._wire is not None
        self._busy = True
        self._sent_ms = self._ports.now_ms()
        self._wire.send(self._counted(frame))

    def _counted(self, frame: bytes) -> bytes:
        self._traffic.frames_out += 1
        self._traffic.bytes_out += len(frame)
        return frame


def _drain(answers: dict[Lane, int]) -> list[tuple[int, int]]:
    pairs = [(int(lane), number) for lane, number in answers.items()]
    answers.clear()
    return pairs
