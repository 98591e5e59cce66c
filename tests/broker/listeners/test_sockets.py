"""Listening sockets, and the one-line error if one cannot listen."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from strogoff.broker.listeners.sockets import BACKLOG, ListenError, backlog, bind, remove_socket_file

from ...harness.listeners import tcp


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def refusal(settings: Any) -> str:
    with pytest.raises(ListenError) as error:
        bind(settings)
    return str(error.value)


def test_a_port_in_use(taken: int) -> None:
    assert refusal(tcp(port=taken)) == (
        f"listener.tcp.default: cannot listen on 127.0.0.1:{taken}: address already in use"
    )


def test_an_address_of_another_machine() -> None:
    assert refusal(tcp(host="192.0.2.1", port=1883)) == (
        "listener.tcp.default: cannot listen on 192.0.2.1:1883: cannot assign requested address"
    )


def unix(path: Path) -> Any:
    return tcp(host="", port=0, unix_path=str(path))


def test_a_socket_file_in_use_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with closing(bind(unix(path))) as running:
        running.listen(0)
        assert refusal(unix(path)) == f"listener.tcp.default: cannot listen on {path}: address already in use"
        # a full backlog is also a listening process
        with socket.socket(socket.AF_UNIX) as waiting:
            waiting.setblocking(False)
            with pytest.raises(BlockingIOError):
                waiting.connect(str(path))
            assert refusal(unix(path)).endswith("address already in use")
    assert path.exists()
    bind(unix(path)).close()


def test_no_file_is_removed_for_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("data")
    assert refusal(unix(path)).endswith("there is a file of that name that is not a socket")
    assert path.read_text() == "data"
    assert refusal(unix(tmp_path / "no" / "s")).endswith("no such file or directory")
    assert "the path is too long" in refusal(unix(tmp_path / ("x" * 200)))


def test_another_listeners_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "s"
    bind(unix(path)).close()
    inode = path.stat().st_ino
    remove_socket_file(str(path), inode + 1)
    assert path.exists()
    remove_socket_file(str(path), inode)
    assert not path.exists()
    remove_socket_file(str(path), inode)


def test_a_file_that_cannot_be_removed_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder belongs to another user meanwhile, or is read-only. The node stops in order, the next one says why."""

    def refused(path: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    path = tmp_path / "s"
    bind(unix(path)).close()
    monkeypatch.setattr(os, "unlink", refused)
    remove_socket_file(str(path), path.stat().st_ino)
    assert path.exists()
    assert refusal(unix(path)).endswith("permission denied")


def test_the_backlog_can_be_set() -> None:
    assert backlog(tcp()) == BACKLOG
    assert backlog(tcp(tcp_listen_options=(("backlog", 7),))) == 7
    assert backlog(tcp(tcp_listen_options=(("backlog", "many"),))) == BACKLOG


def test_delay_is_possible_if_wanted() -> None:
    for options, nodelay in (((), 1), ((("nodelay", True),), 1), ((("nodelay", False),), 0)):
        with closing(bind(tcp(tcp_listen_options=options))) as listening:
            assert bool(listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)) == bool(nodelay)
