"""All commands: each matches its own usage, and has a description."""

from __future__ import annotations

import pytest

from strogoff.admin.grammar import Command, find, parse
from strogoff.admin.registry import COMMANDS


def test_every_name_is_registered_once() -> None:
    names = [command.name for command in COMMANDS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_a_description(command: Command) -> None:
    assert find(COMMANDS, [*command.name.split(), "--x"]) == (command, ["--x"])
    assert command.help.endswith(".")
    names = [flag.name for flag in command.flags]
    shorts = [flag.short for flag in command.flags if flag.short]
    assert len(set(names)) == len(names)
    assert len(set(shorts)) == len(shorts)
    assert command.explain().startswith(f"Usage: vmq-admin {command.name}")


@pytest.mark.parametrize(
    "line",
    [
        "session show --client_id --rowtimeout=1000",
        "session unsubscribe client-id=c topic=t -p",
        "session unsubscribe -p client-id=c topic=t",
        "retain show --rowtimeout=100",
        "listener start address=127.0.0.1 port=1884 --nr_of_acceptors=10",
        "metrics show --group=vm -a false",
        "plugin show --internal",
        "config show app=vmq_server",
        "config reset app=vmq_server --key=retry_interval",
    ],
)
def test_scripts_for_vernemq_may_have_words_without_effect(line: str) -> None:
    parse(*find(COMMANDS, line.split()))
