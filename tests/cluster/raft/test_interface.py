"""The settings are consistent, and refusals name the leader."""

from __future__ import annotations

from strogoff.cluster.raft.interface import NotLeader, Settings


def test_settings_fit_together() -> None:
    settings = Settings()
    low, high = settings.election_ms
    assert low < high
    assert settings.heartbeat_ms * 3 < low  # two lost heartbeats cause no election
    assert settings.snapshot_retry_ms > high
    assert settings.tail >= settings.caught_up


def test_not_leader_names_the_leader() -> None:
    assert NotLeader("b").leader == "b" and "b" in str(NotLeader("b"))
    assert NotLeader(None).leader is None and "not known" in str(NotLeader(None))
