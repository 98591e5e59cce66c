"""Boots of a member: the log has each one, and a node with an old copy of its disk never serves (H-01)."""

from __future__ import annotations

import msgspec
import pytest

from strogoff.cluster.membership.boot import BootRefused
from strogoff.cluster.membership.commands import MalformedCommand, Stale
from strogoff.cluster.ports import Datagram
from tests.harness.members import MemberHarness


def restored(cluster: MemberHarness, boot: int) -> None:
    """Start n3 from a backup that is one boot older than its disk, with this boot number."""
    backup = cluster[3].backup()
    cluster[3].kill()
    cluster[3].start()
    cluster.whole()
    cluster[3].kill()
    cluster[3].restore(backup)
    cluster[3].start(boot=boot)


def started_alone() -> MemberHarness:
    """A cluster whose n3 was killed and started again while it can reach no other node."""
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


def test_a_restored_backup_never_serves_and_logs_the_reason() -> None:
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


def test_a_restored_backup_stays_refused_after_another_boot() -> None:
    """Its boot number is above the logged one then (3 nodes, seed 204)."""
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
    """H-16: Raft continues without it, so its own log never tells it."""
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
    """A copy of the present boot looks like the node itself: with a node that lacked the entries it would write another
    history.
    """
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


def test_a_copy_of_the_process_that_ran_last_is_refused_by_what_it_had_acknowledged() -> None:
    """Its starts are those of the log. The leader knows which entries it had, and a later start knows the refusal."""
    cluster = MemberHarness(3)
    backup = cluster[3].backup()
    cluster[2].kill()
    cluster[2].start()
    cluster.whole()
    assert cluster[1].member.consensus is not None and cluster[1].member.consensus.leads
    cluster[3].kill()
    cluster[3].restore(backup)
    cluster[3].start()
    cluster.pass_s(3.0)
    (said,) = [text for level, text in cluster[3].log if level == "error"]
    assert said.startswith("the cluster does not take this start of n3: it has forgotten what it had acknowledged: ")
    assert "`strogoff reset`" in said
    cluster[3].kill()
    cluster[1].kill()
    cluster[1].start()
    cluster[3].start()  # the leader that knew is gone
    cluster.pass_s(10.0)
    assert cluster[3].member.registrar.problem and not cluster[3].serving
    assert cluster[1].serving and cluster[2].serving


def test_a_restored_backup_of_the_only_voter_stops() -> None:
    """3 nodes, seed 3893: cut off, it commits its boot alone, and then learns of the original."""
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
    consensus = cluster[1].member.consensus
    assert consensus is not None
    cluster.until(lambda: consensus.own_row_is(2, cluster[1].member.me.process))  # it has missed the others first
    cluster.network.heal()
    cluster.pass_s(8.0)
    assert not cluster[1].serving and "[old copy" in cluster[1].member.registrar.problem
    assert cluster[2].serving and cluster[3].serving


def test_a_restored_backup_does_not_vote() -> None:
    """Its disk has lost a vote: with it, two leaders of one term could be elected."""
    cluster = MemberHarness(3)
    restored(cluster, boot=2)
    cluster[2].kill()
    cluster.pass_s(10.0)
    assert not cluster[1].serving
    consensus = cluster[3].member.consensus
    assert consensus is not None
    assert not consensus.leads


def test_a_repeated_request_of_the_same_process_changes_nothing() -> None:
    cluster = MemberHarness(3)
    before = cluster[1].member.view
    registrar = cluster[2].member.registrar
    for _ in range(20):
        registrar.tick()
        cluster.pass_s(0.1)
    assert cluster[1].member.view == before


def test_a_refusal_is_only_for_the_process_that_it_names() -> None:
    """A refusal by the leader for a dead process can reach the next process of the node."""
    cluster = started_alone()
    member = cluster[3].member
    late = msgspec.msgpack.encode(BootRefused("n3/1", "boot 1 is not above the logged 1"))
    member.datagram("n1", Datagram.BOOT_REFUSED, late)
    assert member.registrar.problem == ""
    cluster.network.heal()
    cluster.whole()


def test_a_refused_boot_logs_it_once_and_sends_no_more_requests() -> None:
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


def test_a_member_that_cannot_apply_an_entry_says_so_and_gives_up_its_lease() -> None:
    """It may have applied a part of the entry. The others go on without it. When it starts again, it comes back."""
    cluster = MemberHarness(3)
    three = cluster[3]

    def raises(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    three.listener.view_applied = raises  # type: ignore[method-assign, assignment]
    cluster[2].kill()
    cluster[2].start()
    with pytest.raises(ZeroDivisionError):
        cluster.pass_s(5)
    assert not three.member.leased()
    says = "an error has stopped n3 while it applied the log of the cluster: ZeroDivisionError: a defect. Stop the node"
    (line,) = [text for level, text in three.log if level == "error"]
    assert line.startswith(says) and three.member.registrar.problem.startswith(says)
    cluster.until(lambda: cluster[1].member.view.serving == cluster[2].member.view.nodes == ("n1", "n2"))
    three.kill()
    three.start()
    cluster.whole()


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x91\x01", b"just text"])
def test_noise_is_an_error(data: bytes) -> None:
    cluster = MemberHarness(1, joined=False)
    with pytest.raises(MalformedCommand, match="BootRefused of"):
        cluster[1].member.registrar.refusal_received(data)
