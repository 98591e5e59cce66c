"""The lines of a cluster: who gets through to whom."""

from __future__ import annotations

from strogoff.testing.line import Lines

from .runner import run


def test_cuts() -> None:
    """One way or both; a node that stands still answers nobody, and dials itself if it could."""

    async def test() -> None:
        lines = Lines(pace=10)
        assert (lines.notice_s, lines.dial_s) == (0.2, 0.2)
        lines.cut(0, 1)
        lines.cut(0, 1)
        assert lines.is_cut(0, 1) and not lines.is_cut(1, 0) and not lines.is_cut(0, None)
        assert lines.severed(1, 0) and not lines.answers(1, 0)
        lines.paused[2] = None
        assert lines.reached(0, range(4)) == [3] and lines.reached(1, range(4)) == [3]
        assert lines.answers(0, None)
        assert lines.mend() == [(0, 1)] and lines.mend() == []
        assert lines.reached(0, range(4)) == [1, 3]

    run(test())
