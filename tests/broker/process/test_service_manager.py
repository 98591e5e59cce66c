"""sd_notify, with a socket of the test in place of systemd's. tests/system/test_service.py does it with processes."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from strogoff.broker.process.service_manager import EXTEND_S, RETRY_S, STATUS_LIMIT, STATUS_S, ServiceManager


class Timer:
    def __init__(self, due_s: float, act: Callable[[], None]) -> None:
        self.due_s = due_s
        self.act = act
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Clock:
    """Time and the log of a node."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.timers: list[Timer] = []
        self.log: list[str] = []

    def later(self, delay_s: float, act: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.now_s + delay_s, act))
        return self.timers[-1]

    def write(self, level: str, line: str) -> None:
        self.log.append(f"{level}: {line}")

    def pending(self) -> list[Timer]:
        return sorted([each for each in self.timers if not each.cancelled], key=lambda each: each.due_s)

    def pass_s(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while (due := self.pending()) and due[0].due_s <= end_s:
            self.timers.remove(due[0])
            self.now_s = due[0].due_s
            due[0].act()
        self.now_s = end_s


class Systemd:
    """The socket of a service manager. The address is a path, or a name behind `@`."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.bind(f"\0{address[1:]}" if address.startswith("@") else address)

    def heard(self) -> list[str]:
        found = []
        while True:
            try:
                found.append(self.socket.recv(8192).decode())
            except BlockingIOError:
                return found


@pytest.fixture(params=["path", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Systemd]:
    made = Systemd(str(tmp_path / "notify") if request.param == "path" else f"@strogoff-test-{os.getpid()}")
    yield made
    made.socket.close()


def manager(clock: Clock, **environ: str) -> ServiceManager:
    return ServiceManager(environ, clock.later, clock.write)


def test_the_life_of_a_node(systemd: Systemd) -> None:
    clock, said = Clock(), ["n1 joins."]
    node = manager(clock, NOTIFY_SOCKET=systemd.address)
    node.starting()
    assert systemd.heard() == ["STATUS=The node is starting.", "EXTEND_TIMEOUT_USEC=30000000"]
    clock.pass_s(2 * EXTEND_S)
    assert systemd.heard() == ["EXTEND_TIMEOUT_USEC=30000000"] * 4
    node.ready(lambda: said[0])
    clock.pass_s(2 * EXTEND_S)
    assert systemd.heard() == ["READY=1\nSTATUS=n1 joins."]
    said[0] = "n1 serves."
    clock.pass_s(2 * STATUS_S)
    assert systemd.heard() == ["STATUS=n1 serves."]
    node.stopping(48)
    said[0] = "n1 is gone."
    clock.pass_s(10 * STATUS_S)
    assert systemd.heard() == ["STOPPING=1\nSTATUS=The node is stopping.\nEXTEND_TIMEOUT_USEC=48000000"]
    node.close("The node has stopped.")
    assert systemd.heard() == ["STATUS=The node has stopped."]
    assert clock.pending() == [] and clock.log == []


def test_a_start_that_is_repeated_says_so_and_asks_the_former_node_nothing(systemd: Systemd) -> None:
    clock, asked = Clock(), [""]

    def former() -> str:
        asked.append("former")
        return "one"

    node = manager(clock, NOTIFY_SOCKET=systemd.address)
    node.ready(former)
    node.starting()
    del asked[:]
    clock.pass_s(5 * STATUS_S)
    node.ready(lambda: "two")
    assert asked == []
    assert systemd.heard()[-1] == "READY=1\nSTATUS=two"


def test_the_watchdog_is_fed_twice_in_its_time(systemd: Systemd) -> None:
    clock = Clock()
    environ = {"NOTIFY_SOCKET": systemd.address, "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}
    node = ServiceManager(environ, clock.later, clock.write)
    assert systemd.heard() == ["WATCHDOG=1"]
    clock.pass_s(1.4)
    assert systemd.heard() == []
    clock.pass_s(4.6)
    assert systemd.heard() == ["WATCHDOG=1"] * 4
    node.close("")
    systemd.heard()
    clock.pass_s(60)
    assert systemd.heard() == []
    assert environ == {}, "a program that the node starts must not speak for it"


@pytest.mark.parametrize(
    ("more", "warnings"),
    [
        ({}, 0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, 0),
        ({"WATCHDOG_USEC": "soon"}, 1),
        ({"WATCHDOG_USEC": "0"}, 1),
        ({"WATCHDOG_USEC": "-3"}, 1),
    ],
)
def test_no_watchdog_unless_this_process_is_asked_for_it(systemd: Systemd, more: dict[str, str], warnings: int) -> None:
    clock = Clock()
    node = manager(clock, NOTIFY_SOCKET=systemd.address, **more)
    clock.pass_s(60)
    assert systemd.heard() == [] and len(clock.log) == warnings
    node.ready(lambda: "fine")
    assert systemd.heard() == ["READY=1\nSTATUS=fine"]


def test_nothing_happens_without_a_service_manager() -> None:
    clock = Clock()
    node = manager(clock, WATCHDOG_USEC="3000000")
    node.starting()
    node.ready(lambda: "fine")
    node.stopping(1)
    node.close("")
    assert clock.timers == [] and clock.log == []


@pytest.mark.parametrize("place", ["nowhere", "vsock:2:1234", "/no/such/socket", "/" + 200 * "long", "/dev/null", "@"])
def test_a_wrong_socket_gives_one_warning(place: str) -> None:
    clock = Clock()
    node = manager(clock, NOTIFY_SOCKET=place, WATCHDOG_USEC="1000000")
    node.starting()
    node.ready(lambda: "fine")
    clock.pass_s(60)
    node.stopping(1)
    node.close("")
    (line,) = clock.log
    assert line.startswith(f"warning: NOTIFY_SOCKET={place}: ") and "is not told" in line


def test_a_service_manager_that_is_busy_gets_everything_later(tmp_path: Path) -> None:
    """Its socket takes no more. Nothing waits for it, and READY is not lost."""
    systemd, clock = Systemd(str(tmp_path / "notify")), Clock()
    with systemd.socket, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as other:
        node = manager(clock, NOTIFY_SOCKET=systemd.address)
        with suppress(BlockingIOError):
            while True:
                other.sendto(b"", systemd.address)
        node.ready(lambda: "one")
        node.stopping(1)
        clock.pass_s(10 * RETRY_S)
        assert set(systemd.heard()) == {""}
        clock.pass_s(2 * RETRY_S)
        said = systemd.heard()
        assert said == ["READY=1\nSTATUS=The node is stopping.\nSTOPPING=1\nEXTEND_TIMEOUT_USEC=1000000"]
        assert clock.pending() == [] and clock.log == []


def test_a_sentence_is_one_line_of_bounded_length(systemd: Systemd) -> None:
    node = manager(Clock(), NOTIFY_SOCKET=systemd.address)
    node.ready(lambda: "a\nWATCHDOG=trigger\udcff" + "\u20ac" * 5000)
    (said,) = systemd.heard()
    assert said.count("\n") == 1 and said.startswith("READY=1\nSTATUS=a\\nWATCHDOG=trigger\\udcff\u20ac")
    assert len(said.encode()) <= STATUS_LIMIT + len("READY=1\nSTATUS=") and said.endswith("\u20ac...")
