"""The times of views and leases, and how they depend on each other (docs/cluster.md#times)."""

from __future__ import annotations

from msgspec import Struct


class Settings(Struct, frozen=True):
    """All times in milliseconds, the same on all nodes of a cluster.

    `lease_ms`: how long a node may act on its view, from the moment it asked. `drift`: clocks may run this much faster
    than each other (H-05), so a lease has certainly ended `expiry_ms` after the leader got the request.
    `detection_ms`: a node that was not heard from for so long is removed; not below `expiry_ms`. `heartbeat_ms`: the
    distance of lease requests and of frames on an idle link. `hearing_ms`: a peer that was silent for longer is not
    heard (four heartbeats). `proposal_ms`: a proposal without effect is made again after this time.
    `away_ms`: a member without a row for so long is noted as away, and after `forget_after_ms` of cluster time it is
    stale: it has to return with an empty disk, so that the others need not keep tombstones for it (H-16).
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
        """A lease that was asked for so long ago, on the leader's clock, has ended on the holder's."""
        return self.lease_ms * self.drift

    @property
    def hearing_ms(self) -> float:
        """A peer whose last frame is older is not heard."""
        return self.heartbeat_ms * 4

    @property
    def riding_ms(self) -> float:
        """A request goes with the answer to the leader's heartbeat if the last one is at least so old: most do."""
        return self.heartbeat_ms * 0.4

    @property
    def parting_ms(self) -> float:
        """If wall clock and monotonic clock part by more between two turns, the machine stood still (H-05)."""
        return self.lease_ms / 4
