"""Failed logins: counted by name and address for a minute, in a bounded table, and refused above a limit."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.failed_logins import REMEMBERED, WINDOW_MS, FailedLogins

from ..harness.broker import BrokerHarness

MOST = 3


class Knows:
    """A plugin that knows ann with her password."""

    def __init__(self) -> None:
        self.asked = 0

    def auth_on_register(self, peer: Any, subscriber: Any, user: str | None, password: bytes | None, clean: Any) -> Any:
        self.asked += 1
        return None if user != "ann" else password == b"secret"


def test_repeated_failures_block_a_name_for_an_address_for_a_minute() -> None:
    table = FailedLogins()
    for number in range(MOST):
        assert not table.too_many("10.0.0.1", "ann", MOST, 1000 + number)
        table.failed("10.0.0.1", "ann", 1000 + number)
    assert table.too_many("10.0.0.1", "ann", MOST, 1000 + WINDOW_MS - 1)
    assert not table.too_many("10.0.0.2", "ann", MOST, 2000) and not table.too_many("10.0.0.1", "bob", MOST, 2000)
    assert not table.too_many("10.0.0.1", "ann", MOST, 1000 + WINDOW_MS)
    table.failed("10.0.0.1", "ann", 1000 + WINDOW_MS)
    assert not table.too_many("10.0.0.1", "ann", MOST, 1000 + WINDOW_MS), "a new minute, a first failure"


def test_a_clock_that_is_set_back_blocks_nobody() -> None:
    table = FailedLogins()
    for _ in range(MOST):
        table.failed("10.0.0.1", "ann", 10 * WINDOW_MS)
    assert not table.too_many("10.0.0.1", "ann", MOST, 1000)
    for _ in range(MOST):
        table.failed("10.0.0.1", "ann", 1000)
    assert table.too_many("10.0.0.1", "ann", MOST, 1000 + WINDOW_MS - 1)
    assert not table.too_many("10.0.0.1", "ann", MOST, 1000 + WINDOW_MS)


def test_the_table_is_bounded() -> None:
    table = FailedLogins()
    for number in range(2 * REMEMBERED):
        table.failed("10.0.0.1", f"user{number}", 1000)
    assert len(table) == REMEMBERED


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("user", ["ann", "nobody"])
def test_a_guessing_client_is_blocked_and_others_are_not(version: int, user: str) -> None:
    """The plugin is not asked either. A wrong password and an unknown user get the same answer."""
    plugin = Knows()
    broker = BrokerHarness(plugin, allow_anonymous=False, max_failed_logins=MOST)

    def login(name: str, password: bytes) -> int:
        return int(broker.connect("c", version, username=name, password=password)[1].reason)

    wrong, later = (0x86, 0x9F) if version == 5 else (4, 3)
    if user == "ann":
        wrong = 0x86 if version == 5 else 5  # this plugin only answers "not authorised"
    assert [login(user, b"guess") for _ in range(MOST)] == [wrong] * MOST
    assert (login(user, b"guess"), login(user, b"secret"), plugin.asked) == (later, later, MOST)
    if user != "ann":
        assert login("ann", b"secret") == 0
    broker.pass_s(WINDOW_MS / 1000)
    assert login("ann", b"secret") == 0
    assert [each["reason"] for each in broker.events("conn.refuse")][MOST].startswith("too many failed logins")


def test_without_a_limit_failures_block_no_client() -> None:
    broker = BrokerHarness(Knows(), allow_anonymous=False, max_failed_logins=0)
    answers = [broker.connect("c", 5, username="ann", password=b"no")[1].reason for _ in range(50)]
    assert set(answers) == {0x86}
