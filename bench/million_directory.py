"""A data directory with many durable sessions, made by the broker's own code without sockets.

    python -m bench.million_directory DIRECTORY [--sessions 1000000] [--crashed 0.0]

Client `n` is `device-{n}`. It subscribes at QoS 1 to `device/{n}/cmd` and to `fleet/{n // 100}/+`. Clients with an even
number use MQTT 3.1.1 with clean session 0, the others MQTT 5 without session expiry. All of them disconnect, and the
node stops. With `--crashed 0.1` a tenth of the clients stay connected, and the process kills itself with SIGKILL.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from strogoff.broker.connection.connection import ClientConnection
from strogoff.broker.connection.transport import ConnectionOrigin, ConnectionPort
from strogoff.broker.process.server import Server
from strogoff.configs import ListenerSettings, load
from strogoff.mqtt import packets
from strogoff.mqtt.decoder import Decoder
from strogoff.mqtt.encoder import encode

from .steady import NEVER

BATCH = 1000
"""Clients that are connected at the same time. One commit has about this many sessions."""
ANSWER_S = 60.0
"""Seconds that the node may take for all answers of a batch."""
COLLECT_EVERY = 50
"""Batches between two collections of garbage, which else takes most of the time."""


def client_id(number: int) -> str:
    """Returns the client id of a device."""
    return f"device-{number}"


def version(number: int) -> int:
    """Returns the protocol version of a device: 4 (MQTT 3.1.1) or 5."""
    return 5 if number % 2 else 4


def command_topic(number: int) -> str:
    """Returns the topic that only this device subscribes to."""
    return f"device/{number}/cmd"


def crashed(number: int, share: float) -> bool:
    """Whether the device is connected when the node is killed. These devices are spread evenly."""
    return int((number + 1) * share) > int(number * share)


class NullTransport:
    """A transport without a peer: it decodes the packets from the node, and keeps the last SUBACK."""

    def __init__(self, number: int) -> None:
        self._decoder = Decoder("client", version(number))
        self.connection: ClientConnection
        self.suback: packets.Suback | None = None
        self.closed = False

    def write(self, data: bytes, /) -> None:
        """Decode the packets of the node."""
        for packet in self._decoder.feed(data):
            if isinstance(packet, packets.Suback):
                self.suback = packet

    def close(self) -> None:
        """Report the end of the connection in the next turn of the loop."""
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self.connection.lost, "closed")

    def abort(self) -> None:
        """As `close`: no bytes wait."""
        self.close()

    @property
    def gone_for(self) -> str:
        """Returns "": there is no peer."""
        return ""

    def pause_reading(self) -> None:
        """Do nothing: this transport reads nothing."""

    def resume_reading(self) -> None:
        """Do nothing: this transport reads nothing."""

    def hand_over(self, _port: ConnectionPort, /) -> None:
        """Never called: no client is relayed."""
        raise AssertionError("a null transport is not relayed")

    def watch_silence(self, _limit_ms: int, /) -> bool:
        """Returns False: the core measures the silence."""
        return False

    def accepted(self) -> None:
        """Do nothing: this transport has no limit."""


class OfflineServer(Server):
    """A server without listeners."""

    def mqtt_listeners(self) -> list[Any]:
        """Returns no listener."""
        return []


def frames(number: int) -> bytes:
    """Returns CONNECT and SUBSCRIBE of a device."""
    lasting = {"session_expiry_interval": NEVER} if version(number) == 5 else None
    filters = [packets.SubscribeOptions(text, 1) for text in (command_topic(number), f"fleet/{number // 100}/+")]
    return b"".join(
        _encoded(packet, number)
        for packet in (
            packets.Connect(client_id(number), version(number), False, properties=lasting),
            packets.Subscribe(1, filters),
        )
    )


def _encoded(packet: Any, number: int) -> bytes:
    frame = encode(packet, version(number))
    assert frame is not None
    return frame


def batches(sessions: int) -> Iterator[range]:
    """Yields the numbers of all devices, `BATCH` at a time."""
    for first in range(0, sessions, BATCH):
        yield range(first, min(first + BATCH, sessions))


async def add(server: Server, numbers: range, share: float) -> None:
    """Connect and subscribe a batch of devices; disconnect those that are not in the crashed share.

    Raises RuntimeError if the node refuses a device, and TimeoutError after `ANSWER_S` seconds.
    """
    origin = ConnectionOrigin("127.0.0.1", 1, ListenerSettings(type="tcp", name="none", host="127.0.0.1", port=1))
    made = []
    for number in numbers:
        transport = NullTransport(number)
        transport.connection = server.node.accept(transport, origin)
        transport.connection.receive(frames(number))
        made.append(transport)
    async with asyncio.timeout(ANSWER_S):
        while any(each.suback is None and not each.closed for each in made):
            await committed(server)
    for number, transport in zip(numbers, made, strict=True):
        if transport.suback is None or list(transport.suback.reasons) != [1, 1]:
            raise RuntimeError(f"{client_id(number)} is refused: {transport.suback}")
        if not crashed(number, share):
            transport.connection.receive(_encoded(packets.Disconnect(), number))
    await committed(server)


async def committed(server: Server) -> None:
    """Wait until all writes so far are on the disk."""
    done = asyncio.Event()
    server.store.flush(done.set)
    await done.wait()
    await asyncio.sleep(0)


async def fill(directory: Path, sessions: int, share: float) -> None:
    """Make the directory. With a crashed share the process kills itself at the end."""
    wanted = {"platform_data_dir": str(directory), "allow_anonymous": "on"}
    wanted |= {"log.console": "off", "log.error": "off", "eventlog.level": "off"}
    server = OfflineServer(load(None, {}, wanted), lambda level, text: print(f"{level}: {text}", file=sys.stderr))
    await server.start()
    began = time.monotonic()
    gc.disable()
    for count, numbers in enumerate(batches(sessions), 1):
        await add(server, numbers, share)
        if count % COLLECT_EVERY == 0:
            gc.collect()
            gc.freeze()
            rate = numbers.stop / (time.monotonic() - began)
            print(f"{numbers.stop} sessions, {rate:.0f} a second", file=sys.stderr, flush=True)
    if share:
        await committed(server)
        os.kill(os.getpid(), signal.SIGKILL)
    await server.stop()


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="A data directory with many durable sessions")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--sessions", type=int, default=1_000_000)
    parser.add_argument("--crashed", type=float, default=0.0, help="share of the clients that are connected at a kill")
    arguments = parser.parse_args()
    asyncio.run(fill(arguments.directory, arguments.sessions, arguments.crashed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
