"""Commands of VerneMQ that Strogoff does not have."""

from __future__ import annotations

import pytest

from strogoff.admin.grammar import find
from strogoff.admin.registry import COMMANDS
from strogoff.admin.result import CommandError
from strogoff.admin.vernemq_commands import _INSTEAD, instead_of


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trace", "client", "client-id=x"], "Instead: `strogoff analytics follow DIR --client ID --watch` "),
        (["webhooks", "show"], "does not have VerneMQ's command webhooks. Instead: authenticate with vmq_passwd"),
        (["bridge", "show"], "VerneMQ's command bridge. Instead: run a bridge beside"),
        (["session", "disconnect", "batch", "count=5"], "VerneMQ's command session disconnect batch. Instead: `vmq-"),
        (["plugin", "enable", "--name=x"], "Instead: name the plugin in vernemq.conf"),
    ],
)
def test_the_way_to_do_it_here_is_named(words: list[str], said: str) -> None:
    with pytest.raises(CommandError) as error:
        find(COMMANDS, words)
    assert said in str(error.value)


def test_no_command_of_strogoff_is_among_them() -> None:
    for command in COMMANDS:
        assert not instead_of(command.name.split())
    assert not any(name.split()[0] == "metrics" for name in _INSTEAD) and instead_of(["session", "show"]) == ""


def test_the_commands_that_the_answers_name_exist() -> None:
    for said in _INSTEAD.values():
        for part in said.split("`vmq-admin ")[1:]:
            find(COMMANDS, part.partition("`")[0].split())
