"""The transcripts are still true. One that changed on purpose is in the failure, to be read and kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from .script import replay

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    text = path.read_text()
    assert replay(text) == text


def test_none_is_missing() -> None:
    assert len(TRANSCRIPTS) == 7
