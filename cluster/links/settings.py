"""The numbers of the links."""

from __future__ import annotations

from msgspec import Struct

from ..transport.wire import MAX_FRAME


class LinkSettings(Struct, frozen=True):
    """Times in seconds, sizes in bytes."""

    heartbeat_s: float = 0.25
    """After so much silence the dialer sends an empty frame."""
    echo_s: float = 0.5
    """After so much silence the acceptor does, unless its own stream to the dialer has said that it hears this one: the
    dialer has to know that its stream carries something."""
    silence_s: float = 1.6
    """A stream of which the peer says nothing for so long is closed: three of the acceptor's frames and some. The
    acceptor waits twice as long."""
    redial_first_s: float = 0.1
    redial_last_s: float = 0.3
    """The pause before a dial doubles from the first to the last; up to half of it is taken off at random."""
    hold_first_s: float = 0.2
    hold_last_s: float = 2.0
    """A receiver that could not take an item asks for it again after the first; that doubles up to the last. The owner
    of the links may ask earlier, see `Links.try_again`."""
    max_frame_bytes: int = MAX_FRAME
    """incoming_clustering_buffer_size: a larger frame closes the stream. A datagram may have 1 KiB less than this."""
    piece_bytes: int = 256 << 10
    """Larger items travel in pieces of so many bytes, one for each lane in a frame."""
    max_item_bytes: int = 1 << 30
    """The largest item of a lane: four times the largest MQTT packet, for values of a retained topic that were written
    at the same time on several nodes travel together. A receiver holds at most one incomplete item for each lane."""
    gather_bytes: int = 32 << 10
    """Each lane puts about so much into one frame at most. The receiver handles a frame in one turn of its loop: 32 KiB
    of small messages keep it busy for some 3 ms."""
    flight_units: int = 3000
    """The next data frame waits while a near peer's loop has so much to handle: 170 items of 150 bytes, or four of 50
    KiB (`flight.py`)."""
    buffer_bytes: int = 64 << 20
    """outgoing_clustering_buffer_size: when what a node has not acknowledged takes more memory than this, its lane is
    slow. Nothing is dropped: who publishes for the node is not read. A node that is away counts, too."""
    map_bytes: int = 1 << 20
    """The same for METADATA, if that is less: publishes wait for what is there, so that must not be much. Who writes
    retained messages is not read meanwhile."""
    append_window_bytes: int = 8 << 20
    publish_window_bytes: int = 8 << 20
    """So much of a lane is on its way unacknowledged at most; the rest waits here. METADATA has no window."""
    ahead_bytes: int = 32 << 10
    """With so much of PUBLISH that no frame has taken yet the lane of an open link is full: what comes waits with the
    owner of the links, who decides whose turn it is (`LinkEvents.room`)."""
    behind_bytes: int = 1 << 20
    """When more than this waits there for a node, who has more than `ahead_bytes` of it is not read."""

    @property
    def max_payload_bytes(self) -> int:
        """The largest datagram."""
        return self.max_frame_bytes - FRAME_SLACK

    @property
    def whole_bytes(self) -> int:
        """An item up to this size goes in one piece."""
        return min(self.piece_bytes, self.max_payload_bytes // 2)


FRAME_SLACK = 1024
"""Bytes of a frame that are kept for everything that is not payload."""
