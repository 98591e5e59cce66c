"""All commands: each matches its own usage, and has a description."""

from __future__ import annotations

import pytest

from strogoff.admin.grammar import Command, find
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
