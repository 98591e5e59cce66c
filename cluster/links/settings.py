"""Times and sizes of the links."""

from __future__ import annotations

from msgspec import Struct

from ..transport.wire import MAX_FRAME


class LinkSettings(Struct, frozen=True):
    """Times in seconds, sizes in bytes."""

    heartbeat_s: float = 0.25
    """After this time without a frame the dialer sends an empty one."""
    echo_s: float = 0.5
    """After this time without a frame the acceptor sends an empty one, so that the dialer knows that its stream works.
    It sends none while its own stream to the dialer reports that it hears the dialer's stream."""
    silence_s: float = 1.6
    """The dialer closes a stream that is silent for this time: a little more than three of the acceptor's frames. The
    acceptor waits twice as long."""
    redial_first_s: float = 0.1
    redial_last_s: float = 0.3
    """The pause before a dial doubles from the first to the last; a random part, up to half, is subtracted."""
    hold_first_s: float = 0.2
    hold_last_s: float = 2.0
    """A receiver that could not take an item asks for it again after the first pause, which doubles up to the last. The
    owner of the links may ask earlier (`Links.try_again`)."""
    max_frame_bytes: int = MAX_FRAME
    """incoming_clustering_buffer_size: a larger frame closes the stream. A datagram may have 1 KiB less than this."""
    piece_bytes: int = 256 << 10
    """Larger items are sent in pieces of this size. A frame has at most one piece of each lane."""
    max_item_bytes: int = 1 << 30
    """The largest item of a lane: four times the largest MQTT packet, because values of a retained topic that several
    nodes wrote at the same time are sent together. A receiver holds at most one incomplete item for each lane."""
    gather_bytes: int = 32 << 10
    """About the most that each lane puts into one frame. The receiver handles a frame in one turn of its loop: 32 KiB
    of small messages keep it busy for some 3 ms."""
    flight_units: int = 3000
    """The next data frame waits while this many units are in flight to a near peer: 170 items of 150 bytes, or four of
    50 KiB (`flight.py`)."""
    report_s: float = 0.002
    """The receiver says at the latest after this time that it has handled a data frame. It says so at once if it has an
    acknowledgement to send anyway, or if a quarter of `flight_units` is unsaid."""
    buffer_bytes: int = 64 << 20
    """outgoing_clustering_buffer_size: when the unacknowledged items of a node take more memory than this, its lane is
    slow (`Links.slow`). No item is dropped; the broker stops reading the clients that publish to the node. The limit
    also holds for a node that is away."""
    map_bytes: int = 1 << 20
    """The limit of METADATA, if it is less than `buffer_bytes`. Publishes wait for the items of that lane, so they must
    be few. While the lane is slow, the broker does not read clients that write retained messages."""
    replica_window_bytes: int = 8 << 20
    append_window_bytes: int = 8 << 20
    publish_window_bytes: int = 8 << 20
    """The limit of unacknowledged bytes of a lane in flight; further items wait in the lane. METADATA has no window."""
    ahead_bytes: int = 32 << 10
    """With this many bytes of PUBLISH that are in no frame yet, the lane of an open link is full. The owner of the
    links keeps further items and decides their order (`LinkEvents.room`)."""
    tunnel_bytes: int = 256 << 10
    """With this many bytes that are in no frame yet, a tunnel is full: its owner keeps further bytes of clients."""
    behind_bytes: int = 1 << 20
    """If the owner keeps more than this for a node, the broker stops reading each client to which more than
    `ahead_bytes` of it belong."""

    @property
    def tunnel_most_bytes(self) -> int:
        """A tunnel breaks if more than this waits: `buffer_bytes`, and at least four times `tunnel_bytes`. With less, a
        message that a client has to get could break the tunnel again and again."""
        return max(self.buffer_bytes, 4 * self.tunnel_bytes)

    @property
    def max_payload_bytes(self) -> int:
        """The largest datagram."""
        return self.max_frame_bytes - FRAME_SLACK

    @property
    def whole_bytes(self) -> int:
        """An item up to this size goes in one piece."""
        return min(self.piece_bytes, self.max_payload_bytes // 2)


FRAME_SLACK = 1024
"""Bytes of a frame that are reserved for headers."""
