"""Faults: their text parses to them, and a wrong text is refused with a reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.sim.faults import kinds
from strogoff.sim.faults.kinds import (
    BackupRestored,
    ClockJump,
    Cut,
    Delay,
    DiskFull,
    DiskLost,
    DiskStall,
    FastRestart,
    Fault,
    FaultError,
    Freeze,
    Kill,
    Loss,
    OneWay,
    PairCut,
    Pause,
    PowerLoss,
    parse,
)

from .strategies import FAULTS

SAMPLES: list[tuple[str, Fault, tuple[str, ...]]] = [
    ("cut a b | c", Cut((("a", "b"), ("c",))), ("a", "b", "c")),
    ("cut a | b | c@10.0.0.1", Cut((("a",), ("b",), ("c@10.0.0.1",))), ("a", "b", "c@10.0.0.1")),
    ("pair_cut a b", PairCut("a", "b"), ("a", "b")),
    ("one_way_cut b a", OneWay("b", "a"), ("b", "a")),
    ("delay a b 200ms", Delay("a", "b", 200), ("a", "b")),
    ("loss a b 0.05", Loss("a", "b", 0.05), ("a", "b")),
    ("loss a b 1", Loss("a", "b", 1), ("a", "b")),
    ("kill a", Kill("a"), ("a",)),
    ("power_loss a", PowerLoss("a"), ("a",)),
    ("fast_restart a", FastRestart("a"), ("a",)),
    ("pause a 2.5s", Pause("a", 2.5), ("a",)),
    ("vm_freeze a 5s", Freeze("a", 5), ("a",)),
    ("disk_stall a", DiskStall("a"), ("a",)),
    ("disk_full a", DiskFull("a"), ("a",)),
    ("disk_lost a", DiskLost("a"), ("a",)),
    ("backup_restored a", BackupRestored("a"), ("a",)),
    ("clock_jump a +60000ms", ClockJump("a", 60_000), ("a",)),
    ("clock_jump a -1ms", ClockJump("a", -1), ("a",)),
]


@pytest.mark.parametrize(("text", "fault", "nodes"), SAMPLES)
def test_each_fault_has_its_line(text: str, fault: Fault, nodes: tuple[str, ...]) -> None:
    assert (str(fault), parse(text), fault.nodes) == (text, fault, nodes)


def test_each_word_has_a_sample_and_is_explained() -> None:
    assert {fault.word for _, fault, _ in SAMPLES} == set(kinds.WORDS)
    assert all(f"\n    {word} " in str(kinds.__doc__) for word in kinds.WORDS)


@given(FAULTS)
def test_the_text_of_a_fault_parses_to_it(fault: Fault) -> None:
    assert parse(str(fault)) == fault


@given(st.text(max_size=60) | st.lists(st.sampled_from([*kinds.WORDS, "a", "b", "|", "1s", "5ms", "0.5", "for"])))
def test_any_other_text_is_a_fault_error_or_nothing(text: str | list[str]) -> None:
    line = text if isinstance(text, str) else " ".join(text)
    try:
        fault = parse(line)
    except FaultError as error:
        assert str(error)
    else:
        assert parse(str(fault)) == fault


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'' is not a fault; there are cut, pair_cut, "),
        ("cutt a | b", "'cutt' is not a fault"),
        ("cut a b", "two groups or more"),
        ("cut a | | b", "two groups or more, none of them empty"),
        ("cut a b | a", "a node is named twice: a b a"),
        ("pair_cut a a", "a node is named twice"),
        ("pair_cut a", "pair_cut takes 2 words, not 1"),
        ("kill a b", "kill takes 1 words, not 2"),
        ("kill for", "'for' is not a node name"),
        ("kill a|b", "'a|b' is not a node name"),
        ("delay a b 200", "'200' is not a number of milliseconds"),
        ("delay a b 0ms", "above 0 ms, is 0"),
        ("loss a b 1.5", "at most 1, is 1.5"),
        ("loss a b 0", "above 0 and at most 1"),
        ("loss a b nan", "'nan' is not a share"),
        ("pause a 5", "'5' is not a number of seconds"),
        ("pause a 0s", "seconds must be above 0"),
        ("vm_freeze a 1e999s", "seconds must be above 0, are inf"),
        ("clock_jump a 0ms", "must not be 0 ms"),
    ],
)
def test_a_wrong_fault_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(FaultError) as caught:
        parse(text)
    assert problem in str(caught.value)


def test_names_and_times_are_checked_where_a_fault_is_made() -> None:
    for make in (
        lambda: Kill(""),
        lambda: Kill("a b"),
        lambda: OneWay("a", "a"),
        lambda: Cut((("a",), ())),
        lambda: Pause("a", float("nan")),
    ):
        with pytest.raises(FaultError):
            make()
