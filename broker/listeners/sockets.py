"""Makes listening sockets: binds them and sets their options, with one clear error line if that fails."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from typing import Any

from ...configs import ListenerSettings
from .unix_paths import unix_address

BACKLOG = 1024
"""Connections that the kernel keeps ready to be accepted, unless `tcp_listen_options` has a `backlog`."""


class ListenError(Exception):
    """A listener cannot be opened, or its name is unknown. The text is one line for the operator."""


def cannot_listen(settings: ListenerSettings, why: str) -> ListenError:
    """The error for this listener."""
    place = settings.address if settings.unix_path is None else settings.unix_path
    return ListenError(f"{settings.key}: cannot listen on {place}: {why}")


def bind(settings: ListenerSettings) -> socket.socket:
    """A bound socket with its options, not yet listening. Raises `ListenError`."""
    try:
        return _bind_tcp(settings) if settings.unix_path is None else _bind_unix(settings.unix_path)
    except OSError as error:
        raise cannot_listen(settings, os_reason(error)) from None
    except OverflowError as error:
        raise cannot_listen(settings, str(error)) from None


def os_reason(error: OSError) -> str:
    """The system's text for an error, to be put after a colon."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


def backlog(settings: ListenerSettings) -> int:
    """How many connections may wait to be accepted."""
    value = dict(settings.tcp_listen_options).get("backlog", BACKLOG)
    return value if type(value) is int and value > 0 else BACKLOG


def end_listening(listening: socket.socket) -> None:
    """Let a socket listen no more. If a forked process has it, too, `close` alone would leave its port busy."""
    with contextlib.suppress(OSError):  # the socket is closed already
        listening.shutdown(socket.SHUT_RDWR)


def _bind_tcp(settings: ListenerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _set_options(listening, settings)
        listening.setblocking(False)
        listening.bind((settings.host, settings.port))
    except BaseException:
        listening.close()
        raise
    return listening


def _set_options(listening: socket.socket, settings: ListenerSettings) -> None:
    """Set the options that accepted sockets inherit: `buffer_sizes`, and the supported ones of `tcp_listen_options`.

    `nodelay`, `keepalive`, `sndbuf` and `recbuf` count. `linger` and `send_timeout` do not: what was written is always
    flushed within a bound, and a client that does not read is stopped by its queue's limits.
    """
    options: dict[str, Any] = dict(settings.tcp_listen_options)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(options.get("nodelay") is not False))
    if options.get("keepalive") is True:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if settings.buffer_sizes is not None:
        options["sndbuf"], options["recbuf"] = settings.buffer_sizes[:2]
    for name, option in (("sndbuf", socket.SO_SNDBUF), ("recbuf", socket.SO_RCVBUF)):
        if type(options.get(name)) is int:
            listening.setsockopt(socket.SOL_SOCKET, option, options[name])


def _bind_unix(path: str) -> socket.socket:
    _remove_stale(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        with unix_address(path) as address:
            listening.bind(address)
    except BaseException:
        listening.close()
        raise
    return listening


def _remove_stale(path: str) -> None:
    """Remove the socket file of a killed process. A socket in use and any other kind of file stay."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise OSError(errno.EEXIST, "there is a file of that name that is not a socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        # do not block on a full backlog: connect then raises EAGAIN, which proves that a process listens
        probe.setblocking(False)
        try:
            with unix_address(path) as address:
                probe.connect(address)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except BlockingIOError:
            pass
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def remove_socket_file(path: str, inode: int) -> None:
    """Remove a unix socket's file when its listener stops, unless another process has replaced it."""
    try:
        if os.stat(path).st_ino == inode:
            os.unlink(path)
    except OSError:  # it is gone, or may not be removed: then the next start replaces it, or says why it cannot
        return
