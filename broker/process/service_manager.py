"""Tells the service manager, such as systemd, how this process is: sd_notify(3) without its library.

A service manager that wants to know gives the process the address of a datagram socket in `NOTIFY_SOCKET`. The process
sends it lines `NAME=value`:

    EXTEND_TIMEOUT_USEC=...   the start or the stop goes on: wait for so long
    READY=1                   the listeners are open
    STATUS=...                a sentence for `systemctl status`
    WATCHDOG=1                the event loop runs. If none comes for WATCHDOG_USEC, systemd restarts the service
    STOPPING=1                the stop has begun

Without `NOTIFY_SOCKET` nothing is sent. The node runs on if the socket is wrong: the log has one warning.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, MutableMapping

from ...cluster.links.ports import Timer
from ..reporting.log_line import escape

STATUS_S = 1.0
"""How often the node looks whether its sentence has changed."""
STATUS_LIMIT = 1000
"""Bytes of a sentence: systemd ignores datagrams of more than 4,096 bytes."""
RETRY_S = 0.2
"""How long a datagram waits that the socket has not taken."""
EXTEND_S = 30.0
"""A start that goes on says so in half of this time. systemd ends it if it hears nothing for this time, unless the
time that the unit allows is longer."""

_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")

Later = Callable[[float, Callable[[], None]], Timer]


class ServiceManager:
    """The connection of one process with its service manager. Call `starting`, `ready`, `stopping` and `close`.

    Takes the variables out of `environ`, so that programs that a plugin starts do not speak for the node. `later` calls
    a function after some seconds in the event loop.
    """

    def __init__(self, environ: MutableMapping[str, str], later: Later, log: Callable[[str, str], None]) -> None:
        place, interval, pid = [environ.pop(name, "") for name in _VARIABLES]
        self._later = later
        self._log = log
        self._place = place
        self._socket: socket.socket | None = None
        self._unsent: dict[str, str] = {}
        self._timers: dict[str, Timer] = {}
        self._warned = False
        if place.startswith(("/", "@")):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)
            self._watch(interval, pid)
        elif place:
            self._warn("the path of a unix socket or @name is expected")

    def starting(self) -> None:
        """The node starts, or starts again. While the event loop runs, the service manager gives it more time."""
        self._end("status")
        self._tell(STATUS="The node is starting.")
        self._extend()

    def _extend(self) -> None:
        self._tell(EXTEND_TIMEOUT_USEC=_usec(EXTEND_S))
        self._again("start", EXTEND_S / 2, self._extend)

    def ready(self, describe: Callable[[], str]) -> None:
        """The listeners are open. `describe` returns the sentence for the status; each change of it is sent."""
        self._end("start")
        said = describe()
        self._tell(READY="1", STATUS=said)
        self._follow(describe, said)

    def _follow(self, describe: Callable[[], str], said: str) -> None:
        def look() -> None:
            now = describe()
            if now != said:
                self._tell(STATUS=now)
            self._follow(describe, now)

        self._again("status", STATUS_S, look)

    def stopping(self, within_s: float) -> None:
        """The node stops, and needs at most `within_s` seconds for it."""
        self._end("start")
        self._end("status")
        self._tell(STOPPING="1", STATUS="The node is stopping.", EXTEND_TIMEOUT_USEC=_usec(within_s))

    def close(self, said: str) -> None:
        """Say this last sentence, and no more."""
        self._tell(STATUS=said)
        for name in list(self._timers):
            self._end(name)
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    # -- the watchdog

    def _watch(self, interval: str, pid: str) -> None:
        """Begin to send WATCHDOG=1, if the service manager asks this process for it."""
        if not interval or (pid and pid != str(os.getpid())):
            return
        if not (interval.isascii() and interval.isdigit() and int(interval) > 0):
            self._log("warning", f"WATCHDOG_USEC={escape(interval)}: microseconds are expected; no watchdog is told")
            return
        self._feed(int(interval) / 2e6)

    def _feed(self, every_s: float) -> None:
        self._tell(WATCHDOG="1")
        self._again("watchdog", every_s, lambda: self._feed(every_s))

    # -- timers and the socket

    def _again(self, name: str, after_s: float, act: Callable[[], None]) -> None:
        if self._socket is not None:
            self._timers[name] = self._later(after_s, act)

    def _end(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _tell(self, **lines: str) -> None:
        """Send these lines, and those that the socket has not taken before."""
        if self._socket is None:
            return
        if "STATUS" in lines:
            lines["STATUS"] = _clipped(escape(lines["STATUS"]))
        self._unsent.update(lines)
        self._send()

    def _send(self) -> None:
        """Send what is unsent. If the socket does not take it, try again: systemd may be busy."""
        assert self._socket is not None
        self._end("retry")
        text = "\n".join([f"{name}={value}" for name, value in self._unsent.items()])
        address = f"\0{self._place[1:]}" if self._place.startswith("@") else self._place
        try:
            self._socket.sendto(text.encode(errors="replace"), os.fsencode(address))
        except OSError as error:
            if not isinstance(error, BlockingIOError):
                self._warn(error.strerror or str(error))
            self._again("retry", RETRY_S, self._send)
        else:
            self._unsent.clear()

    def _warn(self, problem: str) -> None:
        if not self._warned:
            self._warned = True
            said = f"NOTIFY_SOCKET={escape(self._place)}: {problem}. The service manager is not told how this node is"
            self._log("warning", said)


def _usec(seconds: float) -> str:
    return str(int(seconds * 1e6))


def _clipped(text: str) -> str:
    data = text.encode(errors="replace")
    return text if len(data) <= STATUS_LIMIT else data[: STATUS_LIMIT - 3].decode(errors="ignore") + "..."
