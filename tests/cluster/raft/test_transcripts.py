"""The transcripts agree with the code. After an intended change the failure shows the new
transcript, to read and keep.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .script import replay

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    text = path.read_text()
    assert replay(text) == text


def test_every_transcript_has_a_test() -> None:
    assert len(TRANSCRIPTS) == 7
