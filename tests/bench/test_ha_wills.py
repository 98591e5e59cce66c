"""The count of wills: one for each client that is gone, in time, and none for the others."""

from __future__ import annotations

import random

import pytest

from bench import ha_wills
from bench.ha_wills import DUE_S, Wills, connect_fields


class Clock:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def time(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(ha_wills, "time", clock)
    return clock


def wills_of(*names: str) -> Wills:
    wills = Wills()
    for name in names:
        wills.add(name, "gateway")
    return wills


def come(wills: Wills, *names: str) -> None:
    for name in names:
        wills.delivered(f"will/{name}", name.encode(), 2, {})


def test_one_will_for_each_client_that_is_gone(clock: Clock) -> None:
    wills = wills_of("gone", "stays")
    wills.is_gone("gone")
    assert wills.waits
    clock.now_s += 3
    come(wills, "gone")
    assert wills.violations() == [] and not wills.waits
    assert (wills.gone, wills.back, wills.latest_s) == (1, 1, 3.0)


@pytest.mark.parametrize(
    ("came", "wrong"),
    [
        ([], "gone (gateway): 0 wills, 1 due"),
        (["gone", "gone"], "gone (gateway): 2 wills, 1 due"),
        (["gone", "stays"], "stays (gateway): 1 wills, 0 due"),
    ],
)
def test_a_wrong_number_of_wills(clock: Clock, came: list[str], wrong: str) -> None:
    wills = wills_of("gone", "stays")
    wills.is_gone("gone")
    come(wills, *came)
    clock.now_s += DUE_S
    assert wills.violations() == [wrong] and not wills.waits


def test_a_will_that_comes_too_late(clock: Clock) -> None:
    wills = wills_of("gone")
    wills.is_gone("gone")
    clock.now_s += DUE_S + 1
    come(wills, "gone")
    assert wills.violations() == [f"gone (gateway): its will came after {DUE_S + 1:.1f} s"]


@pytest.mark.parametrize(("given_up", "wrong"), [(1, ["stays (gateway): 2 wills, 0 due"]), (2, [])])
def test_a_connection_that_the_client_gave_up_may_have_a_will(clock: Clock, given_up: int, wrong: list[str]) -> None:
    wills = wills_of("stays")
    for _ in range(given_up):
        wills.gave_up("stays")
    come(wills, "stays", "stays")
    assert wills.violations() == wrong


def test_clients_have_durable_and_clean_sessions() -> None:
    rng = random.Random(1)
    found = [connect_fields("c", rng) for _ in range(40)]
    assert {version for version, _ in found} == {4, 5}
    expiries = {fields["properties"]["session_expiry_interval"] for version, fields in found if version == 5}
    assert expiries == {0, 3600}
    assert {(fields["will"].topic, fields["will"].qos) for _, fields in found} == {("will/c", 2)}


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("came", [[], ["late"]])
def test_a_client_that_comes_back_when_the_grace_is_over_may_have_had_its_will(came: list[str]) -> None:
    wills = wills_of("late")
    wills.came_late("late")
    come(wills, *came)
    assert wills.violations() == []
