"""The figures of docs/sizing.md come from real nodes."""

from __future__ import annotations

import pytest

from bench import footprint


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_each_figure_comes_from_a_node(capsys: pytest.CaptureFixture[str]) -> None:
    """A message takes more of the disk in ten queues than in one. With 200 things the test cannot judge memory."""
    assert footprint.main(["--count", "200", "--payload", "300"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.rsplit(None, 2)[0] for line in lines] == [name for name, _, _ in footprint.FIGURES]
    found = {line.rsplit(None, 2)[0]: int(line.split()[-2].replace(",", "")) for line in lines}
    assert 300 < found["message in one queue: disk"] < 600
    one, ten = found["message in one queue: disk"], found["message in ten queues: disk"]
    assert one < ten < 11 * one


def test_a_node_that_does_not_listen_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> float:
        raise ValueError("SUBACK with 128")

    monkeypatch.setattr(footprint, "figure", broken)
    assert footprint.main([]) == 1
    assert capsys.readouterr().err == "ValueError: SUBACK with 128\n"
