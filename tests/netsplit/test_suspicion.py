"""Evidence about peers: silence, links, lease answers, and the difference between their silence and a pause of this
node.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strogoff.netsplit.suspicion import SILENT, Return, Suspicion, SuspicionTracker


def watching(*peers: str, now: int = 0) -> SuspicionTracker:
    suspicions = SuspicionTracker()
    suspicions.watch(peers, now)
    return suspicions


def ask_until(suspicions: SuspicionTracker, now: int, step: int = 250) -> tuple[Suspicion, ...]:
    """Check at every heartbeat up to `now`, as a node does."""
    found: tuple[Suspicion, ...] = ()
    for each in range(0, now + 1, step):
        found = suspicions.suspect(each)
    return found


def test_four_heartbeats_of_silence_are_no_suspicion_and_more_are() -> None:
    suspicions = watching("b")
    suspicions.heard("b", 100)
    assert ask_until(suspicions, 1000) == ()
    assert suspicions.suspect(1100) == ()
    assert suspicions.suspect(1101) == (Suspicion("b", 100, SILENT),)
    assert suspicions.suspect(1300) == (Suspicion("b", 100, SILENT),)


def test_a_peer_that_was_never_heard_is_silent_since_it_is_watched() -> None:
    assert ask_until(watching("b"), 1250) == (Suspicion("b", 0, SILENT),)


def test_a_clock_that_is_set_back_hides_no_silence_and_no_pause() -> None:
    suspicions = watching("b", now=3_600_000)
    suspicions.suspect(3_600_000)
    for now in range(0, 1250, 250):
        suspicions.watch(["b"], now)
        assert suspicions.suspect(now) == ()
    suspicions.watch(["b"], 1250)
    assert suspicions.suspect(1250) == (Suspicion("b", 0, SILENT),)
    suspicions.suspect(9000)
    assert suspicions.absent_since(9000) == 1250


def test_the_longest_silence_comes_first_then_the_name() -> None:
    suspicions = watching("d", "b", "c")
    suspicions.heard("d", 50)
    assert [each.peer for each in ask_until(suspicions, 1250)] == ["b", "c", "d"]


def test_a_lost_link_has_a_reason_until_the_next_frame() -> None:
    suspicions = watching("b")
    suspicions.lost("b", "reset by peer", 10)
    assert ask_until(suspicions, 1000) == ()
    assert suspicions.suspect(1001) == (Suspicion("b", 0, "reset by peer"),)
    suspicions.heard("b", 1100)
    assert suspicions.suspect(1200) == ()
    assert [each.why for each in (*suspicions.suspect(2100), *suspicions.suspect(2101))] == [SILENT]


def test_a_link_without_a_reason_has_one() -> None:
    suspicions = watching("b")
    suspicions.lost("b", "", 10)
    (suspicion,) = ask_until(suspicions, 1250)
    assert suspicion.why == "link down"


def test_a_return_is_reported_once() -> None:
    suspicions = watching("b", "c")
    suspicions.heard("b", 200)
    ask_until(suspicions, 1500)
    suspicions.heard("b", 1700)
    suspicions.heard("b", 1800)
    assert suspicions.returned(1800) == (Return("b", 200, 1500),)
    assert suspicions.returned(1900) == ()
    assert [each.peer for each in suspicions.suspect(1900)] == ["c"]


def test_a_short_silence_is_no_return() -> None:
    suspicions = watching("b")
    suspicions.suspect(500)
    suspicions.heard("b", 900)
    assert suspicions.returned(900) == ()


def test_a_pause_of_this_node_suspects_no_peer() -> None:
    """After a pause of ten seconds the peers' frames are still in the sockets: each peer gets the whole limit again."""
    suspicions = watching("b", "c")
    suspicions.suspect(250)
    assert suspicions.suspect(10_250) == ()
    suspicions.heard("b", 10_260)
    assert suspicions.suspect(11_250) == ()
    assert suspicions.suspect(11_251) == (Suspicion("c", 0, SILENT),)
    assert suspicions.returned(11_251) == ()


def test_a_suspicion_survives_a_pause_of_this_node() -> None:
    suspicions = watching("b")
    ask_until(suspicions, 1500)
    assert suspicions.suspect(20_000) == (Suspicion("b", 0, SILENT),)


def test_members_come_and_go() -> None:
    suspicions = watching("b", "c")
    suspicions.heard("b", 700)
    suspicions.watch(["b", "d"], 900)
    assert [(each.peer, each.since_ms) for each in ask_until(suspicions, 2000)] == [("b", 700), ("d", 900)]
    suspicions.heard("b", 2100)
    suspicions.watch(["d"], 2100)
    assert suspicions.returned(2100) == ()


def test_nodes_that_are_not_members_are_ignored() -> None:
    suspicions = watching()
    suspicions.heard("x", 1)
    suspicions.lost("x", "reset", 1)
    assert ask_until(suspicions, 3000) == ()


@given(st.lists(st.tuples(st.sampled_from("bc"), st.integers(1, 700)), max_size=40))
def test_a_peer_silent_for_more_than_a_second_is_suspected(frames: list[tuple[str, int]]) -> None:
    """Compared with the plain definition after every frame."""
    suspicions = watching("b", "c")
    last = {"b": 0, "c": 0}
    now = 0
    for peer, later in frames:
        now += later
        suspicions.heard(peer, now)
        last[peer] = now
        expected = sorted((since, each) for each, since in last.items() if now - since > 1000)
        assert [(each.since_ms, each.peer) for each in suspicions.suspect(now)] == expected
