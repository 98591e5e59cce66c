"""The grammar of commands."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from strogoff.admin.grammar import Argument, Call, Command, Flag, boolean, find, number, overview, parse
from strogoff.admin.result import CommandError, Part


async def nothing(context: Any, call: Call) -> list[Part]:
    return []


KICK = Command(
    "session kick",
    "Kick.",
    nothing,
    arguments=(Argument("client-id", "who"), Argument("port", "where", number)),
    flags=(
        Flag("cleanup", "all of it", "c"),
        Flag("mountpoint", "where", "m", "MOUNTPOINT"),
        Flag("user", "a field", value="VALUE", optional=True),
        Flag("aggregate", "yes or no", "a", "BOOL", True, boolean),
    ),
)
SET = Command("set", "Set.", nothing, positionals="KEY=VALUE ...")
ALL = (KICK, Command("session kick all", "Kick all.", nothing), Command("session show", "Show.", nothing), SET)
GOOD = ["client-id=a=b", "port=1"]


def test_the_longest_command_name_is_used() -> None:
    assert find(ALL, ["session", "kick", "client-id=x"]) == (KICK, ["client-id=x"])
    assert find(ALL, ["session", "kick", "all", "-x"]) == (ALL[1], ["-x"])
    assert find(ALL, ["set", "a=b"]) == (SET, ["a=b"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["session"],
            "session needs one more word. There are:\n  session kick      Kick.\n  session kick all  Kick all.",
        ),
        (["session", "x"], "Unknown command: session x. There are:"),
        (["sesion", "show", "a=b"], "Unknown command: sesion show. Did you mean session show?"),
        (["quux"], "Unknown command: quux. `vmq-admin --help` lists all commands."),
        (["--flag"], "No command is given."),
        (["trace", "client"], "Strogoff does not have VerneMQ's command trace. Instead: "),
    ],
)
def test_an_unknown_command(words: list[str], said: str) -> None:
    with pytest.raises(CommandError) as error:
        find(ALL, words)
    assert str(error.value).startswith(said)


def test_keys_and_flags() -> None:
    call = parse(KICK, [*GOOD, "--cleanup", "-m", "mp", "--user", "--user=~x", "--aggregate=false"])
    assert call.arguments == {"client-id": "a=b", "port": 1}
    assert call.flags == [
        ("cleanup", None),
        ("mountpoint", "mp"),
        ("user", None),
        ("user", "~x"),
        ("aggregate", False),
    ]
    assert call.has("cleanup") and not parse(KICK, GOOD).has("cleanup")
    assert (call.flag("mountpoint", ""), call.flag("user", 1), parse(KICK, GOOD).flag("user", 1)) == ("mp", "~x", 1)


@pytest.mark.parametrize(
    "words", [["--mountpoint=mp"], ["--mountpoint", "mp"], ["-m", "mp"], ["-m=mp"], ["-m", "x", "-m=mp"]]
)
def test_ways_to_write_a_value(words: list[str]) -> None:
    assert parse(KICK, [*GOOD, *words]).flag("mountpoint", "") == "mp"


def test_a_short_flag_takes_the_next_word_also_if_its_value_may_be_left_out() -> None:
    """`metrics show -a false` is VerneMQ's form."""
    assert parse(KICK, ["-a", "false", *GOOD]).flags == [("aggregate", False)]
    for left_out in (["-a", *GOOD], [*GOOD, "-a"], [*GOOD, "-a", "-c"]):
        assert parse(KICK, left_out).flags[0] == ("aggregate", None)
    with pytest.raises(CommandError, match="false is not expected here"):
        parse(KICK, [*GOOD, "--aggregate", "false"])


def test_positional_arguments() -> None:
    assert parse(SET, ["a=b", "c"]).positionals == ["a=b", "c"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "client-id=... and port=... must be given."),
        (["port=1"], "client-id=... must be given."),
        ([*GOOD, "port=2"], "port= is given twice."),
        ([*GOOD, "x=2"], "session kick has no argument x=.\nUsage: "),
        ([*GOOD, "user=reader"], "session kick has no argument user=. Did you mean --user=reader?"),
        (["port=-1"], "port=: '-1' is invalid: expected a whole number, 0 or more."),
        ([*GOOD, "x"], "x is not expected here."),
        ([*GOOD, "--cleanpu"], "session kick has no flag --cleanpu. Did you mean --cleanup?"),
        ([*GOOD, "-x=3"], "session kick has no flag -x."),
        ([*GOOD, "--"], "session kick has no flag --."),
        ([*GOOD, "--cleanup=1"], "--cleanup takes no value."),
        ([*GOOD, "-m"], "--mountpoint needs a value: --mountpoint=MOUNTPOINT."),
        ([*GOOD, "-a=2"], "--aggregate: '2' is invalid: expected true or false."),
    ],
)
def test_wrong_arguments(words: list[str], said: str) -> None:
    with pytest.raises(CommandError) as error:
        parse(KICK, words)
    assert str(error.value).startswith(said)


ADD = Command("api-key add", "Add.", nothing, arguments=(Argument("key", "the key"),))
START = Command("listener start", "Start.", nothing, flags=(Flag("keypasswd", "of the key", value="PASSWORD"),))


@pytest.mark.parametrize(
    ("command", "word", "said"),
    [
        (ADD, "topsecret", "(hidden) is not expected here."),
        (ADD, "topsecret=", "api-key add has no argument (hidden)=."),
        (ADD, "--topsecret", "api-key add has no flag (hidden)."),
        (ADD, "--key=topsecret", "api-key add has no flag --key."),
        (START, "keypasswd=topsecret", "listener start has no argument keypasswd=. Did you mean --keypasswd=(hidden)?"),
    ],
)
def test_an_answer_contains_no_secret(command: Command, word: str, said: str) -> None:
    """An operator who forgets `key=`, or the dashes of a flag, does not find the key in the answer."""
    with pytest.raises(CommandError) as error:
        parse(command, [word])
    assert str(error.value).startswith(said)
    assert "topsecret" not in str(error.value)


def test_an_unknown_command_shows_no_key() -> None:
    with pytest.raises(CommandError) as error:
        find((ADD, START), ["api-key", "topsecret"])
    assert str(error.value).startswith("Unknown command: api-key (hidden).")


def test_required_arguments() -> None:
    with pytest.raises(CommandError, match="must be given"):
        parse(SET, [])


def test_help() -> None:
    assert KICK.explain() == (
        "Usage: vmq-admin session kick client-id=... port=... [--flags]\n"
        "\n"
        "Kick.\n"
        "\n"
        "  client-id=...                who\n"
        "  port=...                     where\n"
        "  -c, --cleanup                all of it\n"
        "  -m, --mountpoint=MOUNTPOINT  where\n"
        "  --user[=VALUE]               a field\n"
        "  -a, --aggregate[=BOOL]       yes or no"
    )
    assert SET.usage == "vmq-admin set KEY=VALUE ..."
    assert overview(ALL).split("\n")[-1] == "  set               Set."


@pytest.mark.parametrize("text", ["", "-1", "1.0", "\u0663", "9" * 19])
def test_no_number(text: str) -> None:
    with pytest.raises(ValueError, match="a whole number"):
        number(text)


def test_arguments_that_may_be_left_out() -> None:
    command = Command(
        "make", "Make.", nothing, arguments=(Argument("name", "which"), Argument("size", "how big", number, True))
    )
    assert command.usage == "vmq-admin make name=... [size=...]"
    assert parse(command, ["name=x"]).arguments == {"name": "x"}
    assert parse(command, ["size=3", "name=x"]).arguments == {"name": "x", "size": 3}
    with pytest.raises(CommandError, match=r"name=\.\.\. must be given"):
        parse(command, ["size=3"])


def test_progress_is_reported_or_dropped() -> None:
    heard: list[str] = []

    async def report(line: str) -> None:
        heard.append(line)

    async def both() -> None:
        await parse(KICK, GOOD, report).report("half")
        await parse(KICK, GOOD).report("unheard")

    asyncio.run(both())
    assert heard == ["half"]
