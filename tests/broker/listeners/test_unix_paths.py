"""Unix sockets whose path does not fit into an address."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from strogoff.broker.listeners.unix_paths import LONGEST_UNIX_PATH, unix_address


def deep(tmp_path: Path, length: int) -> Path:
    """Returns a path of this number of bytes in an existing directory."""
    folder = tmp_path
    while len(os.fsencode(folder)) < length - 60:
        folder = folder / ("d" * 40)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / ("s" * (length - len(os.fsencode(folder)) - 1))


@pytest.mark.parametrize("length", [LONGEST_UNIX_PATH, LONGEST_UNIX_PATH + 1, 400])
def test_a_socket_is_at_the_configured_path(tmp_path: Path, length: int) -> None:
    path = deep(tmp_path, length)
    assert len(os.fsencode(path)) == length
    before = len(os.listdir("/proc/self/fd"))
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as client:
        with unix_address(str(path)) as address:
            listening.bind(address)
        listening.listen()
        assert path.is_socket()
        with unix_address(str(path)) as address:
            client.connect(address)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_name_that_is_too_long(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match="too long, a unix socket takes 107 bytes"),
        unix_address(str(tmp_path / ("x" * 200))),
    ):
        pass


def test_a_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), unix_address(str(tmp_path / ("x" * 120) / "s")):
        pass
