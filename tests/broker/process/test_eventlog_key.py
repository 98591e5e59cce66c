"""The file with the key of redaction."""

from __future__ import annotations

from pathlib import Path

import pytest

from strogoff.broker.process.eventlog_key import LEAST, RedactionKeyError, read_key


def test_the_first_start_makes_a_key_that_later_ones_read(tmp_path: Path) -> None:
    """Nobody else may read it. Two files have two keys."""
    path = tmp_path / "key"
    key = read_key(path)
    assert len(key) >= 2 * LEAST and read_key(path) == key != read_key(tmp_path / "other")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_key_of_an_operator_is_read_without_white_space(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(f" {'k' * LEAST}\n")
    assert read_key(path) == b"k" * LEAST


def test_a_short_or_unreadable_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("k" * (LEAST - 1) + "\n")
    with pytest.raises(RedactionKeyError, match=r"has 15 bytes; a key has at least 16"):
        read_key(path)
    with pytest.raises(RedactionKeyError, match=r"eventlog\.redact_key: .*No such file"):
        read_key(tmp_path / "missing" / "key")
    with pytest.raises(RedactionKeyError, match="directory"):
        read_key(tmp_path)
