"""The ports of a member: numbers of the protocol, and consistent times."""

from __future__ import annotations

from strogoff.cluster.ports import Datagram, Settings


def test_the_kinds_of_datagrams_are_on_the_wire_and_never_change() -> None:
    assert {kind.name: kind.value for kind in Datagram} == {
        "RAFT": 1,
        "LEASE_REQUEST": 2,
        "LEASE_REPLY": 3,
        "BOOT": 4,
        "BOOT_REFUSED": 5,
        "METADATA": 6,
        "GOODBYE": 7,
        "SET_SLOTS": 8,
        "SLOT_MOVE": 9,
        "SLOT_COPY": 10,
    }


def test_the_times_fit_together() -> None:
    settings = Settings()
    views, raft, links = settings.views, settings.raft, settings.links
    assert raft.heartbeat_ms * 3 < raft.election_ms[0] < raft.election_ms[1] < views.lease_ms
    assert links.heartbeat_s * 1000 <= views.heartbeat_ms
    assert links.silence_s * 1000 < views.detection_ms
    assert views.expiry_ms <= views.detection_ms
    # whichever node is lost, the view without it exists within 3 s; clients usually give up on CONNECT after 5 s
    assert raft.election_ms[1] + views.expiry_ms + views.heartbeat_ms < 3000
    assert views.detection_ms + views.heartbeat_ms < 3000
