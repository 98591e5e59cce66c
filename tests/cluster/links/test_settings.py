"""The numbers fit together."""

from __future__ import annotations

from strogoff.cluster.links.settings import LinkSettings


def test_four_heartbeats_fit_into_a_silence() -> None:
    settings = LinkSettings()
    assert 4 * settings.heartbeat_s < settings.silence_s < 6 * settings.heartbeat_s
    assert settings.redial_first_s < settings.redial_last_s


def test_a_payload_fits_into_a_frame() -> None:
    settings = LinkSettings(max_frame_bytes=10_000)
    assert settings.max_payload_bytes == 10_000 - 1024
