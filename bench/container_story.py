"""Tell the story that a cluster is for, with the containers of compose.yaml.

    python -m bench.container_story [--discovery dns|s3]

A durable subscriber comes through HAProxy, gets A and B, and goes away. C and D are published. The node that it was
connected to is killed. The subscriber comes back through HAProxy: it must get C and D, and then E. The same again, but
now the primary of its slot is killed. Then all containers are removed and come back on their volumes, and at last the
cluster grows to five nodes and shrinks to three. Each subscriber must get every message once, in order.

It needs the image `strogoff` (`make docker-build`), and Docker with its plugin compose, or podman with podman-compose.
The containers belong to a project of their own, `strogoff-story-dns` or `-s3`, which is deleted at the end with its
volumes. Exit status 1 if a message is missing, doubled or out of order, or if the cluster does not recover.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

from strogoff.testing.client import Client
from strogoff.testing.client_errors import ConnectionLost, MqttError

from .compose_stack import FILES, ComposeStack, engines
from .nodes import until

THREE = ("node1", "node2", "node3")
FIVE = (*THREE, "node4", "node5")
SETTLED_S = 180.0
CONNECTED_S = 60.0
MESSAGE_S = 30.0
QUIET_S = 3.0
"""How long no message comes before the subscribers count as served."""
NAMES = 30
"""So many client ids are tried to find one whose connection and slot are at different nodes."""


class WrongStory(Exception):
    """Something other than the promise happened; the text says what."""


class Reader:
    """A durable subscriber of its own topic, and what it must have got."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self.topic = f"story/{name}"
        self.client = Client(name, port=port, clean_start=False)
        self.expected: list[str] = []

    @property
    def got(self) -> list[str]:
        """All messages so far, in order, with those that came twice."""
        return [message.payload.decode() for message in self.client.received]

    async def caught_up(self) -> None:
        """Wait for all expected messages. Raises `WrongStory` if others come, or if one does not."""
        try:
            while len(self.got) < len(self.expected):
                await self.client.message(MESSAGE_S)
        except (TimeoutError, ConnectionLost):
            raise WrongStory(f"{self.name} got {self.got} and not {self.expected}") from None
        self.check()

    def check(self) -> None:
        """Raises `WrongStory` unless exactly the expected messages have come."""
        if self.got != self.expected:
            raise WrongStory(f"{self.name} got {self.got} and not {self.expected}")


class Story:
    """The story, told line by line to `tell`."""

    def __init__(self, stack: ComposeStack, tell: Callable[[str], None]) -> None:
        self._stack = stack
        self._tell = tell
        self._readers: list[Reader] = []
        self._writer = Client("writer", port=stack.port)

    async def run(self) -> None:
        """Let everything happen. Raises `WrongStory`, RuntimeError or TimeoutError."""
        await self._stack.compose("up", "-d")
        await self._settled(THREE)
        await self._a_node_is_killed("the node that it was connected to", lambda gateway, primary: gateway)
        await self._a_node_is_killed("the primary of its slot", lambda gateway, primary: primary)
        await self._down_and_up()
        await self._five_and_three()
        for reader in self._readers:
            await reader.client.disconnect()
            await self._comes(reader)
            async for _ in reader.client.messages(QUIET_S):
                pass
            reader.check()
            self._tell(f"{reader.name} got {' '.join(reader.got)}: each message once, in order")

    async def _a_node_is_killed(self, which: str, victim: Callable[[str, str], str]) -> None:
        reader, gateway, primary = await self._a_reader()
        await self._publish(reader, "A", "B")
        await reader.caught_up()
        await self._goes(reader)
        await self._publish(reader, "C", "D")
        killed = victim(gateway, primary)
        self._tell(f"{which}, {killed}, is killed")
        await self._stack.kill(killed)
        await self._comes(reader)
        await self._publish(reader, "E")
        await reader.caught_up()
        self._tell(f"{reader.name} has {' '.join(reader.got)}")
        await self._stack.compose("start", killed)
        await self._settled(THREE)

    async def _down_and_up(self) -> None:
        for reader in self._readers:
            if reader.client.connected:
                await self._goes(reader)
            await self._publish(reader, "F", "G")
        await self._writer.disconnect()
        await self._stack.compose("down")
        await self._stack.compose("up", "-d")
        await self._settled(THREE)
        for reader in self._readers:
            await self._comes(reader)
            await reader.caught_up()
            self._tell(f"{reader.name} has {' '.join(reader.got)}")

    async def _five_and_three(self) -> None:
        for reader in self._readers:
            await self._goes(reader)
            await self._publish(reader, "H", "I")
        self._stack.profiles = ["five"]
        self._tell("$ export COMPOSE_PROFILES=five")
        await self._stack.compose("up", "-d")
        await self._settled(FIVE)
        await self._show_slots()
        for leaving in ("node5", "node4"):
            await self._stack.leave("node1", leaving)
        await self._settled(THREE)
        await self._stack.compose("down", "node4", "node5")
        await self._stack.remove_volumes("node4", "node5")
        self._stack.profiles = []
        self._tell("$ unset COMPOSE_PROFILES")
        await self._show_slots()
        for reader in self._readers:
            await self._comes(reader)
            await self._publish(reader, "J")
            await reader.caught_up()
            self._tell(f"{reader.name} has {' '.join(reader.got)}")

    async def _a_reader(self) -> tuple[Reader, str, str]:
        """A subscriber whose connection is at one node, and whose session is at another one."""
        for number in range(NAMES):
            reader = Reader(f"c{len(self._readers) + 1}-{number}", self._stack.port)
            await self._comes(reader, is_new=True)
            fields = ("--client_id", "--node", "--gateway", "--slot")
            rows = await self._stack.admin("node1", "session", "show", *fields)
            (row,) = [row for row in rows if row["client_id"] == reader.name]
            primary, gateway = (str(row[each]).removeprefix("VerneMQ@") for each in ("node", "gateway"))
            if primary != gateway:
                await reader.client.subscribe(reader.topic, 1)
                self._readers.append(reader)
                where = f"its connection is at {gateway}, its session at {primary} (slot {row['slot']})"
                self._tell(f"{reader.name} subscribes through HAProxy: {where}")
                return reader, gateway, primary
            await reader.client.disconnect()
        raise WrongStory(f"HAProxy sends {NAMES} clients to the primaries of their slots: nothing is relayed")

    async def _comes(self, reader: Reader, *, is_new: bool = False) -> None:
        await self._connected(reader.client)
        if reader.client.session_present == is_new:
            raise WrongStory(f"{reader.name} {'found an old' if is_new else 'lost its'} session")
        if not is_new:
            self._tell(f"{reader.name} comes back through HAProxy")

    async def _goes(self, reader: Reader) -> None:
        await reader.client.disconnect()
        self._tell(f"{reader.name} goes away")

    async def _publish(self, reader: Reader, *texts: str) -> None:
        """Publish with QoS 1, and wait for the PUBACKs. The writer sends again what was not acknowledged."""
        if not self._writer.connected:
            await self._connected(self._writer)
        for text in texts:
            await self._writer.publish(reader.topic, text, qos=1, timeout=MESSAGE_S)
            reader.expected.append(text)
        self._tell(f"{' and '.join(texts)} published to {reader.topic} and acknowledged")

    async def _connected(self, client: Client) -> None:
        """Connect as clients do: again, until a node accepts."""

        async def accepted() -> bool:
            try:
                await client.reconnect(timeout=5)
            except (MqttError, OSError, TimeoutError):
                return False
            return True

        await until(f"{client.name} connects through HAProxy", accepted, CONNECTED_S)

    async def _settled(self, services: tuple[str, ...]) -> None:
        async def each(service: str) -> None:
            true: Callable[[], Awaitable[bool]] = lambda: self._stack.settled(service, len(services))  # noqa: E731
            await until(f"{service} sees {len(services)} nodes, with all slots in their places", true, SETTLED_S)

        for service in services:
            await each(service)
        self._tell(f"all {len(services)} nodes serve")

    async def _show_slots(self) -> None:
        rows = await self._stack.admin("node1", "slot", "show", told=True)
        self._tell(", ".join(f"{row['Node']}: {row['Count']} slots" for row in rows if row["Count"]))


async def told(stack: ComposeStack, tell: Callable[[str], None]) -> int:
    """Run the story, and delete its containers and volumes afterwards. Those of an interrupted run are deleted before.
    Returns the exit status."""
    try:
        await stack.delete()
        await Story(stack, tell).run()
    except (WrongStory, RuntimeError, TimeoutError, MqttError) as error:
        tell(f"WRONG: {type(error).__name__}: {error}")
        for service in THREE:
            print(f"--- the end of the log of {service}", *(await stack.log(service)).splitlines()[-25:], sep="\n")
        return 1
    finally:
        await stack.delete()
    return 0


def main() -> int:
    """Run the command line. Returns the exit status."""
    parser = argparse.ArgumentParser(description="kill and replace containers of compose.yaml, and count messages")
    parser.add_argument("--discovery", choices=sorted(FILES), default="dns", help="how the nodes find each other")
    arguments = parser.parse_args()
    commands = engines()
    if commands is None:
        print("no container tool works here: install Docker with its plugin compose, or podman and podman-compose")
        return 2
    began = time.monotonic()

    def tell(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f}  {text}", flush=True)

    stack = ComposeStack(f"strogoff-story-{arguments.discovery}", arguments.discovery, commands, tell)
    return asyncio.run(told(stack, tell))


if __name__ == "__main__":
    sys.exit(main())
