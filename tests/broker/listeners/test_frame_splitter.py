"""Large WebSocket frames become fragments, and nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from strogoff.broker.listeners.frame_splitter import PIECE_BYTES, FrameSplitter

UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Reader:
    """The library behind a splitter. `kept`: the most bytes that it has kept."""

    def __init__(self, largest: int | None = None) -> None:
        self.ws = ServerProtocol(max_size=largest)
        self.ws.receive_data(UPGRADE)
        (request,) = self.ws.events_received()
        assert isinstance(request, Request)
        self.ws.send_response(self.ws.accept(request))
        self.splitter = FrameSplitter()
        self.kept = 0

    def read(self, data: bytes) -> list[Frame]:
        self.ws.receive_data(self.splitter.split(data, self.ws.max_size))
        self.kept = max(self.kept, len(self.ws.reader.buffer))
        return [event for event in self.ws.events_received() if isinstance(event, Frame)]


def sent(opcode: Opcode, payload: bytes, fin: bool = True) -> bytes:
    """A frame of a client."""
    return Frame(opcode, payload, fin).serialize(mask=True)


def portions(data: bytes, rng: Random, most: int) -> Iterator[bytes]:
    while data:
        size = rng.randint(1, most)
        yield data[:size]
        data = data[size:]


@pytest.mark.parametrize("most", [1, 101, 4096, 300_000])
def test_the_library_reads_the_same_messages_and_keeps_a_fragment_at_most(most: int) -> None:
    rng = Random(most)
    sizes = [0, 1, 125, 126, 65_535, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES, 2 * PIECE_BYTES + 3, 200_001, 5]
    if most == 1:
        sizes = [0, 126, PIECE_BYTES + 1]
    payloads = [rng.randbytes(size) for size in sizes]
    stream = b"".join(sent(Opcode.BINARY, payload) + sent(Opcode.PING, b"%d" % len(payload)) for payload in payloads)
    reader = Reader()
    frames = [frame for portion in portions(stream, rng, most) for frame in reader.read(portion)]
    assert reader.ws.parser_exc is None
    pings = [frame.data for frame in frames if frame.opcode is Opcode.PING]
    assert pings == [b"%d" % size for size in sizes]
    messages: list[bytes] = []
    pieces: list[bytes] = []
    for frame in frames:
        if frame.opcode is not Opcode.PING:
            assert (frame.opcode is Opcode.CONT) == bool(pieces)
            pieces.append(bytes(frame.data))
            if frame.fin:
                messages.append(b"".join(pieces))
                pieces = []
    assert (messages, pieces) == (payloads, [])
    assert reader.kept <= PIECE_BYTES + 10


def test_fragments_of_the_client_stay_fragments_of_one_message() -> None:
    reader, size = Reader(), PIECE_BYTES + 1
    first = reader.read(sent(Opcode.BINARY, bytes(size), fin=False))
    last = reader.read(sent(Opcode.CONT, bytes(size)))
    assert [(frame.opcode, frame.fin, len(frame.data)) for frame in first + last] == [
        (Opcode.BINARY, False, PIECE_BYTES), (Opcode.CONT, False, 1),
        (Opcode.CONT, False, PIECE_BYTES), (Opcode.CONT, True, 1),
    ]  # fmt: skip


def test_what_a_client_may_send_is_passed_on_unchanged() -> None:
    data = sent(Opcode.BINARY, bytes(PIECE_BYTES)) + sent(Opcode.PING, b"") + sent(Opcode.TEXT, b"t")
    assert FrameSplitter().split(data, None) is data


def test_no_payload_is_taken_for_a_header() -> None:
    """Small frames arrive in two portions, and what is in them looks like the header of a large one."""
    header = bytes((0x82, 0xFF)) + (1 << 20).to_bytes(8, "big")
    data = (bytes((0x82, 0x80 + 40)) + bytes(4) + 4 * header) * 3
    for cut in range(len(data) + 1):
        splitter = FrameSplitter()
        assert splitter.split(data[:cut], None) + splitter.split(data[cut:], None) == data


@pytest.mark.parametrize("announced", [100_001, 1 << 20, 1 << 62])
def test_a_frame_above_the_limit_is_refused_by_its_header(announced: int) -> None:
    reader = Reader(largest=100_000)
    assert reader.read(bytes((0x82, 0xFF)) + announced.to_bytes(8, "big") + b"mask") == []
    assert isinstance(reader.ws.parser_exc, PayloadTooBig)


@pytest.mark.parametrize("first", [0x89, 0x80, 0x83, 0xC2])
def test_a_frame_that_may_not_be_large_is_refused_after_a_fragment(first: int) -> None:
    """A ping, a continuation of nothing, an opcode that means nothing, and a reserved bit."""
    reader, rest = Reader(), bytes(PIECE_BYTES)
    reader.read(bytes((first, 0xFF)) + (1 << 28).to_bytes(8, "big") + b"mask" + rest)
    assert isinstance(reader.ws.parser_exc, ProtocolError) and reader.kept <= len(rest)


def test_a_large_frame_without_a_mask_is_refused() -> None:
    """RFC 6455 section 5.1."""
    reader = Reader()
    reader.read(bytes((0x82, 0x7F)) + (1 << 28).to_bytes(8, "big"))
    assert isinstance(reader.ws.parser_exc, ProtocolError)
