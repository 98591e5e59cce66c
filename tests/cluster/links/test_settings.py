"""Link settings are consistent."""

from __future__ import annotations

from strogoff.cluster.links.settings import LinkSettings


def test_a_stream_is_not_given_up_for_two_frames_that_are_late() -> None:
    settings = LinkSettings()
    assert settings.heartbeat_s <= settings.echo_s
    assert 3 * settings.echo_s < settings.silence_s < 4 * settings.echo_s
    assert settings.redial_first_s < settings.redial_last_s


def test_a_payload_fits_into_a_frame() -> None:
    settings = LinkSettings(max_frame_bytes=10_000)
    assert settings.max_payload_bytes == 10_000 - 1024
