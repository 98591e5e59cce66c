"""Measure what one node needs for each connection, subscription, retained message and queued message.

    python -m bench.footprint [--count 2000] [--payload 100]

For each figure a node is started and filled. The figure is the growth of its resident memory, or of its message store
on disk, divided by the count. `docs/sizing.md` has the figures of one run; those of memory vary by some percent.

Exit status 1 if a node does not do what it must.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from strogoff.mqtt import packets

from .million_pings import connect
from .million_sessions import TimedBroker, WrongError, check
from .probe import PlainClient

CALM_S = 1.0
"""The memory is taken when it has changed by `CALM_KIB` at most for so long."""
CALM_KIB = 64
WITHIN_S = 60.0
WINDOW = 15
"""Messages that wait for their PUBACK at the same time."""

Step = Callable[[int, int, bytes], list[PlainClient]]
"""Fills the node at a port with so many things and this payload. Returns the clients that stay connected."""


def connections(port: int, count: int, _payload: bytes) -> list[PlainClient]:
    """Clients with clean sessions that do nothing."""
    return [connect(port, f"clean{number}") for number in range(count)]


def subscriptions(port: int, count: int, payload: bytes) -> list[PlainClient]:
    """As `connections`, and each subscribes to a filter of its own."""
    return subscribed(connections(port, count, payload))


def durable(port: int, count: int, _payload: bytes) -> list[PlainClient]:
    """As `subscriptions`, with durable sessions."""
    return subscribed([connect(port, f"durable{number}", False) for number in range(count)])


def subscribed(clients: list[PlainClient]) -> list[PlainClient]:
    """Subscribe each client to a filter of its own. Returns the clients."""
    for number, client in enumerate(clients):
        client.subscribe([f"plant/device{number}/command"])
    return clients


def retained(port: int, count: int, payload: bytes) -> list[PlainClient]:
    """Retained messages on topics of their own."""
    publish(port, [f"state/device{number}" for number in range(count)], payload, True)
    return []


def absent(port: int, filters: list[str]) -> None:
    """Make a durable session for each filter. Their clients are away afterwards."""
    for number, each in enumerate(filters):
        client = connect(port, f"absent{number}", False)
        client.subscribe([each])
        client.close()


def queued(port: int, count: int, payload: bytes) -> list[PlainClient]:
    """Ten clients are away. Each message waits in the queue of one of them."""
    absent(port, [f"own/{number}" for number in range(10)])
    publish(port, [f"own/{number % 10}" for number in range(count)], payload)
    return []


def shared(port: int, count: int, payload: bytes) -> list[PlainClient]:
    """Ten clients are away. Each message waits in the queues of all of them."""
    absent(port, ["all"] * 10)
    publish(port, ["all"] * count, payload)
    return []


def publish(port: int, topics: list[str], payload: bytes, retain: bool = False) -> None:
    """Publish to these topics with QoS 1, and wait for each PUBACK."""
    writer = connect(port, "writer")
    for number, topic in enumerate(topics):
        if number >= WINDOW:
            writer.receive(packets.Puback)
        writer.send(packets.Publish(topic, payload, 1, retain, packet_id=number % 65535 + 1))
    for _ in range(min(len(topics), WINDOW)):
        writer.receive(packets.Puback)
    writer.close()


def memory(broker: TimedBroker, _data: Path) -> int:
    """Returns the resident memory in bytes, once it stays as it is. Raises `WrongError` if it does not."""
    until, last, since = time.monotonic() + WITHIN_S, 0, time.monotonic()
    while time.monotonic() - since < CALM_S:
        check(time.monotonic() < until, f"the memory stays as it is for {CALM_S:g} s")
        now = broker.memory()["rss"]
        if abs(now - last) > CALM_KIB:
            last, since = now, time.monotonic()
        time.sleep(CALM_S / 10)
    return last * 1024


def disk(_broker: TimedBroker, data: Path) -> int:
    """Returns the size of the message store in bytes."""
    return sum(path.stat().st_size for path in (data / "messages").rglob("*") if path.is_file())


FIGURES: tuple[tuple[str, Step, Callable[[TimedBroker, Path], int]], ...] = (
    ("connection, clean session: memory", connections, memory),
    ("the same with a subscription of its own: memory", subscriptions, memory),
    ("connection, durable session with a subscription: memory", durable, memory),
    ("retained message: memory", retained, memory),
    ("retained message: disk", retained, disk),
    ("message in one queue: memory", queued, memory),
    ("message in one queue: disk", queued, disk),
    ("message in ten queues: disk", shared, disk),
)


def figure(step: Step, measured: Callable[[TimedBroker, Path], int], count: int, payload: bytes) -> float:
    """Returns the bytes for each of `count` things. Raises `WrongError`, OSError or ValueError."""
    with tempfile.TemporaryDirectory() as folder, TimedBroker(Path(folder) / "data") as broker:
        broker.listens()
        connect(broker.port, "first").close()
        before = measured(broker, Path(folder) / "data")
        clients = step(broker.port, count, payload)
        after = measured(broker, Path(folder) / "data")
        for client in clients:
            client.close()
    return (after - before) / count


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.footprint", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=2000, help="how many of each are made (2000)")
    parser.add_argument("--payload", type=int, default=100, help="bytes of a payload (100)")
    options = parser.parse_args(arguments)
    try:
        for name, step, measured in FIGURES:
            found = figure(step, measured, options.count, bytes(options.payload))
            print(f"{name:<56} {found:9,.0f} bytes", flush=True)
    except (WrongError, OSError, ValueError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
