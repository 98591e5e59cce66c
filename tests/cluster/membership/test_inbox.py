"""A node speaks only for itself: in each message to Raft and to the leader."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from strogoff.cluster.membership.boot import BootRefused
from strogoff.cluster.membership.commands import Boot, RecoverSlots, SetSlots, encode_command
from strogoff.cluster.membership.consensus import Consensus
from strogoff.cluster.membership.lease_service import LeaseService
from strogoff.cluster.membership.messages import Goodbye, LeaseRequest, encode_lease
from strogoff.cluster.ports import Datagram
from strogoff.cluster.raft.messages import Message, MessageKind, encode_message
from strogoff.cluster.slots.table import Holder
from tests.harness.members import Machine, MemberHarness


@pytest.fixture(scope="module")
def cluster() -> MemberHarness:
    made = MemberHarness(3)
    made.pass_s(2)
    return made


def leader_of(cluster: MemberHarness) -> Machine:
    return cluster.leader()


def consensus_of(machine: Machine) -> Consensus:
    assert machine.member.consensus is not None
    return machine.member.consensus


def leases_of(machine: Machine) -> LeaseService:
    assert machine.member.lease_service is not None
    return machine.member.lease_service


def start_of(machine: Machine, **changes: Any) -> Boot:
    me = machine.member.me
    return replace(Boot(me.node, me.disk, me.boot, me.process, me.address), **changes)


def errors(machine: Machine) -> list[str]:
    return [text for level, text in machine.log if level == "error"]


def test_a_node_speaks_only_for_itself(cluster: MemberHarness) -> None:
    """A follower with wrong messages for another follower: none has an effect, and one line names the sender."""
    leader = leader_of(cluster)
    speaker, other = (machine for machine in cluster.machines if machine is not leader)
    raft, leases = consensus_of(leader).raft, leases_of(leader)
    last, heard, me = raft.last_index, dict(leases.coordinator._heard), other.member.me
    wrong = [
        (
            Datagram.RAFT,
            encode_message(Message(MessageKind.VOTE, raft.peer, other.member.peer, raft.term + 9, force=True)),
        ),
        (Datagram.LEASE_REQUEST, encode_lease(LeaseRequest(me.node, me.boot, me.process, 1 << 40, (), 1, 1))),
        (Datagram.GOODBYE, encode_lease(Goodbye(me.node, me.boot, me.process))),
        (Datagram.BOOT, encode_command(start_of(other, boot=9, process="other"))),
    ]
    for kind, data in wrong:
        leader.member.datagram(speaker.name, kind, data)
    assert consensus_of(leader).leads and raft.last_index == last and not leases.coordinator._submitted
    assert leases.coordinator._heard == heard and not leases.coordinator._gone
    (line,) = errors(leader)
    assert f"{speaker.name} has sent RAFT for {other.name}: a node speaks only for itself" in line
    cluster.pass_s(2)
    cluster.whole()


def test_a_start_fills_the_log_once(cluster: MemberHarness) -> None:
    """500 different messages of a process about its start, and some of starts that are not its own."""
    leader = leader_of(cluster)
    speaker = next(machine for machine in cluster.machines if machine is not leader)
    for machine in cluster.machines:
        machine.log.clear()
    speaker.kill()
    speaker.start()
    registrar = speaker.member.registrar
    earlier = registrar.earlier
    registrar.tick = lambda: None  # type: ignore[method-assign]
    cluster.until(lambda: getattr(leader.member.links.hello_of(speaker.name), "boot", 0) == 2)
    before, raft = consensus_of(leader).raft.last_index, consensus_of(leader).raft
    for number in range(500):
        leader.member.datagram(
            speaker.name, Datagram.BOOT, encode_command(start_of(speaker, earlier=(*earlier, (1, f"{number}"))))
        )
        leader.member.datagram(
            speaker.name, Datagram.BOOT, encode_command(start_of(speaker, boot=100 + number, process=f"{number}"))
        )
        assert len(leases_of(leader).coordinator._submitted) <= 1
    assert raft.last_index <= before + 1
    del registrar.tick
    cluster.whole()
    assert raft.last_index < before + 20
    for number in range(500):
        leader.member.datagram(speaker.name, Datagram.BOOT, encode_command(start_of(speaker, address=f"b:{number}")))
    assert not leases_of(leader).coordinator._submitted and leader.member.membership.members[speaker.name].boot == 2
    assert len([text for text in errors(leader) if "BOOT for start 100" in text]) <= 1


def test_a_request_with_too_many_holders_never_gets_into_the_log(cluster: MemberHarness) -> None:
    leader = leader_of(cluster)
    for machine in cluster.machines:
        machine.log.clear()
    row = next(row for row in leader.member.slots.rows if row.primary is not None)
    assert row.primary is not None
    holders = (row.primary, *[Holder(f"x{number}", "disk", 1) for number in range(10_000)])
    data = encode_command(SetSlots((replace(row, in_sync=holders),)))
    before = consensus_of(leader).raft.last_index
    speaker = next(machine for machine in cluster.machines if machine.name == row.primary.node)
    leader.member._inbox._said.clear()
    leader.member.datagram(speaker.name, Datagram.SET_SLOTS, data)
    cluster.pass_s(0.3)
    assert consensus_of(leader).raft.last_index == before
    assert f"{speaker.name} has sent SET_SLOTS with 10001 holders of slot {row.slot}, not 16" in errors(leader)[-1]


def test_a_recovery_is_asked_for_by_the_node_of_the_operator_and_for_slots_without_primary(
    cluster: MemberHarness,
) -> None:
    leader = leader_of(cluster)
    speaker, other = (machine for machine in cluster.machines if machine is not leader)
    row = next(row for row in leader.member.slots.rows if row.primary is not None)
    before = consensus_of(leader).raft.last_index
    leader.member._inbox._said.clear()
    for by in (other.name, speaker.name):
        data = encode_command(RecoverSlots((replace(row, in_sync=()),), by))
        leader.member.datagram(speaker.name, Datagram.SET_SLOTS, data)
    assert f"SET_SLOTS for {other.name}" in errors(leader)[-1]
    assert consensus_of(leader).raft.last_index == before


def test_only_the_leader_stops_a_process(cluster: MemberHarness) -> None:
    leader = leader_of(cluster)
    speaker, other = (machine for machine in cluster.machines if machine is not leader)
    refusal = msgspec.msgpack.encode(BootRefused(other.member.me.process, "no"))
    known = other.member.registrar.known
    other.member.registrar.known = lambda: False  # type: ignore[method-assign]
    other.member.datagram(speaker.name, Datagram.BOOT_REFUSED, refusal)
    assert other.member.registrar.problem == ""
    other.member.registrar.known = known  # type: ignore[method-assign]
