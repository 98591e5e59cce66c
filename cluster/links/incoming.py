"""The stream of one peer to us: it brings datagrams and lanes here, and takes acknowledgements back."""

from __future__ import annotations

from ..transport.wire import Wire
from .frames import HEARTBEAT, Frame, MalformedFrame, Run, decode_frame, encode_frame
from .hello import Self
from .lane import ReceiveLane
from .ports import Lane, LinkPorts, Refuse, Resident, Traffic
from .reasons import Why
from .settings import LinkSettings


class Incoming:
    """What comes from `node`. Its lanes live as long as the peer's process, its streams come and go."""

    def __init__(
        self, node: str, ports: LinkPorts, resident: Resident, settings: LinkSettings, traffic: Traffic
    ) -> None:
        self.node = node
        self.peer: Self | None = None
        """The process that the lanes belong to."""
        self.heard_ms: float | None = None
        self._ports = ports
        self._resident = resident
        self._settings = settings
        self._traffic = traffic
        self._lanes: dict[Lane, ReceiveLane] = {}
        self._wire: Wire | None = None
        self._acks: dict[Lane, int] = {}
        self._grants: dict[Lane, int] = {}
        self._windows: dict[Lane, int] = {}
        self._busy = False
        self._scheduled = False
        self._sent_ms = 0.0

    def objection(self, peer: Self) -> str | None:
        """Why this process cannot be the one that `node` is."""
        known = self.peer
        if known is None or known.process == peer.process:
            return None
        if peer.boot < known.boot:
            return Why.OLD_COPY.says(
                f"{peer.node} was started again since: boot {known.boot} is known, this is {peer.boot}"
            )
        if peer.boot == known.boot and peer.disk == known.disk:
            # Its numbers would be taken for those of the other: what is new would look like a duplicate.
            return Why.OLD_COPY.says(f"boot {peer.boot} of {peer.node} belongs to another process")
        return None

    def accept(self, peer: Self, wire: Wire) -> dict[int, int]:
        """Take a stream in the place of an older one, and return the watermarks of the lanes."""
        if self._wire is not None:
            self._wire.close("a newer stream has taken its place")
        if self.peer is None or self.peer.process != peer.process:
            watermark = self._resident.watermark
            self._lanes = {lane: ReceiveLane(lane, watermark(peer.node, peer.disk, peer.boot, lane)) for lane in Lane}
        self.peer = peer
        self._wire = wire
        self._busy = False
        self._acks.clear()
        self._windows = dict(self._grants)
        self.heard_ms = self._sent_ms = self._ports.now_ms()
        self._flush_soon()
        return {int(lane): half.done for lane, half in self._lanes.items()}

    def stop(self, reason: str) -> None:
        """End the stream, if there is one."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close(reason)

    def ack(self, lane: Lane, seq: int) -> None:
        """As `Links.ack`."""
        half = self._lanes[lane]
        if half.finish(seq):
            self._acks[lane] = half.done
            self._flush_soon()

    def grant(self, lane: Lane, size: int) -> None:
        """As `Links.grant`."""
        self._grants[lane] = self._windows[lane] = size
        self._flush_soon()

    def tick(self, now_ms: float) -> None:
        """Say something if nothing was said for a while; give up a stream that is silent."""
        if self._wire is None or self.heard_ms is None:
            return
        if now_ms - self.heard_ms > self._settings.silence_s * 2000:
            self.stop(f"silent for {now_ms - self.heard_ms:.0f} ms")
        elif not self._busy and now_ms - self._sent_ms >= self._settings.heartbeat_s * 900:
            self._put(HEARTBEAT)

    # What happens to the stream

    def opened(self, wire: Wire, welcome: bytes) -> None:
        """Never called: `accept` was the opening."""
        raise AssertionError(wire.peer)

    def received(self, frame: bytes) -> None:
        """As `WireEvents.received`."""
        wire = self._wire
        self.heard_ms = self._ports.now_ms()
        self._traffic.frames_in += 1
        self._traffic.bytes_in += len(frame)
        self._resident.heard(self.node)
        try:
            decoded = decode_frame(frame, self._settings.max_frame_bytes)
            for kind, data in decoded.datagrams:
                if self._wire is wire:
                    self._resident.datagram(self.node, kind, data)
            for run in decoded.runs:
                if self._wire is wire:
                    self._take(run, wire)
        except MalformedFrame as error:
            self._give_up(wire, f"malformed frame from {self.node}: {error}")
        except Refuse as error:
            self._give_up(wire, Why.NOT_TAKEN.says(str(error)))
        self._flush_soon()

    def _give_up(self, wire: Wire | None, reason: str) -> None:
        self._ports.log("warning", f"stream from {self.node} closed: {reason}")
        if self._wire is wire:
            self.stop(reason)

    def _take(self, run: Run, wire: Wire | None) -> None:
        if run.lane not in self._lanes:
            raise MalformedFrame(f"there is no lane {run.lane}")
        half = self._lanes[Lane(run.lane)]
        done, duplicates = half.done, half.duplicates
        deliver, node, lane = self._resident.deliver, self.node, run.lane
        for seq, payload in half.take(run):
            if self._wire is not wire:
                half.refuse(seq)  # the resident has ended the stream: this comes again on the next
                return
            try:
                deliver(node, lane, seq, payload)
            except BaseException:
                if half.done < seq:
                    half.refuse(seq)
                raise
            self._traffic.items_in += 1
        self._traffic.duplicates += half.duplicates - duplicates
        if half.done > done or half.duplicates > duplicates:
            self._acks[Lane(run.lane)] = half.done

    def drained(self) -> None:
        """As `WireEvents.drained`."""
        self._busy = False
        self._flush()

    def closed(self, reason: str) -> None:
        """As `WireEvents.closed`."""
        self._wire = None

    # Answering

    def _flush_soon(self) -> None:
        if self._wire is not None and not self._busy and not self._scheduled and (self._acks or self._windows):
            self._scheduled = True
            self._ports.soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        if self._wire is None or self._busy or not (self._acks or self._windows):
            return
        acks = [(int(lane), upto) for lane, upto in self._acks.items()]
        windows = [(int(lane), size) for lane, size in self._windows.items()]
        self._acks.clear()
        self._windows.clear()
        self._put(encode_frame(Frame(acks=acks, windows=windows)))

    def _put(self, frame: bytes) -> None:
        assert self._wire is not None
        self._busy = True
        self._sent_ms = self._ports.now_ms()
        self._traffic.frames_out += 1
        self._traffic.bytes_out += len(frame)
        self._wire.send(frame)
