"""Boots: when they died, and whether the log has them from the begin."""

from __future__ import annotations

from strogoff.cluster.membership.state_machine import UNLOGGED_MAX
from strogoff.judge.lives import RENUMBERED, BootRows, Lives
from strogoff.judge.rows import LOGICAL_BITS, NEVER
from strogoff.judge.run import Grouped
from strogoff.judge.sessions import Home

from ..testing.log_audit.log_builder import NODE, Log


def boot(first: int, last: int, stopped: bool = False, seq: int = 1) -> BootRows:
    return BootRows(seq, first, seq + 5, last, stopped)


def test_deaths() -> None:
    """A boot that was followed by another without a stop, or an injected kill."""
    log = Log()
    log.say("node.stop")
    log.boot()
    log.boot()
    log.say("fault.kill", nodes=[NODE])
    lives = Grouped(log.rows).world().lives
    assert sorted(lives.deaths) == [(NODE, 2), (NODE, 3)]
    assert lives.had_died(NODE, 3, log.rows[-1]["hlc"] + 1) and not lives.had_died(NODE, 3, log.rows[-1]["hlc"])
    assert lives.death(NODE, 1) == NEVER


def test_a_boot_whose_end_is_known_to_the_next_one() -> None:
    """Another last row, earlier or later, says that rows are missing: not if the node has another disk, or if the log
    begins later, or if a loss of power took rows."""
    assert RENUMBERED == UNLOGGED_MAX
    for number, known, lost, cut_off in (
        (2, 6, False, False),
        (2, None, False, False),
        (2, 7, False, True),
        (2, 5, False, True),
        (2, 7, True, False),
        (1 + RENUMBERED, 7, False, True),
        (2 + RENUMBERED, 7, False, False),
    ):
        lives = Lives({("a", 1): boot(1, 9), ("a", number): boot(20, 29)})
        lives.started({"node": "a", "boot": 1, "hlc": 1, "known_seq": 99, "tail_lost": False})
        lives.started({"node": "a", "boot": number, "hlc": 20, "known_seq": known, "tail_lost": lost})
        assert ([*lives.cut_off] == [("a", 1)]) is cut_off
        assert (lives.tails == {"a": [(9, 20)]}) is (cut_off or lost)


def test_a_fault_is_noted_by_the_node_that_it_strikes() -> None:
    lives = Lives({("a", 1): boot(1, 9), ("b", 1): boot(1, 9)})
    lives.killed({"node": "a", "boot": 1, "hlc": 5, "nodes": ["b"]})
    assert lives.deaths == {}


def test_logs_that_begin_inside() -> None:
    """A message of an earlier boot, or of a boot whose begin was deleted, may have been accepted before the log."""
    lives = Lives({("a", 3): boot(1, 9), ("b", 1): boot(1, 9, seq=7)})
    assert lives.begins_inside("a", 2) and not lives.begins_inside("a", 3) and not lives.begins_inside("a", 4)
    assert lives.begins_inside("b", 1) and lives.begins_inside("unknown", 1)


def test_the_first_boot_that_died_with_a_session() -> None:
    """A boot that died after the session had left it did not have it any more."""
    homes = [Home(1, "a", 1), Home(20, "b", 1), Home(30, "c", 1)]
    lives = Lives({(node, 1): boot(1, 9) for node in "abc"})
    assert lives.death_with(homes) == NEVER
    for node, stamp, found in (("c", 50, 50), ("a", 25, 50), ("b", 35, 50), ("b", 25, 25), ("a", 15, 15)):
        lives.deaths[node, 1] = stamp
        assert lives.death_with(homes) == found


def test_which_boots_die_without_another_row() -> None:
    """The log may show that long after."""
    lives = Lives({("a", 1): boot(1, 9), ("a", 2): boot(50, 60)})
    assert lives.dies_silently("a", 1, 10) and not lives.dies_silently("a", 1, 9)
    assert not lives.dies_silently("a", 2, 70)
    lives.deaths["b", 1] = 5
    assert lives.dies_silently("b", 1, 1)


def test_what_a_kill_undoes_when_the_message_store_took_nothing() -> None:
    """From a second before its node said that on, until it says that the store takes something again."""
    second = 1_000 << LOGICAL_BITS
    lives = Lives({("a", 1): boot(1, 9 * second)})
    lives.deaths["a", 1] = 9 * second

    def undone() -> list[int]:
        later = {"hlc": 9 * second + 1}
        rows = [{"node": "a", "boot": 1, "hlc": at * second} for at in range(1, 10)]
        return [at for at, row in enumerate(rows, 1) if lives.may_be_undone(row, later)]

    assert undone() == [9]
    for state, at, expected in (
        ("damaged", 2, [9]),
        ("full", 4, [4, 5, 6, 7, 8, 9]),
        ("failed", 6, [4, 5, 6, 7, 8, 9]),
        ("serving", 7, [9]),
        ("failed", 8, [8, 9]),
    ):
        lives.stored({"node": "a", "boot": 1, "state": state, "hlc": at * second})
        assert undone() == expected
