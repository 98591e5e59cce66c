"""A fake of a cluster with three nodes, for tests of the commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec

from strogoff.broker.clustering.operator_port import ClusterError, LastHolder, NodeRow, Orphan, StatusRow
from strogoff.broker.shared_config import SharedConfig
from strogoff.cluster.slots.table import NO_ROWS, Holder, SlotRow, SlotTable

THIS_NODE = "VerneMQ@127.0.0.1"
STATUS = StatusRow(
    cluster_id="c1",
    view_id=7,
    sees="majority",
    leader="b@127.0.0.1",
    lease_ms_left=1500,
    members=3,
    serving=2,
    metadata_keys=12,
    tombstones=1,
    incidents=1,
)


def row(node: str, **fields: Any) -> NodeRow:
    """A member that runs and serves, changed by `fields`."""
    usual: dict[str, Any] = {
        "running": True,
        "state": "serving",
        "incarnation": "boot 1 since view 5",
        "address": "127.0.0.1:44053",
        "heard_ms": 0,
        "voter": True,
        "stale": False,
        "waiting_bytes": 0,
    }
    return NodeRow(node=node, **{**usual, **fields})


INCIDENTS: list[dict[str, Any]] = [
    {
        "node": THIS_NODE,
        "number": 1,
        "incident": 4,
        "begin_ms": 1_700_000_000_250,
        "detected_ms": 1_700_000_002_750,
        "state": "majority",
        "worst": "minority",
        "peers": ["b@127.0.0.1", "c@127.0.0.1"],
        "view": 5,
        "uncertain": {"publish_accepted": 3},
        "counts": {"publish_accepted": 4, "publish_refused": 2},
        "healed_ms": 1_700_000_012_000,
        "window_ms": 2500,
        "split_ms": 9250,
    },
    {
        "node": THIS_NODE,
        "number": 2,
        "incident": 6,
        "begin_ms": 1_700_000_100_000,
        "detected_ms": 1_700_000_101_000,
        "state": "majority",
        "worst": "majority",
        "peers": ["c@127.0.0.1"],
        "view": 7,
        "uncertain": {},
        "counts": {},
        "healed_ms": None,
        "window_ms": 1000,
        "split_ms": None,
    },
]


def slot_table() -> SlotTable:
    """This node is primary of slots 0 to 99 but for 17, whose holders are away, c after a loss of power. b has
    the others; 255 is empty."""
    mine, other = Holder(THIS_NODE, "d1", 5), Holder("b@127.0.0.1", "d2", 6)
    rows = [SlotRow(row.slot, 40, 41, mine if row.slot < 100 else other, (mine, other)) for row in NO_ROWS]
    rows[17] = SlotRow(
        17, 30, 44, None, (Holder("b@127.0.0.1", "d2", 0), Holder("c@127.0.0.1", "d3", 0)), mine, 0, ("c@127.0.0.1",)
    )
    rows[255] = SlotRow(255, 30, 44)
    return SlotTable(tuple(rows), 44)


class FakeMap:
    """A replicated map with one node."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}

    def put(self, key: bytes, value: bytes) -> int:
        self.values[key] = value
        return len(self.values)

    def delete(self, key: bytes) -> int:
        del self.values[key]
        return len(self.values)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter([row for row in self.values.items() if row[0].startswith(prefix)])


class FakeOperatorPort:
    """A fake `OperatorPort`: it returns given values and records its calls."""

    def __init__(self) -> None:
        self.name = THIS_NODE
        self.nodes = [
            row(THIS_NODE, heard_ms=None),
            row("b@127.0.0.1", heard_ms=120),
            row("c@127.0.0.1", running=False, state="absent", incarnation="", voter=False, stale=True),
        ]
        self.seen = STATUS
        self.counters = {"cluster_bytes_sent": 10, "netsplit_detected": 1, "netsplit_last_window_ms": 2500}
        self.config = SharedConfig(FakeMap())
        self.operate: Any = None
        self.answers: dict[str, bytes] = {}
        """Name of a node -> its result of `ask`."""
        self.requests: list[bytes] = []
        self.slow = ""
        """The error of `spread`; empty for none."""
        self.asked: list[tuple[Any, ...]] = []
        self.lines = ["10 sessions to go", "Done"]
        self.wrong = ""
        self.moved = True
        self.lost = [17, 18, 19]
        """The slots without primary."""
        self.go_on = asyncio.Event()
        self.go_on.set()

    def rows(self) -> list[NodeRow]:
        return self.nodes

    def status(self) -> StatusRow:
        return self.seen

    def slots(self) -> tuple[SlotTable, dict[str, str]]:
        return slot_table(), {THIS_NODE: "rack1", "b@127.0.0.1": "rack2", "c@127.0.0.1": "c@127.0.0.1"}

    def orphans(self) -> list[Orphan]:
        holders = LastHolder("b@127.0.0.1", "d2", True, None, False), LastHolder("c@127.0.0.1", "d3", False, 90, True)
        return [Orphan(slot, holders, 2) for slot in self.lost]

    async def recover_slots(self, slots: list[int]) -> dict[int, tuple[str, bool]]:
        self.asked.append(("recover_slots", *slots))
        if self.wrong:
            raise ClusterError(self.wrong)
        self.lost = [slot for slot in self.lost if slot not in slots]
        return {slot: ("b@127.0.0.1", slot == 17) for slot in slots}

    def check_copies(self, slots: list[int]) -> int:
        self.asked.append(("check_copies", *slots))
        return len(slots)

    async def move_slot(self, slot: int, node: str) -> bool:
        self.asked.append(("move_slot", slot, node))
        if self.wrong:
            raise ClusterError(self.wrong)
        return self.moved

    def incidents(self) -> list[dict[str, Any]]:
        return INCIDENTS

    async def spread(self) -> None:
        self.asked.append(("spread",))
        if self.slow:
            raise ClusterError(self.slow)

    async def values(self, node: str, keys: list[str]) -> list[str | None]:
        if node == "c@127.0.0.1":
            raise ClusterError("c@127.0.0.1: nobody answers")
        return [f"{key} of {node}" for key in keys]

    async def ask(self, node: str, request: bytes) -> bytes:
        self.asked.append(("ask", node))
        self.requests.append(request)
        if node not in self.answers:
            raise ClusterError("nobody answers")
        return self.answers[node]

    async def stop(self) -> None:
        """The node stops."""

    def sees(self, **fields: Any) -> None:
        """Change the status."""
        self.seen = msgspec.structs.replace(self.seen, **fields)

    async def join(self, discovery_node: str, merge: bool, replace: bool = False) -> None:
        self.asked.append(("join", discovery_node, merge, replace))
        await self.go_on.wait()
        if self.wrong:
            raise ClusterError(self.wrong)

    async def found(self) -> None:
        self.asked.append(("found",))
        if self.wrong:
            raise ClusterError(self.wrong)

    async def leave(
        self, node: str, kill_sessions: bool, interval_s: float, timeout_s: float, accept_loss: bool
    ) -> AsyncIterator[str]:
        self.asked.append(("leave", node, kill_sessions, interval_s, timeout_s, accept_loss))
        for line in self.lines:
            yield line
            await self.go_on.wait()
        if self.wrong:
            raise ClusterError(self.wrong)
