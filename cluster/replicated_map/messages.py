"""The messages of the replicated map. On the wire each is an array whose first element is its kind.

    Writes       the siblings of the keys that the sender wrote in this turn        FIFO lane
    Ack          "all your writes up to this counter are applied here"              FIFO lane
    ClockReport  the sender's clocks                                                may be lost
    SyncRequest  the sender's clocks; asks for the writes that the sender lacks     FIFO lane
    Batch        one step of an answer, or of what the answering side lacks itself  FIFO lane
    BatchAck     "that batch is applied"                                            FIFO lane

Nodes and boots are named once per part; everything else refers to their positions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from . import intervals
from .actors import COUNTER, SHIFT, Actors, dot_of
from .dvv import Siblings, pairs
from .version_vector import VersionVector


class MalformedMapMessage(Exception):
    """A message that no correct node sends. The text names the error."""


class Contradiction(MalformedMapMessage):
    """A valid message that contradicts this node's state: the stream between the two nodes must end."""


class KeyContext(msgspec.Struct, array_like=True, gc=False):
    """The context of a key beyond the sender's clock: (actor, low, high), and folded boots."""

    seen: list[tuple[int, int, int]]
    folded: dict[str, int]


class Item(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    """A key and its siblings: positions of actors and counters in turn, then the values, None for a deletion.

    With dots and without values it only names dots whose values the receiver has had.
    """

    key: bytes
    dots: list[int]
    values: list[bytes | None]
    key_context: KeyContext | None = None


class Part(msgspec.Struct, array_like=True):
    """The content of a message for one half: 0 durable, 1 volatile.

    `seen` and `folded` are the sender's clock, `seen[i]` being the intervals of `actors[i]`. `covered_ranges` are
    (actor, low, high): after these items the receiver has seen these dots. `floors[i]`: dots of `actors[i]` up to here
    are not to be marked one by one. `buckets` (first, after the last): the items and `named` are all keys in them.
    """

    half: int
    actors: list[tuple[str, int]]
    seen: list[list[int]]
    folded: dict[str, int]
    items: list[Item] = []
    covered_ranges: list[tuple[int, int, int]] = []
    floors: list[int] = []
    buckets: tuple[int, int] | None = None
    named: list[bytes] = []
    claim_folded: bool = False


class Writes(msgspec.Struct, array_like=True, tag=0):
    """The siblings of the keys that the sender wrote since its last `Writes`."""

    boot: int
    parts: list[Part]


class Ack(msgspec.Struct, array_like=True, tag=1):
    """All writes of the receiver's boot `of_boot` up to `counter` are applied, the durable ones on its disk."""

    boot: int
    of_boot: int
    counter: int


class ClockReport(msgspec.Struct, array_like=True, tag=2):
    """The sender's clocks."""

    boot: int
    parts: list[Part]


class SyncRequest(msgspec.Struct, array_like=True, tag=3):
    """Asks for an exchange. The receiver answers once it has applied `view`."""

    boot: int
    exchange: int
    view: int
    parts: list[Part]


class Batch(msgspec.Struct, array_like=True, omit_defaults=True, tag=4):
    """A step of an exchange. `answer`: from the side that was asked.

    `rejoin`, in the last one: the side that was asked is entering a view and already fetches everything from a peer, or
    has lost its lease and gives nothing.
    """

    boot: int
    exchange: int
    number: int
    answer: bool
    last: bool
    parts: list[Part]
    rejoin: bool = False


class BatchAck(msgspec.Struct, array_like=True, tag=5):
    """A batch has been applied."""

    boot: int
    exchange: int
    number: int
    answer: bool


Message = Writes | Ack | ClockReport | SyncRequest | Batch | BatchAck

_Kind = TypeVar("_Kind", bound=Message)

ItemProblem = Callable[[Part, Item], str]
"""Returns the reason why the map refuses an item of a part; "" if it does not."""


class _LoosePart(Part):
    """A part whose items are not decoded yet. A field that is declared again keeps its place in the array."""

    items: list[msgspec.Raw] = []  # type: ignore[assignment]


class _LooseWrites(Writes, tag=0):
    """`Writes` with items that are not decoded yet."""

    parts: list[_LoosePart]  # type: ignore[assignment]


class _LooseBatch(Batch, tag=4):
    """`Batch` with items that are not decoded yet."""

    parts: list[_LoosePart]  # type: ignore[assignment]


_encoder = msgspec.msgpack.Encoder()
_loose_decoder: msgspec.msgpack.Decoder[_LooseWrites | _LooseBatch] = msgspec.msgpack.Decoder(
    _LooseWrites | _LooseBatch
)
_item_decoder = msgspec.msgpack.Decoder(Item)
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """Returns the bytes of a message."""
    return _encoder.encode(message)


def decode(data: bytes) -> Message:
    """Decode a message and check its numbers. Raises `MalformedMapMessage`."""
    message = _read(_decoder, data)
    if isinstance(message, Writes | ClockReport | SyncRequest | Batch):
        for part in message.parts:
            _check(part)
    return message


def _read(decoder: msgspec.msgpack.Decoder[_Kind], data: bytes) -> _Kind:
    try:
        message = decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedMapMessage(f"metadata message of {len(data)} bytes: {error}") from error
    if message.boot < 1:
        raise MalformedMapMessage(f"metadata message: boot {message.boot}")
    return message


def salvage(data: bytes, item_problem: ItemProblem) -> tuple[Writes | Batch, list[str]]:
    """Decode a message with keys, and skip the keys that cannot be decoded. Returns it with a problem for each of
    these.

    The dots of skipped keys count as seen, so that the sender's barriers complete. Raises `MalformedMapMessage` if the
    message as a whole cannot be decoded.
    """
    loose = _read(_loose_decoder, data)
    problems: list[str] = []
    parts = []
    for each in loose.parts:
        part = Part(**_fields(each, but="items"))
        _check(part)
        found = [_take_item(part, bytes(raw), item_problem) for raw in each.items]
        problems += [problem for problem in found if problem]
        parts.append(part)
    kind = Writes if isinstance(loose, _LooseWrites) else Batch
    return kind(**_fields(loose, but="parts"), parts=parts), problems


def _fields(loose: Part | Writes | Batch, but: str) -> dict[str, Any]:
    return {name: getattr(loose, name) for name in loose.__struct_fields__ if name != but}


def _take_item(part: Part, raw: bytes, item_problem: ItemProblem) -> str:
    try:
        item = _item_decoder.decode(raw)
        _check_item(item, len(part.actors))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, MalformedMapMessage) as error:
        return f"an item of {len(raw)} bytes: {error}"
    problem = item_problem(part, item)
    if not problem:
        part.items.append(item)
    return problem


def _check(part: Part) -> None:
    known = len(part.actors)
    if part.half not in (0, 1):
        raise MalformedMapMessage(f"metadata message: there is no half {part.half}")
    if len(part.seen) > known or any(boot < 1 for _, boot in part.actors):
        raise MalformedMapMessage(f"metadata message: {len(part.seen)} clocks of {known} actors")
    if not all(intervals.valid(seen) for seen in part.seen):
        raise MalformedMapMessage("metadata message: a clock is not a list of spans in order")
    _check_dots(part.covered_ranges, known)
    for item in part.items:
        _check_item(item, known)


def _check_item(item: Item, known: int) -> None:
    dots, values = item.dots, item.values
    if item.key_context is not None:
        _check_dots(item.key_context.seen, known)
    if not item.key or len(dots) % 2 or (values and 2 * len(values) != len(dots)):
        raise MalformedMapMessage(
            f"metadata message: key {item.key!r} has {len(dots)} numbers for {len(values)} values"
        )
    for position in range(0, len(dots), 2):
        if not (0 <= dots[position] < known and 0 < dots[position + 1] <= COUNTER):
            dot = f"dot {dots[position + 1]} of actor {dots[position]}"
            raise MalformedMapMessage(f"metadata message: key {item.key!r} has {dot}, with {known} actors")


def _check_dots(covered_ranges: list[tuple[int, int, int]], known: int) -> None:
    for actor, low, high in covered_ranges:
        if not (0 <= actor < known and 0 <= low <= high <= COUNTER):
            raise MalformedMapMessage(f"metadata message: claims dots {low} to {high} of actor {actor} of {known}")


class PartWriter:
    """Builds a part that says what `clock` has seen."""

    def __init__(self, half: int, clock: VersionVector) -> None:
        self._clock = clock
        self._names = clock.actors.names
        self._positions = {actor: position for position, actor in enumerate(clock.seen)}
        self.part = Part(
            half,
            [self._names[actor] for actor in clock.seen],
            [list(seen) for seen in clock.seen.values()],
            dict(clock.folded),
        )

    def position(self, actor: int) -> int:
        """Returns the position of an actor in the part; adds the actor if it is missing."""
        position = self._positions.get(actor)
        if position is None:
            position = self._positions[actor] = len(self.part.actors)
            self.part.actors.append(self._names[actor])
        return position

    def add(self, key: bytes, siblings: Siblings, context: VersionVector | None, values: bool = True) -> int:
        """Add a key that has seen `context` beside the clock. Returns its approximate size in bytes."""
        dots: list[int] = []
        contents: list[bytes | None] = []
        size = len(key) + 8
        for dot, value in pairs(siblings):
            dots += (self.position(dot >> SHIFT), dot & COUNTER)
            contents.append(value)
            size += len(value or b"") + 8
        key_context = None if context is None else self._beyond(context)
        self.part.items.append(Item(key, dots, contents if values else [], key_context))
        return size

    def _beyond(self, context: VersionVector) -> KeyContext | None:
        clock = self._clock
        seen = [(self.position(actor), low, high) for actor, low, high in clock.lacks(context)]
        folded = {node: boot for node, boot in context.folded.items() if clock.folded.get(node, 0) < boot}
        return KeyContext(seen, folded) if seen or folded else None


def clock_of(part: Part, actors: Actors) -> VersionVector:
    """Returns the sender's clock that a part carries."""
    clock = VersionVector(actors)
    clock.folded = part.folded
    for (node, boot), seen in zip(part.actors, part.seen, strict=False):
        clock.seen[actors.number(node, boot)] = seen
    return clock


def context_of(key_context: KeyContext, clock: VersionVector, numbers: list[int]) -> VersionVector:
    """The full context of an item whose part carries `clock`; `numbers` as in `siblings_of`."""
    context = clock.copy()
    for actor, low, high in key_context.seen:
        context.add(numbers[actor], low, high)
    for node, boot in key_context.folded.items():
        context.fold(node, boot)
    return context


def siblings_of(item: Item, numbers: list[int]) -> Siblings:
    """The siblings that an item carries; `numbers` are the part's actors as this process numbers them."""
    dots, values = item.dots, item.values
    if len(values) == 1:
        return (dot_of(numbers[dots[0]], dots[1]), values[0])
    entries = sorted((dot_of(numbers[dots[2 * n]], dots[2 * n + 1]), n) for n in range(len(dots) // 2))
    return tuple(piece for dot, n in entries for piece in (dot, values[n] if values else None))
