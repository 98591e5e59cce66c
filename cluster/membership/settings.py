"""The times of views and leases, and how they depend on each other (docs/cluster.md#times)."""

from __future__ import annotations

from msgspec import Struct


class Settings(Struct, frozen=True):
    """All times in milliseconds, the same on all nodes of a cluster.

    `lease_ms`: how long a node may act on its view, from the moment it asked for the lease. `drift`: one clock runs at
    most this much faster than another (H-05), so a lease has certainly ended `expiry_ms` after the leader got the
    request.
    `detection_ms`: a node that was silent for this time is removed; not below `expiry_ms`. `heartbeat_ms`: the interval
    of lease requests and of frames on an idle link. `hearing_ms`: a peer that was silent for longer counts as not heard
    (four heartbeats). `proposal_ms`: a proposal without effect is repeated after this time. `away_ms`: a member without
    a row for this time is recorded as away. After `forget_after_ms` of cluster time it is stale: it has to return with
    an empty disk, so that the others need not keep tombstones for it (H-16).
    """

    lease_ms: float = 1700
    detection_ms: float = 2000
    heartbeat_ms: float = 250
    drift: float = 1.1
    proposal_ms: float = 1000
    away_ms: float = 60_000
    forget_after_ms: float = 7 * 86_400_000

    def __post_init__(self) -> None:
        if not 0 < self.heartbeat_ms * 4 <= self.lease_ms:
            raise ValueError(
                f"heartbeat_ms {self.heartbeat_ms:g}: four of them must fit in a lease of {self.lease_ms:g}"
            )
        if self.drift < 1:
            raise ValueError(f"drift {self.drift:g}: a ratio of clock rates, not below 1")
        if self.detection_ms < self.expiry_ms:
            raise ValueError(f"detection_ms {self.detection_ms:g}: below the {self.expiry_ms:g} that a lease may last")

    @property
    def expiry_ms(self) -> float:
        """A lease that was requested this long ago, by the leader's clock, has ended by the holder's clock."""
        return self.lease_ms * self.drift

    @property
    def hearing_ms(self) -> float:
        """A peer whose last frame is older counts as not heard."""
        return self.heartbeat_ms * 4

    @property
    def piggyback_ms(self) -> float:
        """Minimum age of the last request before the next one travels with the answer to the leader's heartbeat."""
        return self.heartbeat_ms * 0.4

    @property
    def parting_ms(self) -> float:
        """If wall clock and monotonic clock differ by more between two turns, the machine stood still (H-05)."""
        return self.lease_ms / 4
