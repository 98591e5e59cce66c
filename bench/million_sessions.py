"""The start of one node with a million durable sessions: times, memory and pauses.

    python -m bench.million_sessions [--sessions 1000000] [--crashed 0.0] [--directory DIR] [--absent-publish] [--json]

The data directory is made first (`bench.million_directory`), or taken from `--directory` if it is there. Every run
starts on a copy. Times count from the start of the process. Memory is compared with an empty node of the same run. The
longest response time of a client that connects every 2 ms is the longest pause of the event loop, or of the
machine.

`--absent-publish` also publishes to the topics of 1,000 clients that are not connected. Then each of them connects and
must get its message.

Exit status 1 if an answer is wrong. The times decide nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from types import TracebackType

from strogoff.mqtt import packets

from .broker_process import BrokerProcess, free_port
from .million_directory import client_id, command_topic, version
from .million_pings import EVERY_S, GIVE_UP_S, connect

ABSENT = 1000
WINDOW = 100
"""Messages to absent clients that wait for their PUBACK at the same time."""
AFTER_S = 5.0
"""Seconds for which the pings continue after the last step."""
POLL_S = 0.5
"""Seconds between two questions to the node whether it has loaded all sessions."""
STOP_S = 120.0


class WrongError(Exception):
    """The node gave a wrong answer. The text has the expected one."""


def check(right: bool, expected: str) -> None:
    """Raises `WrongError` with the expectation unless `right`."""
    if not right:
        raise WrongError(expected)


class TimedBroker:
    """`strogoff start` on a data directory, within a `with` statement. `began` is the time of its start."""

    def __init__(self, data: Path) -> None:
        self.port, self.http = free_port(), free_port()
        self._broker = BrokerProcess(data, self.port, listener__http__default=f"127.0.0.1:{self.http}")

    def __enter__(self) -> TimedBroker:
        with self._broker.log.open("ab") as log:
            self.began = time.monotonic()
            self._process = subprocess.Popen(self._broker.command(), stdout=log, stderr=log)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def age_s(self) -> float:
        """Seconds since the start of the process."""
        return time.monotonic() - self.began

    def listens(self) -> None:
        """Wait until a TCP connection to the node works. Raises `WrongError` if the node ends or never listens."""
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                check(self._process.poll() is None and self.age_s < GIVE_UP_S, "the node listens")
                time.sleep(EVERY_S)
            else:
                return

    def metric(self, name: str) -> int:
        """Returns the value of a metric without labels of its own. -1 means that the node does not give it yet."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/metrics", timeout=GIVE_UP_S) as page:
                lines = page.read().decode().splitlines()
        except OSError:
            return -1
        return next((int(float(line.split()[-1])) for line in lines if line.startswith((f"{name}{{", f"{name} "))), -1)

    def loaded(self, sessions: int) -> None:
        """Wait until the node has loaded this many sessions. Raises `WrongError` if it does not."""
        while self.metric("vernemq_queue_processes") < sessions:
            check(self._process.poll() is None and self.age_s < GIVE_UP_S, f"the node loads {sessions} sessions")
            time.sleep(POLL_S)

    def memory(self) -> dict[str, int]:
        """Returns the resident set (rss) and the proportional set (pss) of the process, in KiB."""
        lines = Path(f"/proc/{self._process.pid}/smaps_rollup").read_text().splitlines()[1:]
        found = {line.split(":")[0].lower(): int(line.split()[1]) for line in lines}
        return {name: found[name] for name in ("rss", "pss")}

    def cpu_s(self) -> float:
        """Returns the processor time of all threads so far, in seconds."""
        tasks = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def stop(self) -> float:
        """Send SIGTERM. Returns the seconds until the process ended. Raises `WrongError` if its log has errors."""
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        status = self._process.wait(STOP_S)
        check(status == 0 and not self._broker.tracebacks(), f"status 0 and no errors: {self._broker.tracebacks()}")
        return time.monotonic() - began


class Pings:
    """The process `bench.million_pings`, within a `with` statement."""

    def __init__(self, port: int) -> None:
        self._port = port

    def __enter__(self) -> Pings:
        command = [sys.executable, "-m", "bench.million_pings", str(self._port)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def longest_ms(self) -> float:
        """Returns the longest time to a CONNACK since the last call. Raises `WrongError` if there was none."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        count, _, _, longest = map(float, self._process.stdout.readline().split() or ["0"] * 4)
        check(count > 0, "CONNACK")
        return longest


def made(arguments: argparse.Namespace, folder: Path) -> Path:
    """Returns a data directory for this run: a copy of the one that exists or is made now.

    Raises `WrongError` if the existing one was made with other arguments.
    """
    source: Path = arguments.directory or folder / "made"
    note = source.parent / f"{source.name}.json"
    wanted = {"sessions": arguments.sessions, "crashed": arguments.crashed}
    if not source.exists():
        command = [sys.executable, "-m", "bench.million_directory", str(source)]
        command += ["--sessions", str(arguments.sessions), "--crashed", str(arguments.crashed)]
        status = subprocess.run(command, check=False).returncode
        check(status == (-signal.SIGKILL if arguments.crashed else 0), "the directory is made")
        note.write_text(json.dumps(wanted))
    check(note.exists() and json.loads(note.read_text()) == wanted, f"{note} with {wanted}")
    return Path(shutil.copytree(source, folder / "data"))


def empty_memory(folder: Path) -> dict[str, int]:
    """Returns the memory of a node without sessions, in KiB."""
    with TimedBroker(folder / "empty") as broker:
        broker.listens()
        broker.loaded(0)
        time.sleep(AFTER_S)
        memory = broker.memory()
        broker.stop()
    return memory


def start(broker: TimedBroker, number: int, figures: dict[str, float]) -> None:
    """Measure the start: one device connects and gets a message. Raises `WrongError`."""
    broker.listens()
    figures["listens_s"] = broker.age_s
    device = connect(broker.port, client_id(number), False, version(number))
    figures["connack_s"] = broker.age_s
    check(device.present, f"{client_id(number)} has a session")
    publisher = connect(broker.port, "publisher")
    publisher.publish(command_topic(number), b"first")
    publisher.receive(packets.Puback)
    figures["puback_s"] = broker.age_s
    message = device.receive(packets.Publish)
    figures["delivered_s"] = broker.age_s
    check((message.topic, message.payload) == (command_topic(number), b"first"), "the message to the device")
    device.answer(message)
    publisher.publish(f"fleet/{number // 100}/all", b"fleet")
    publisher.receive(packets.Puback)
    message = device.receive(packets.Publish)
    check(message.payload == b"fleet", "the message to the fleet")
    device.answer(message)
    device.close()
    publisher.close()


def absent_publish(broker: TimedBroker, numbers: list[int], figures: dict[str, float]) -> None:
    """Publish to absent devices, then connect each of them. Raises `WrongError` if one lacks its message."""
    publisher = connect(broker.port, "publisher")
    before = broker.cpu_s()
    for first in range(0, len(numbers), WINDOW):
        part = numbers[first : first + WINDOW]
        for number in part:
            publisher.publish(command_topic(number), b"%d" % number)
        for _ in part:
            publisher.receive(packets.Puback)
    published = broker.cpu_s()
    publisher.close()
    for number in numbers:
        device = connect(broker.port, client_id(number), False, version(number))
        check(device.present, f"{client_id(number)} has a session")
        while (message := device.receive(packets.Publish)).topic != command_topic(number):
            device.answer(message)
        check(message.payload == b"%d" % number, f"the message to {client_id(number)}")
        device.answer(message)
        device.send(packets.Disconnect())
        device.close()
    figures["absent_publish_us"] = (published - before) / len(numbers) * 1e6
    figures["absent_fetch_us"] = (broker.cpu_s() - published) / len(numbers) * 1e6


def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Run all measurements. Returns the figures by name. Raises `WrongError` for a wrong answer."""
    figures: dict[str, float] = {}
    rng = random.Random(arguments.seed)
    data = made(arguments, folder)
    empty = empty_memory(folder)

    def record_memory(when: str, memory: dict[str, int]) -> None:
        for kind, size in memory.items():
            figures[f"{kind}_{when}_mb"] = size / 1024
            figures[f"{kind}_{when}_bytes_per_session"] = (size - empty[kind]) * 1024 / arguments.sessions

    figures |= {f"{kind}_empty_mb": size / 1024 for kind, size in empty.items()}
    number, *absent = rng.sample(range(arguments.sessions), min(ABSENT + 1, arguments.sessions))
    with TimedBroker(data) as broker:
        with Pings(broker.port) as pings:
            start(broker, number, figures)
            broker.loaded(arguments.sessions)
            figures["loaded_s"] = broker.age_s
            figures["loaded_cpu_s"] = broker.cpu_s()
            figures["longest_turn_start_ms"] = pings.longest_ms()
            time.sleep(AFTER_S)
            figures["longest_turn_rest_ms"] = pings.longest_ms()
            record_memory("loaded", broker.memory())
            if arguments.absent_publish:
                absent_publish(broker, absent, figures)
                record_memory("after_absent", broker.memory())
                time.sleep(AFTER_S)
                figures["longest_turn_absent_ms"] = pings.longest_ms()
                time.sleep(arguments.rest)
                record_memory("after_rest", broker.memory())
        figures["stop_s"] = broker.stop()
    return figures


UNITS = {"_s": "s", "_ms": "ms", "_us": "us", "_mb": "MiB", "_session": "bytes"}
"""End of a figure's name -> its unit."""


def table(figures: dict[str, float]) -> str:
    """Returns a table in Markdown with a line for each figure."""
    lines = ["| figure | value |", "|---|---:|"]
    for name, value in figures.items():
        unit = next(unit for end, unit in UNITS.items() if name.endswith(end))
        shown = f"{value:.2f}" if unit == "s" else f"{value:.0f}"
        lines.append(f"| {name} | {shown} {unit} |")
    return "\n".join(lines)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="The start of a node with a million durable sessions")
    parser.add_argument("--sessions", type=int, default=1_000_000)
    parser.add_argument("--crashed", type=float, default=0.0, help="share of the clients connected at a kill -9")
    parser.add_argument("--directory", type=Path, help="the made data directory, to use it again")
    parser.add_argument("--absent-publish", action="store_true", help="also publish to 1,000 absent clients")
    parser.add_argument("--rest", type=float, default=30.0, help="seconds until the last measurement of memory")
    parser.add_argument("--seed", type=int, default=1, help="chooses the devices")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="strogoff-million-") as folder:
        try:
            figures = measure(arguments, Path(folder))
        except (WrongError, OSError, subprocess.TimeoutExpired) as error:
            print(f"wrong: expected {error}" if isinstance(error, WrongError) else f"wrong: {error!r}", file=sys.stderr)
            return 1
    print(json.dumps(figures, indent=2) if arguments.json else table(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
