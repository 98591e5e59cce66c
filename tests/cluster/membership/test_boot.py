"""Starts of a member: the log has each, and what is an old copy never serves (H-01)."""

from __future__ import annotations

import msgspec
import pytest

from strogoff.cluster.membership.boot import BootRefused
from strogoff.cluster.membership.commands import MalformedCommand, Stale
from strogoff.cluster.ports import Datagram
from tests.harness.members import MemberHarness


def restored(cluster: MemberHarness, boot: int) -> None:
    """Start n3 from a backup that is one start older than its disk, as the start with this number."""
    backup = cluster[3].backup()
    cluster[3].kill()
    cluster[3].start()
    cluster.whole()
    cluster[3].kill()
    cluster[3].restore(backup)
    cluster[3].start(boot=boot)


def started_alone() -> MemberHarness:
    """A cluster whose n3 was killed, and started again while no other node can reach it."""
    cluster = MemberHarness(3)
    cluster[3].kill()
    for other in ("n1", "n2"):
        cluster.network.cut(other, "n3")
    cluster[3].start()
    return cluster


def test_a_start_is_in_the_log_before_it_serves() -> None:
    cluster = MemberHarness(3)
    cluster[3].kill()
    cluster[3].start()
    while not cluster[3].serving:
        cluster.pass_s(0.01)
    row = cluster[3].member.membership.members["n3"]
    assert (row.boot, row.process) == (2, "n3/2")


def test_it_moves_to_another_address() -> None:
    cluster = MemberHarness(3)
    cluster[3].kill()
    cluster[3].start()
    cluster.whole()
    assert cluster[1].member.membership.members["n3"].address == "n3:1"


def test_a_restored_backup_never_serves_and_says_so() -> None:
    cluster = MemberHarness(3)
    backup = cluster[3].backup()
    for _ in range(2):
        cluster[3].kill()
        cluster[3].start()
        cluster.whole()
    cluster[3].kill()
    cluster[3].restore(backup)
    cluster[3].start(boot=2)
    cluster.pass_s(10.0)
    assert not cluster[3].serving
    assert cluster[1].member.view.row("n3") is None
    (said,) = [text for level, text in cluster[3].log if level == "error"]
    assert said.startswith("the cluster does not take this start of n3: ")


def test_a_restored_backup_that_is_started_once_more_is_still_one() -> None:
    """Its number of starts is above the logged one then (3 nodes, seed 204)."""
    cluster = MemberHarness(3)
    restored(cluster, boot=3)
    cluster.pass_s(10.0)
    assert not cluster[3].serving
    assert cluster[1].member.membership.members["n3"].boot == 2
    assert any("[old copy" in text for level, text in cluster[3].log if level == "error")


def test_unlogged_starts_are_not_an_old_copy() -> None:
    cluster = MemberHarness(3)
    for other in ("n1", "n2"):
        cluster.network.cut("n3", other)
    for _ in range(3):
        cluster[3].kill()
        cluster[3].start()
        cluster.pass_s(1.0)
    cluster.network.heal()
    cluster.whole()
    assert cluster[1].member.membership.members["n3"].boot == 4


@pytest.mark.parametrize("others", [("n1", "n2"), ("n2",)])
def test_a_stale_member_gets_the_reason_of_its_refusal(others: tuple[str, ...]) -> None:
    """H-16: Raft goes on without it, so its own log never says so."""
    cluster = MemberHarness(3)
    for other in others:
        cluster.network.cut("n3", other)
    leader = cluster[1].member
    while leader.view.row("n3") is not None:
        cluster.pass_s(0.01)
    assert leader.lease_service is not None
    leader.lease_service.submit(Stale("n3"))
    cluster.pass_s(1.0)
    cluster.network.heal("n3", "n1")
    cluster.pass_s(2.0)
    assert leader.membership.members["n3"].stale and not cluster[3].serving
    (said,) = [text for level, text in cluster[3].log if level == "error"]
    assert said.startswith("the cluster does not take this start of n3: n1 says: ") and "away for too long" in said


def test_a_node_that_committed_entries_the_others_lack_stops() -> None:
    """A copy of the present start cannot be told from the node: with who did not know, it makes another history."""
    cluster = MemberHarness(3)
    backup = cluster[1].backup()
    for other in ("n1", "n3"):
        cluster.network.cut("n2", other)
    cluster.pass_s(8.0)
    cluster[1].kill()
    cluster[1].restore(backup)
    cluster.network.heal()
    for other in ("n1", "n2"):
        cluster.network.cut("n3", other)
    cluster[1].start()
    cluster.pass_s(8.0)
    assert cluster[1].serving and cluster[2].serving
    cluster.network.heal()
    cluster.pass_s(8.0)
    assert not cluster[3].serving and "its log is of another history" in cluster[3].member.registrar.problem
    assert cluster[1].serving and cluster[2].serving


def test_a_restored_backup_of_the_only_voter_stops() -> None:
    """3 nodes, seed 3893: cut off from the others it commits its start alone, and then hears of the true one."""
    cluster = MemberHarness(3, joined=False)
    cluster.join(cluster[2])
    cluster.until(lambda: cluster[1].member.whole)
    backup = cluster[1].backup()
    cluster[1].kill()
    cluster[1].start()
    cluster.until(lambda: cluster[1].serving)
    cluster.join(cluster[3])
    cluster.whole()
    cluster[1].kill()
    cluster[1].restore(backup)
    for other in ("n2", "n3"):
        cluster.network.cut("n1", other)
    cluster[1].start(boot=2)
    cluster.pass_s(1.0)
    consensus = cluster[1].member.consensus
    assert consensus is not None and consensus.own_row_is(2, cluster[1].member.me.process)
    cluster.network.heal()
    cluster.pass_s(8.0)
    assert not cluster[1].serving and "[old copy" in cluster[1].member.registrar.problem
    assert cluster[2].serving and cluster[3].serving


def test_a_restored_backup_does_not_vote() -> None:
    """Its disk has forgotten a vote: with it, two leaders of one term could be elected."""
    cluster = MemberHarness(3)
    restored(cluster, boot=2)
    cluster[2].kill()
    cluster.pass_s(10.0)
    assert not cluster[1].serving
    consensus = cluster[3].member.consensus
    assert consensus is not None
    assert not consensus.leads


def test_the_same_process_again_is_nothing_new() -> None:
    cluster = MemberHarness(3)
    before = cluster[1].member.view
    registrar = cluster[2].member.registrar
    for _ in range(20):
        registrar.tick()
        cluster.pass_s(0.1)
    assert cluster[1].member.view == before


def test_a_refusal_names_the_process_and_another_one_does_not_mind() -> None:
    """The leader's word to a process that is gone can reach the one that was started since."""
    cluster = started_alone()
    member = cluster[3].member
    late = msgspec.msgpack.encode(BootRefused("n3/1", "boot 1 is not above the logged 1"))
    member.datagram("n1", Datagram.BOOT_REFUSED, late)
    assert member.registrar.problem == ""
    cluster.network.heal()
    cluster.whole()


def test_a_refused_start_says_it_once_and_asks_no_more() -> None:
    cluster = started_alone()
    member = cluster[3].member
    refusal = msgspec.msgpack.encode(BootRefused(member.me.process, "boot 2 is not above the logged 7"))
    member.datagram("n1", Datagram.BOOT_REFUSED, refusal)
    member.datagram("n1", Datagram.BOOT_REFUSED, refusal)
    errors = [text for level, text in cluster[3].log if level == "error"]
    assert len(errors) == 1
    assert "boot 2 is not above the logged 7" in errors[0]
    assert "strogoff reset" in errors[0]
    cluster.network.heal()
    cluster.pass_s(5.0)
    assert not cluster[3].serving


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x91\x01", b"just text"])
def test_noise_is_an_error(data: bytes) -> None:
    cluster = MemberHarness(1, joined=False)
    with pytest.raises(MalformedCommand, match="BootRefused of"):
        cluster[1].member.registrar.refusal_received(data)
