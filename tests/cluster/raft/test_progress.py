"""Sending to a peer: probing, pipelining, snapshots; late answers change nothing."""

from __future__ import annotations

from strogoff.cluster.raft.progress import Pace, Progress


def replicating(match: int = 5, window: int = 2) -> Progress:
    progress = Progress(match + 1, window, 0)
    progress.sent(0, 0)
    progress.acknowledged(match)
    return progress


def test_a_probe_waits_for_its_answer() -> None:
    progress = Progress(6, 2, 0)
    assert not progress.paused and progress.nudged
    progress.sent(1, 10)
    assert progress.paused and progress.next == 6
    assert progress.acknowledged(6)
    assert (progress.pace, progress.match, progress.next, progress.paused) == (Pace.REPLICATE, 6, 7, False)


def test_the_window_closes_and_opens() -> None:
    progress = replicating()
    progress.sent(2, 0)
    progress.sent(1, 0)
    assert progress.paused and progress.next == 9
    progress.sent(0, 0)  # an empty one takes no room
    assert progress.acknowledged(7) and not progress.paused
    assert not progress.acknowledged(6)
    assert progress.match == 7


def test_a_refusal_while_pipelining_goes_back_to_the_match_index() -> None:
    progress = replicating()
    progress.sent(2, 0)
    progress.refused(5, 5)  # overtaken by the acknowledgement of 5
    assert progress.pace is Pace.REPLICATE
    progress.refused(7, 3)
    assert (progress.pace, progress.next) == (Pace.PROBE, 6)


def test_a_refused_probe_takes_the_hint() -> None:
    progress = Progress(10, 2, 0)
    progress.sent(1, 0)
    progress.refused(8, 2)  # of another probe
    assert progress.paused
    progress.refused(9, 4)
    assert progress.next == 5 and not progress.paused
    progress.sent(1, 0)
    progress.refused(4, 9)  # a hint without use still moves on
    assert progress.next == 4


def test_a_peer_that_lost_acknowledged_entries_is_not_probed_endlessly() -> None:
    progress = replicating()
    progress.refused(6, 3)
    progress.sent(1, 0)
    progress.refused(5, 3)
    assert progress.paused


def test_a_heartbeat_answer_reveals_lost_messages() -> None:
    progress = replicating()
    progress.sent(1, 0)
    progress.answered_heartbeat(5, 1, 100)
    assert not progress.nudged  # it has everything
    progress.sent(1, 0)
    assert progress.paused
    progress.answered_heartbeat(8, 1, 100)
    assert progress.nudged and not progress.paused


def test_a_probe_is_repeated_without_its_entries() -> None:
    """Over a slow link the first one may be under way, and the heartbeats behind it wait."""
    progress = Progress(10, 2, 0)
    assert not progress.probed
    progress.sent(3, 0)
    progress.answered_heartbeat(12, 1, 100)
    assert not progress.paused and progress.nudged and progress.probed
    progress.sent(0, 2)
    progress.refused(9, 4)
    assert progress.next == 5 and not progress.probed  # other entries
    progress.sent(3, 3)
    assert progress.acknowledged(4) and not progress.probed
    assert (progress.pace, progress.next) == (Pace.REPLICATE, 5)


def test_an_unacknowledged_snapshot_is_sent_again() -> None:
    progress = Progress(1, 2, 0)
    progress.sent_snapshot(9, 0)
    progress.answered_heartbeat(12, 50, 100)
    assert progress.paused and progress.pace is Pace.SNAPSHOT
    assert progress.acknowledged(3) and progress.pace is Pace.SNAPSHOT
    progress.answered_heartbeat(12, 100, 100)
    assert (progress.pace, progress.next) == (Pace.PROBE, 4)
    progress.sent_snapshot(9, 100)
    assert progress.acknowledged(9) and (progress.pace, progress.next) == (Pace.REPLICATE, 10)
