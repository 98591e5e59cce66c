"""The numbers of the links."""

from __future__ import annotations

from msgspec import Struct

from ..transport.wire import MAX_FRAME


class LinkSettings(Struct, frozen=True):
    """Times in seconds, sizes in bytes."""

    heartbeat_s: float = 0.25
    """After so much silence an empty frame is sent."""
    silence_s: float = 1.1
    """A stream that says nothing for so long is closed: four heartbeats and some. The acceptor waits twice as long."""
    redial_first_s: float = 0.1
    redial_last_s: float = 0.3
    """The pause before a dial doubles from the first to the last; up to half of it is taken off at random."""
    refused_s: float = 0.4
    """After a stream was closed because an item was not taken, the lane of publishes is silent for so long on the next:
    leases, views and metadata have to get through, for they are what the peer waits for."""
    max_frame_bytes: int = MAX_FRAME
    """incoming_clustering_buffer_size: a larger frame closes the stream. A payload may have 1 KiB less than this."""
    gather_bytes: int = 256 << 10
    """Each lane puts about so much into one frame at most, so that heartbeats and votes never wait for long."""
    buffer_bytes: int = 64 << 20
    """outgoing_clustering_buffer_size: with more waiting than this a lane is congested. Nothing is dropped."""
    append_window_bytes: int = 8 << 20
    publish_window_bytes: int = 8 << 20
    """So much of a lane is on its way unacknowledged at most; the rest waits here. METADATA has no window."""

    @property
    def max_payload_bytes(self) -> int:
        """The largest payload of a lane or datagram."""
        return self.max_frame_bytes - FRAME_SLACK


FRAME_SLACK = 1024
"""Bytes of a frame that are kept for everything that is not payload."""
