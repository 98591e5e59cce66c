"""The machines of a simulation. The history records their disks, dropped messages and shared deliveries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random

from ..broker.node import Node
from ..cluster.slots.handover import first_wanted
from ..storage.engine import Durability
from .cluster_plan import ClusterPlan
from .drop_recorder import DropRecorder
from .engine.disk import ReplaceableDisk, SimDisk
from .engine.host import Host
from .engine.loop import VirtualLoop
from .engine.machine import Machine
from .engine.network import SimNetwork
from .history import History
from .recording_disk import RecordingDisk
from .relay import home_of
from .sends import record_sends
from .shared_assignments import record_assignments
from .workload.swarm import Swarm


def record(history: History, node: Node) -> None:
    """Record what a new node does with messages."""
    record_assignments(history, node)
    record_sends(history, node)


class NodeMachine(Host):
    """The machine of a simulation with one standalone node."""

    title = "the node"
    """The machine's name in the trace when it starts."""
    speaker = "node"
    """The name before the node's events in the trace."""

    def __init__(self, loop: VirtualLoop, history: History, swarm: Swarm, durability: Durability) -> None:
        rng = Random(f"disk/{swarm.seed}")
        disk = SimDisk(rng, loop.call_later, lambda: loop.now_s, durability, swarm.latency_s)
        self.messages = RecordingDisk(history, disk)
        plugins: dict[str, object] = {"drops": DropRecorder(history)}
        super().__init__(loop, lambda _: self.messages, swarm.options, swarm.seed, plugins=plugins)
        self.on_node = partial(record, history)

    def crash(self, power: bool) -> None:
        """Kill the process or, with `power`, cut the power of the machine."""
        self.messages.crash(power)
        self.kill()
        if power:
            self.lose_tail()

    def stopped(self) -> None:
        """Open the disk for the next process: the last one has ended in order."""
        self.messages.reopen()


class ClusterMachine(Machine):
    """A machine of a simulated cluster. `on_member` gets the machine when its member is made and not open yet."""

    def __init__(
        self, loop: VirtualLoop, network: SimNetwork, history: History, plan: ClusterPlan, name: str, rate: float
    ) -> None:
        swarm = plan.swarm
        self._history = history
        self._plan = plan
        plugins: dict[str, object] = {"drops": DropRecorder(history)}
        super().__init__(
            loop, network, swarm.options, swarm.seed, name, swarm.durability, swarm.latency_s, rate, plugins
        )
        self.title = self.speaker = name
        self.settings = plan.settings
        self.on_node = partial(record, history)
        self.on_member: Callable[[ClusterMachine], None] | None = None

    def message_disk(self, disk: SimDisk) -> ReplaceableDisk:
        """Returns the disk of messages; the history records its commits."""
        return RecordingDisk(self._history, disk, lambda: self.disk_id)

    def bound(self) -> None:
        """Set the plan's limits of metadata in the new member, and apply the planted bug."""
        assert self.member is not None
        metadata = self.member.metadata
        if self._plan.log_dots:
            metadata.log_limit = self._plan.log_dots
        if self._plan.sync_ms:
            metadata.sync_interval_ms, metadata.sync_leeway_ms = self._plan.sync_ms, self._plan.sync_ms // 2
        if self._plan.placed:
            assert self.clustering is not None
            self.clustering.slots.handover.place = self._home_of
        if self._plan.slot_moves:
            assert self.clustering is not None
            self.clustering.advertiser.ports.count_above = 0  # few clients of a seed have a filter in common
        if self.on_member is not None:
            self.on_member(self)

    def _home_of(self, slot: int, zones: Mapping[str, str]) -> str:
        """As `Place`: the home of the client with this slot, if it serves."""
        home = home_of(self._plan, slot)
        return first_wanted(slot, zones) if home is None or home not in zones else home


def move_slot(machines: Mapping[str, Machine], slot: int, node: str) -> str:
    """An operator gives a slot with its sessions to a node. Returns the former node; "" if no node can move it now."""
    for machine in machines.values():
        member, clustering = machine.member, machine.clustering
        if member is None or clustering is None or not machine.up or machine.name == node:
            continue
        if member.own_holder is not None and member.slots.row(slot).primary == member.own_holder:
            clustering.slots.moves.begin(slot, node, _ignore)
            return machine.name
    return ""


def _ignore(_: str) -> None:
    """The outcome is in the log."""
