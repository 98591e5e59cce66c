"""Nodes of a cluster as processes, for tests and benchmarks, with the results of vmq-admin."""

from __future__ import annotations

import asyncio
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from strogoff.admin.client import UnixSocketClient, Unreachable
from strogoff.admin.result import Alert, Table, Text
from strogoff.admin.wire import TruncatedResult, from_lines
from strogoff.cluster.identity import slot_of
from strogoff.cluster.slots.placement import wanted

from .broker_process import BrokerProcess, free_port

WITHIN_S = 20.0
"""The default limit of a wait, in seconds."""
LOOK_S = 0.02
"""The interval between two checks of a condition, in seconds."""
STOPPED_S = 1.0
"""A node that does not answer vmq-admin within this time, in seconds, counts as stopped."""

Row = dict[str, Any]


class Answer(NamedTuple):
    """The result of a command: exit status, tables as dicts, texts and alerts."""

    status: int
    tables: list[list[Row]]
    text: str


async def until(
    what: str, condition: Callable[[], Awaitable[object]], within_s: float = WITHIN_S, look_s: float = LOOK_S
) -> float:
    """Check the condition again and again until it is true. Returns the seconds that it took; raises `TimeoutError`."""
    began = time.monotonic()
    while not await condition():
        if time.monotonic() - began > within_s:
            raise TimeoutError(f"not within {within_s:g} s: {what}")
        await asyncio.sleep(look_s)
    return time.monotonic() - began


class Node(BrokerProcess):
    """One node. `space` is its network namespace; "" means that of this process."""

    def __init__(self, folder: Path, name: str, host: str = "127.0.0.1", space: str = "", **settings: str) -> None:
        super().__init__(folder / name, 1883 if space else free_port(), **settings)
        self.name = f"{name}@{host}"
        self.host = host
        self.space = space
        self.links = 44053 if space else free_port()
        self.settings = {
            "nodename": self.name,
            "listener.tcp.default": f"{host}:{self.port}",
            "listener.vmq.links": f"{host}:{self.links}",
            "distributed_cookie": "of the nodes of one run",
            **{key.replace("__", "."): value for key, value in settings.items()},
        }

    @property
    def address(self) -> str:
        """The address of the listener for other nodes, HOST:PORT."""
        return f"{self.host}:{self.links}"

    def command(self) -> list[str]:
        """Returns the command line."""
        return [*(("ip", "netns", "exec", self.space) if self.space else ()), *super().command()]

    @property
    def pid(self) -> int:
        """The id of the process, which must run."""
        assert self.process is not None
        return self.process.pid

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, such as SIGSTOP and SIGCONT."""
        assert self.process is not None
        self.process.send_signal(number)

    async def ask(self, *words: str, within_s: float = 90) -> Answer:
        """Execute a command of vmq-admin over the node's socket. Raises TimeoutError after `within_s` seconds."""
        client = UnixSocketClient(self.name, self.data / "admin.sock")
        return await asyncio.wait_for(asyncio.to_thread(_asked, client, list(words)), within_s)

    async def status(self) -> Row:
        """Returns the result of `cluster status`, with a row for each node under "nodes"; empty without an answer."""
        try:
            answer = await self.ask("cluster", "status", within_s=STOPPED_S)
        except (TimeoutError, Unreachable, TruncatedResult):
            return {}
        if len(answer.tables) < 2:
            return {}
        return {**{row["Status"]: row["Value"] for row in answer.tables[0]}, "nodes": answer.tables[1]}

    async def sees(self) -> str:
        """Returns the node's view state: whole, majority or minority; "" if it does not answer."""
        return str((await self.status()).get("sees", ""))

    async def whole_with(self, count: int) -> bool:
        """Whether the node sees a cluster of `count` nodes that all serve, with the largest odd number of voters."""
        status = await self.status()
        voters = sum(row["Voter"] for row in status.get("nodes", []))
        facts = (status.get("sees"), status.get("members"), status.get("serving"), voters)
        return facts == ("whole", count, count, count - (count % 2 == 0))


def _asked(client: UnixSocketClient, words: list[str]) -> Answer:
    parts, status = from_lines(client.run(words))
    tables = [[dict(zip(part.columns, row, strict=True)) for row in part.rows] for part in parts if type(part) is Table]
    return Answer(status, tables, "\n".join(part.text for part in parts if isinstance(part, Text | Alert)))


def in_folder(keep: Path | None, run: Callable[[Path], Coroutine[Any, Any, list[str]]]) -> int:
    """Run a benchmark in the folder `keep`, or in one that is removed afterwards, and print the lines that it returns.

    Returns the exit status: 1 if there are any.
    """
    if keep is not None:
        keep.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        bad = asyncio.run(run(keep or Path(folder)))
    print("\n".join(bad))
    return 1 if bad else 0


async def balanced(nodes: list[Node]) -> bool:
    """True if each slot is in its place, and no node wants to move any."""
    facts = [await node.status() for node in nodes]
    return all((each.get("slots_misplaced", 0), each.get("balance")) == (0, "balanced") for each in facts)


async def whole(nodes: Iterable[Node], count: int = 0, within_s: float = WITHIN_S) -> float:
    """Wait until all of these nodes see a whole cluster of `count` nodes (0: only these). Returns the seconds taken."""
    members = list(nodes)
    began = time.monotonic()
    for node in members:
        await until(
            f"{node.name} is whole with {count or len(members)}",
            lambda node=node: node.whole_with(count or len(members)),  # type: ignore[misc]
            within_s,
        )
    return time.monotonic() - began


async def start_joined(nodes: Sequence[Node]) -> None:
    """Start nodes that find each other by discovery."""
    places = " ".join(node.address for node in nodes)
    for node in nodes:
        node.settings["discovery.nodes"] = places
    await asyncio.gather(*[node.start() for node in nodes])
    await whole(nodes)


async def start_replaced(node: Node, other: Node, within_s: float, told: Callable[[str], None] = print) -> None:
    """Start a node that has lost its data, and let it take its former place in the cluster of another node. `told` gets
    the answer to each request."""
    found = node.settings.pop("discovery.nodes")
    await node.start()
    node.settings["discovery.nodes"] = found

    async def joined() -> bool:
        with suppress(TimeoutError, Unreachable, TruncatedResult):
            answer = await node.ask("cluster", "join", f"discovery-node={other.address}", "--replace")
            told(f"join of {node.name}: {answer.status} {answer.text}".replace("\n", " "))
            return answer.status == 0
        return False

    await until(f"{node.name} joins again", joined, within_s)


async def end(nodes: Iterable[Node]) -> None:
    """Kill the nodes that still run."""
    for node in nodes:
        await node.kill()


def bad_lines(nodes: Iterable[Node]) -> list[str]:
    """Returns the lines of the logs that show a defect."""
    return [f"{node.name}: {line}" for node in nodes for line in node.tracebacks()]


async def client_at(node: Node, prefix: str) -> str:
    """Wait until the node has the slots that it should have. Returns a client id that begins with `prefix`, and whose
    slot is there."""
    zones = dict.fromkeys([str(row["Node"]) for row in (await node.status())["nodes"]], "")
    names = (f"{prefix}{number}" for number in range(1000))
    client_id = next(name for name in names if wanted(slot_of("", name), zones, 1) == (node.name,))

    async def is_here() -> bool:
        answer = await node.ask("slot", "show", f"slot={slot_of('', client_id)}")
        return bool(answer.tables[0][0]["Node"] == node.name)

    await until(f"the slot of {client_id} is at {node.name}", is_here)
    return client_id


async def leader_of(nodes: Iterable[Node]) -> str:
    """Wait until one of these nodes knows the leader, and return the leader's name."""
    found: list[str] = []

    async def led() -> bool:
        for node in nodes:
            found.append(str((await node.status()).get("leader") or ""))
            if found[-1]:
                return True
        return False

    await until("there is a leader", led)
    return found[-1]
