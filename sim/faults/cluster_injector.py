"""Injects the faults of a schedule into a cluster, and does the work of operators that repair nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from ...cluster.identity import slot_of
from ...cluster.membership.state_machine import peer_of
from ...netsplit.policy import ViewState
from ..machines import ClusterMachine, move_slot
from ..world import ClusterWorld
from . import kinds, rare
from .schedule import Step

DOWN_S = (0.3, 2.0, 5.0)
"""Times for which a killed node stays down, in seconds; one is chosen at random."""
FAILED_S = (1.0, 4.0, 10.0)
"""Times until an operator checks a node with a failed disk, in seconds; one is chosen at random."""
TWIN_S = 1.0
"""A node that has served for this time, in seconds, is heard by all others. An answer within the same time was given
while they heard it."""
LEAVE_AGAIN_S = 1.5
"""The time between two requests of an operator to remove a member, in seconds."""
DEPART_S = 10.0
"""The time for a node that leaves to give its sessions away, in seconds. Then it tries again."""
EMPTIED_S = (0.5, 2.0, 6.0)
"""Times until a removed node gets an empty disk, in seconds; one is chosen at random."""
REJOIN_S = 0.7
"""The time between two attempts of a node to join, in seconds."""


class ClusterFaultInjector:
    """Injects all faults of one cluster. After `heal` it injects no more."""

    def __init__(self, world: ClusterWorld, rng: Random) -> None:
        self._world = world
        self._rng = rng
        self._over = False
        self._lost = 0
        self._old_copies: set[str] = set()
        """The peers whose disk is an old copy. A node with an empty disk is another peer."""
        self._leaving: tuple[str, str] | None = None
        """The node that an operator has asked to remove, and its disk."""
        self._asked_out = False
        """Whether an earlier request for the removal got an error or no answer."""
        self._unsure = 0
        """The number of requests for the removal that were not refused: each of them may have removed the node."""
        self._cuts: dict[tuple[str, str], int] = {}
        self._joining: dict[str, int] = {}
        self._acts: dict[type[kinds.Fault], Callable[[kinds.Fault], None]] = {
            kinds.Cut: self._cut,
            kinds.PairCut: self._cut,
            kinds.OneWay: self._cut,
            kinds.Delay: self._delay,
            kinds.Loss: self._loss,
            kinds.Kill: self._kill,
            kinds.PowerLoss: self._kill,
            kinds.FastRestart: self._kill,
            kinds.Pause: self._still,
            kinds.Freeze: self._still,
            kinds.DiskStall: self._disk,
            kinds.DiskFull: self._disk,
            kinds.DiskLost: self._disk_lost,
            kinds.BackupRestored: self._backup,
            kinds.ClockJump: self._jump,
            rare.SocketsFirst: self._still,
            rare.ClockSet: self._jump,
            rare.DiskTrouble: self._trouble,
            rare.Depart: self._depart,
        }

    def begin(self) -> None:
        """Schedule the faults of the plan."""
        plan, loop = self._world.plan, self._world.loop
        for step in plan.schedule.steps:
            if isinstance(step.fault, kinds.BackupRestored):
                machine = self._world.machines[step.fault.node]
                loop.call_later(step.at_s * self._rng.random() * 0.9, partial(self._copy, machine))
            loop.call_later(step.at_s, partial(self.inject, step))
        for at_s, node in plan.stops:
            loop.call_later(at_s, partial(self._stop, self._world.machines[node]))
        if plan.departure is not None:
            at_s, node = plan.departure
            loop.call_later(at_s, partial(self._take_out, self._world.machines[node]))
        for at_s, client, node in plan.slot_moves:
            loop.call_later(at_s, partial(self._move, slot_of("", client), node))
        if plan.twin is not None:
            at_s, node = plan.twin
            loop.call_later(at_s, partial(self._twin, self._world.machines[node]))

    def _move(self, slot: int, node: str) -> None:
        """An operator moves a slot. That is no fault."""
        former = move_slot(self._world.machines, slot, node)
        self._world.history.trace("OPERATOR", f"slot {slot} moves from {former or 'no node'} to {node}")

    def _copy(self, machine: ClusterMachine) -> None:
        # The Raft log of the node must contain the node: an older copy knows of no cluster, and an operator would have
        # to empty it. And the node must not be the only voter: its copy would be a majority, and serve until it reached
        # a node that knows of its successor.
        joined = machine.member is not None and machine.name in machine.member.membership.members
        if joined and machine.voters() != (machine.name,) and not self._over:
            machine.keep_backup()

    def inject(self, step: Step) -> None:
        """Begin a fault of the schedule now."""
        if self._over:
            return
        fault = step.fault
        node = "" if len(fault.nodes) > 1 else fault.nodes[0]
        self._world.history.fault(_NAMES.get(fault.word, str(fault)), node)
        self._world.history.trace("FAULT", f"{fault}" + (f" for {step.for_s} s" if step.for_s else ""))
        self._acts[type(fault)](fault)
        if step.for_s is not None:
            self._world.loop.call_later(step.for_s, partial(self._end, fault))

    def _end(self, fault: kinds.Fault) -> None:
        if self._over:
            return
        self._world.history.trace("FAULT", f"over: {fault}")
        network = self._world.network
        if isinstance(fault, kinds.Delay):
            network.slow(fault.a, fault.b, 0.0)
        elif isinstance(fault, kinds.Loss):
            network.lose(fault.a, fault.b, 0.0)
        elif isinstance(fault, kinds.DiskFull):
            self._world.machines[fault.node].messages.disk.full = False
        elif isinstance(fault, kinds.DiskStall):
            self._world.machines[fault.node].messages.disk.stall_until = 0.0
        elif isinstance(fault, rare.DiskTrouble):
            rare.end(fault, self._world.machines[fault.node])
        else:
            for path in _paths(fault):
                self._cuts[path] -= 1
            self._join_up()

    def _join_up(self) -> None:
        """End the cuts that belong to no present fault."""
        network = self._world.network
        still = [path for path, count in self._cuts.items() if count]
        ended = [path for path, count in self._cuts.items() if not count]
        for path in ended:
            del self._cuts[path]
            if network.is_cut(*path):
                network.heal(*path)
        for path in still:
            network.one_way(*path)

    def heal(self) -> None:
        """End all faults, and inject no more. Start all nodes that are down."""
        self._over = True
        world = self._world
        world.network.mend()
        for machine in world.machines.values():
            machine.resume()
            machine.wall_off_ms = 0.0
            for disk in machine.disks:
                rare.mend(disk, machine.latency_s)
            if machine.node is None:
                self.start(machine)

    # -- one kind each

    def _cut(self, fault: kinds.Fault) -> None:
        for path in _paths(fault):
            self._cuts[path] = self._cuts.get(path, 0) + 1
            self._world.network.one_way(*path)

    def _delay(self, fault: kinds.Fault) -> None:
        assert isinstance(fault, kinds.Delay)
        self._world.network.slow(fault.a, fault.b, fault.ms / 1000)

    def _loss(self, fault: kinds.Fault) -> None:
        assert isinstance(fault, kinds.Loss)
        self._world.network.lose(fault.a, fault.b, fault.share)

    def _kill(self, fault: kinds.Fault) -> None:
        machine = self._world.machines[fault.nodes[0]]
        if machine.node is None:
            return
        self._world.crash(machine, isinstance(fault, kinds.PowerLoss))
        fast = isinstance(fault, kinds.FastRestart)
        away = 0.05 + self._rng.random() * 1.2 if fast else self._rng.choice(DOWN_S) * (0.5 + self._rng.random())
        self._world.loop.call_later(away, partial(self._start_again, machine, machine.life))

    def _start_again(self, machine: ClusterMachine, life: int) -> None:
        if not self._over and machine.node is None and machine.life == life:
            self.start(machine)

    def start(self, machine: ClusterMachine) -> None:
        """Start a process. If the node is not a member of the cluster, it joins."""
        self._world.start(machine)
        if machine.joined and self._has_forgotten(machine):
            machine.joined = False  # a kill has undone the join on its disk; its operator must repeat it
        waits_for_empty_disk = machine.member is not None and machine.member.clustered
        if not machine.joined and not waits_for_empty_disk:
            self.rejoin(machine)

    def _has_forgotten(self, machine: ClusterMachine) -> bool:
        """Whether a node that had joined does not know its cluster any more. The first node never joined: it counts if
        another node has it as a member."""
        machines = self._world.machines
        others = [each.member for each in machines.values() if each.member is not None]
        known = any(machine.name in other.membership.members for other in others)
        joined = machine is not next(iter(machines.values()))
        return (joined or known) and machine.member is not None and not machine.member.clustered

    def rejoin(self, machine: ClusterMachine) -> None:
        """Join through a running node, and repeat that until it works. Then clients may connect.

        No effect if this process is joining already: an operator waits for the answer (5 nodes, seed 40028).
        """
        if self._joining.get(machine.name) != machine.life:
            self._joining[machine.name] = machine.life
            self._join_soon(machine)

    def _join_soon(self, machine: ClusterMachine) -> None:
        self._world.loop.call_later(REJOIN_S, partial(self._join, machine, machine.life))

    def _join(self, machine: ClusterMachine, life: int) -> None:
        if machine.joined or not machine.alive(life):
            return
        if machine.gate.shut:
            self._join_soon(machine)
            return
        others = [each for each in self._world.machines.values() if each is not machine and each.joined and each.up]

        def answered(problem: str) -> None:
            self._world.history.trace(machine.name, f"join: {problem or 'done'}")
            if not machine.alive(life):
                return
            if problem:
                self._try_again(machine)
            else:
                machine.joined = True

        if others:
            machine.join(self._rng.choice(others).address, answered)
        else:
            self._join_soon(machine)

    def _try_again(self, machine: ClusterMachine) -> None:
        """Join again. If the name was a member with another disk, first restart with a higher boot than that disk."""
        if machine.boot_above >= machine.boot:
            self._world.crash(machine, False)
            machine.boot = machine.boot_above
            self.start(machine)
        else:
            self._join_soon(machine)

    def _stop(self, machine: ClusterMachine) -> None:
        if self._over or not machine.up or machine.gate.shut:
            return
        self._world.history.fault("stop", machine.name)
        life = machine.life
        machine.stop(partial(self._stopped, machine, life))

    def _stopped(self, machine: ClusterMachine, life: int) -> None:
        self._world.stopped(machine)
        self._world.loop.call_later(self._rng.random() * 3, partial(self._start_again, machine, life))

    def _take_out(self, machine: ClusterMachine) -> None:
        """Remove a member with a request at another node, as an operator does. Repeat the request until the member is
        removed, because answers may be lost."""
        if self._over or (self._lost and self._leaving is None):
            return  # a node has lost its disk, and too few voters may remain if another node leaves
        others = [each for each in self._world.machines.values() if each is not machine and each.joined and each.runs]
        again = self._leaving is not None
        if self._leaving not in (None, (machine.name, machine.disk_id)):
            return  # its disk is empty already
        if not others or not machine.joined or not (again or self._others_have_the_log(machine)):
            self._world.loop.call_later(LEAVE_AGAIN_S, partial(self._take_out, machine))
            return
        self._ask_out(machine, self._rng.choice(others))

    def _ask_out(self, machine: ClusterMachine, asked: ClusterMachine) -> None:
        """Send one request. If the asked process ends, there will be no answer: report that as the answer."""
        loop, life, disk = self._world.loop, asked.life, machine.disk_id
        pending = True

        def answered(problem: str) -> None:
            nonlocal pending
            pending = False
            self._taken_out(machine, disk, problem)

        def look() -> None:
            if pending and asked.alive(life):
                loop.call_later(LEAVE_AGAIN_S, look)
            elif pending:
                answered(f"{asked.name} has ended without an answer")

        self._world.history.trace("FAULT", f"an operator takes {machine.name} out")
        self._lost, self._leaving = self._world.plan.disks, (machine.name, disk)
        self._unsure += 1
        asked.leave(machine.name, answered)
        loop.call_later(LEAVE_AGAIN_S, look)

    def _taken_out(self, machine: ClusterMachine, disk: str, problem: str) -> None:
        self._world.history.trace("FAULT", f"{machine.name} is taken out: {problem or 'done'}")
        if machine.disk_id != disk:
            return  # its disk is empty already
        if problem.startswith(f"{machine.name} is needed "):
            self._unsure -= 1
        if problem and not (self._asked_out and problem == f"{machine.name} is not a member of this cluster"):
            self._asked_out = True
            self._world.loop.call_later(LEAVE_AGAIN_S, partial(self._take_out, machine))
            return
        self._departed(machine)

    def may_be_out(self, machine: ClusterMachine) -> bool:
        """Whether the node may have been removed: an operator has asked for that, and a request was not refused."""
        return self._leaving == (machine.name, machine.disk_id) and self._unsure > 0

    def was_taken_out(self, machine: ClusterMachine) -> bool:
        """Whether an operator has asked to remove the node, and a node with a lease does not have it as a member."""
        others = [each.member for each in self._world.machines.values() if each is not machine and each.member]
        served = [each for each in others if each.lease_service is not None and each.leased()]
        return self._leaving == (machine.name, machine.disk_id) and any(
            machine.name not in each.membership.members for each in served
        )

    def _depart(self, fault: kinds.Fault) -> None:
        """Let a node that runs leave the cluster: it gives its sessions to the other nodes first."""
        machine = self._world.machines[fault.nodes[0]]
        if self._lost or self._leaving or not machine.joined or not machine.runs or not machine.up:
            return
        self._lost, self._leaving = self._world.plan.disks, (machine.name, machine.disk_id)
        self._unsure += 1
        self._let_go(machine, machine.life)

    def _let_go(self, machine: ClusterMachine, life: int) -> None:
        if not machine.alive(life) or not machine.up:
            return
        if self._over:
            self._stay(machine)
            return
        self._world.history.trace("FAULT", f"{machine.name} leaves the cluster")
        machine.depart(DEPART_S, partial(self._let_go_ended, machine, life))

    def _stay(self, machine: ClusterMachine) -> None:
        """Restart a node whose leave was refused: until then it takes no clients."""
        self._world.history.trace("FAULT", f"{machine.name} is restarted, and stays in the cluster")
        self._world.history.fault("kill", machine.name)
        self._world.crash(machine, False)
        self.start(machine)

    def _let_go_ended(self, machine: ClusterMachine, life: int, problem: str) -> None:
        self._world.history.trace("FAULT", f"{machine.name} has left the cluster: {problem or 'done'}")
        if problem and machine.alive(life):
            self._world.loop.call_later(LEAVE_AGAIN_S, partial(self._let_go, machine, life))
        elif not problem:
            self._world.loop.call_soon(partial(self.left, machine, life))

    def left(self, machine: ClusterMachine, life: int) -> None:
        """End a process that has learned of the removal of its node."""
        if machine.alive(life):
            self._world.crash(machine, False)
            self._departed(machine)

    def _departed(self, machine: ClusterMachine) -> None:
        """Record the removal of a node, which ends its sessions, and schedule its new start with an empty disk."""
        self._world.history.fault("kill", machine.name)
        self._world.history.life(machine.name).emptied.append(self._world.loop.now_s)
        machine.joined = False
        self._world.loop.call_later(self._rng.choice(EMPTIED_S), partial(self._begin_anew, machine, machine.disk_id))

    def _begin_anew(self, machine: ClusterMachine, disk: str) -> None:
        """Give a removed node an empty disk, and let it join again."""
        if machine.disk_id == disk:
            if machine.node is not None:
                self._world.crash(machine, False)
            self._world.lose_disk(machine)
            self.start(machine)

    def _twin(self, machine: ClusterMachine) -> None:
        """Let a stranger ask to join. It calls itself like a node that serves and sees the whole cluster.

        It asks a node that is in the cluster: one that has lost its disk would found another cluster for it.
        """
        world, now = self._world, self._world.loop.now_s
        others = [
            each
            for each in world.machines.values()
            if each is not machine and each.joined and each.runs and each.member is not None and each.member.clustered
        ]
        whole = machine.runs and world.history.views.between(machine.name, now - TWIN_S, now) == {ViewState.WHOLE}
        if self._over:
            return
        if not others or not whole or not machine.joined:
            world.loop.call_later(TWIN_S, partial(self._twin, machine))
            return
        world.history.trace("FAULT", f"a stranger asks to join as {machine.name}")
        asked = self._rng.choice(others)
        asked.claim(machine.name, machine.boot, partial(self._claimed, machine, machine.suspension, machine.life, now))

    def _claimed(self, machine: ClusterMachine, still: object, life: int, asked_s: float, problem: str) -> None:
        world = self._world
        world.history.trace("FAULT", f"the stranger is {problem or 'let in'}")
        undisturbed = (machine.suspension, machine.life) == (still, life) and world.loop.now_s - asked_s < TWIN_S
        if not problem and undisturbed:
            world.history.problem(f"two of a name: a second {machine.name} was let in while the first one served")

    def _still(self, fault: kinds.Fault) -> None:
        assert isinstance(fault, kinds.Pause | kinds.Freeze)
        machine = self._world.machines[fault.node]
        if machine.node is None or machine.gate.shut:
            return
        machine.gate.sockets_first = machine.gate.sockets_first or isinstance(fault, rare.SocketsFirst)
        machine.suspend(isinstance(fault, kinds.Freeze))
        self._world.loop.call_later(fault.s, partial(self._go_on, machine, machine.life))

    def _go_on(self, machine: ClusterMachine, life: int) -> None:
        if not self._over and machine.alive(life):
            self._world.history.trace("FAULT", f"{machine.name} goes on")
            machine.resume()

    def _disk(self, fault: kinds.Fault) -> None:
        disk = self._world.machines[fault.nodes[0]].messages.disk
        if isinstance(fault, kinds.DiskFull):
            disk.full = True
        else:
            disk.stall_until = float("inf")

    def _trouble(self, fault: kinds.Fault) -> None:
        assert isinstance(fault, rare.DiskTrouble)
        machine = self._world.machines[fault.node]
        rare.begin(fault, machine)
        if fault.fails:
            self._look_after(machine)

    def _look_after(self, machine: ClusterMachine) -> None:
        """Restart the node when it reports a failed disk, as an operator does."""
        if not self._over:
            if machine.failed:
                self.restart(machine)
            else:
                self._world.loop.call_later(self._rng.choice(FAILED_S), partial(self._look_after, machine))

    def restart(self, machine: ClusterMachine) -> None:
        """Kill a process and start it again."""
        self._world.history.fault("kill", machine.name)
        self._world.crash(machine, False)
        self.start(machine)

    def _disk_lost(self, fault: kinds.Fault) -> None:
        machine = self._world.machines[fault.nodes[0]]
        if self._may_lose(machine):
            self.empty(machine)
            self._world.loop.call_later(self._rng.random() * 2, partial(self._start_again, machine, machine.life))

    def _may_lose(self, machine: ClusterMachine) -> bool:
        """Whether this node may lose its disk. A seed loses at most `ClusterPlan.disks`, and never one that the
        majority of voters needs, because the Raft log would be lost with it."""
        may = machine.joined and self._lost < self._world.plan.disks and self._others_have_the_log(machine)
        self._lost += may
        return may

    def _others_have_the_log(self, machine: ClusterMachine) -> bool:
        """Whether the other voters are a majority without this node, in the configurations of most nodes.

        A node may become a voter before other nodes know that its disk is lost: if it joins, one of two voters (3
        nodes, seed 41724). Four kinds of voters do not count: one that the cluster gave up as stale, because it must
        return with an empty disk; one that a leader is about to give up; one whose disk is empty (3 nodes, seed
        910020); and one whose disk is an old copy, because the cluster refuses it until an operator has given it an
        empty disk (3 nodes, `--variant copies,moves`, seed 1350009).
        """
        machines = self._world.machines.values()
        others = [each for each in machines if each.joined and each.up and each is not machine and each.voters()]
        logs = [each.member.membership for each in others if each.member is not None]
        stale = {peer_of(row) for log in logs for row in log.members.values() if row.stale or row.notice_ms}
        to_empty = stale | self._old_copies
        intact = {each.peer for each in machines if each is not machine and not self._has_notice(each)} - to_empty
        sets = [{*voters, machine.peer} for each in others for voters in each.peer_quorums()]
        return 2 * len(others) > len(machines) and all(2 * len(intact & voters) > len(voters) for voters in sets)

    def _has_notice(self, machine: ClusterMachine) -> bool:
        """Whether a leader is about to give the node up. Other nodes may not have applied that yet."""
        leaders = [each.member for each in self._world.machines.values() if each.leads]
        services = [each.lease_service for each in leaders if each is not None]
        return any(each.coordinator.gives_notice(machine.name) for each in services if each is not None)

    def empty(self, machine: ClusterMachine) -> None:
        """Kill the node, and replace its disks by empty ones."""
        if machine.node is not None:
            self._world.crash(machine, True)
        self._world.lose_disk(machine)

    def _backup(self, fault: kinds.Fault) -> None:
        machine = self._world.machines[fault.nodes[0]]
        if self._over or machine.backup is None or machine.backup.disk_id != machine.disk_id:
            return
        if not self._all_know_a_later_start(machine, machine.backup.boot):
            # other nodes could not tell the copy from the original: first start the node once more
            if machine.boot <= machine.backup.boot:
                self._kill(kinds.FastRestart(machine.name))
            self._world.loop.call_later(2.5, partial(self._backup, fault))
            return
        if not self._may_lose(machine):
            return
        if machine.node is not None:
            self._world.crash(machine, True)
        self._world.history.life(machine.name).emptied.append(self._world.loop.now_s)
        self._world.history.trace("FAULT", f"{machine.name} has its disk as it was at start {machine.backup.boot}")
        machine.restore_backup()
        self._old_copies.add(machine.peer)
        self._world.loop.call_later(self._rng.random() * 2, partial(self._start_again, machine, machine.life))

    def _all_know_a_later_start(self, machine: ClusterMachine, boot: int) -> bool:
        """Whether all other nodes know a later boot. Raft promises nothing for a peer whose loss of data no other peer
        can detect."""
        for other in self._world.machines.values():
            if other is not machine:
                row = other.member and other.member.membership.members.get(machine.name)
                if not row or row.boot <= boot:
                    return False
        return True

    def _jump(self, fault: kinds.Fault) -> None:
        assert isinstance(fault, kinds.ClockJump)
        machine = self._world.machines[fault.node]
        machine.wall_off_ms += fault.ms
        if not isinstance(fault, rare.ClockSet):
            self._world.loop.call_later(self._rng.choice((1.0, 5.0)), partial(self._jump_back, machine))

    def _jump_back(self, machine: ClusterMachine) -> None:
        machine.wall_off_ms = 0.0


_NAMES = {
    "kill": "kill",
    "power_loss": "power loss",
    "fast_restart": "kill",
    "disk_lost": "power loss",
    "backup_restored": "power loss",
}
"""Kind of fault that ends a process -> the name that the checkers use for it."""


def _paths(fault: kinds.Fault) -> list[tuple[str, str]]:
    if isinstance(fault, kinds.OneWay):
        return [(fault.a, fault.b)]
    if isinstance(fault, kinds.PairCut):
        return [(fault.a, fault.b), (fault.b, fault.a)]
    assert isinstance(fault, kinds.Cut)
    return [
        (one, other)
        for group in fault.groups
        for one in group
        for others in fault.groups
        if others is not group
        for other in others
    ]
