"""The grammar of commands: `session disconnect client-id=c1 --cleanup`, as in VerneMQ.

The first words name the command. `name=value` is an argument. `--long`, `--long=value` and `-s value` are flags. Every
error is a `CommandError` with a sentence that says what is expected.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import msgspec

from .result import CommandError, Part
from .secret_words import shown
from .vernemq_commands import instead_of

if TYPE_CHECKING:
    from .context import Context


def number(text: str) -> int:
    """Parse a whole number, 0 or more. ValueError has a phrase that says what is expected."""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ValueError("a whole number, 0 or more")
    return int(text)


def boolean(text: str) -> bool:
    """Parse true or false. ValueError has a phrase that says what is expected."""
    if text not in ("true", "false", "on", "off"):
        raise ValueError("true or false")
    return text in ("true", "on")


async def _ignore_progress(line: str) -> None:
    """Stands for a client that takes no lines of progress."""


class Argument(msgspec.Struct, frozen=True):
    """An argument `name=value`. `convert` parses the value; its ValueError says what is expected."""

    name: str
    help: str
    convert: Callable[[str], Any] = str
    optional: bool = False


class Flag(msgspec.Struct, frozen=True):
    """An option of a command: `--name`, or `--name=VALUE` if it has a `value`. The help shows `value` as the
    placeholder. With `optional` the user may leave the value out."""

    name: str
    help: str
    short: str = ""
    value: str = ""
    optional: bool = False
    convert: Callable[[str], Any] = str


NO_EFFECT = "no effect: it exists for scripts that were written for VerneMQ"
"""The help of an argument or flag of VerneMQ that has no meaning here."""

Report = Callable[[str], Awaitable[None]]


class Call(msgspec.Struct, frozen=True):
    """A parsed command line: flags in their order. The value of a switch, or a value that is left out, is None.

    `report` sends a line of progress to the operator while the command runs.
    """

    arguments: dict[str, Any]
    flags: list[tuple[str, Any]]
    positionals: list[str]
    report: Report = _ignore_progress

    def has(self, flag: str) -> bool:
        """Whether the command line has this flag."""
        return any(name == flag for name, _ in self.flags)

    def flag(self, flag: str, default: Any) -> Any:
        """The value of a flag. The last one counts."""
        return {name: value for name, value in self.flags if value is not None}.get(flag, default)


Run = Callable[["Context", Call], Awaitable[list[Part]]]


class Command(msgspec.Struct, frozen=True):
    """One command. `positionals` is the placeholder of one or more positional arguments, such as KEY."""

    name: str
    help: str
    run: Run
    arguments: tuple[Argument, ...] = ()
    flags: tuple[Flag, ...] = ()
    positionals: str = ""

    @property
    def usage(self) -> str:
        """One line with the syntax."""
        named = (f"[{key.name}=...]" if key.optional else f"{key.name}=..." for key in self.arguments)
        parts = [f"vmq-admin {self.name}", *named]
        parts += [self.positionals] if self.positionals else []
        parts += ["[--flags]"] if self.flags else []
        return " ".join(parts)

    def explain(self) -> str:
        """The text of `--help`."""
        rows = [(f"{key.name}=...", key.help) for key in self.arguments]
        rows += [(_written(flag), flag.help) for flag in self.flags]
        width = max((len(left) for left, _ in rows), default=0)
        return "\n".join([f"Usage: {self.usage}", "", self.help, *_two_columns(rows, width)])


def _written(flag: Flag) -> str:
    value = f"[={flag.value}]" if flag.optional else f"={flag.value}" if flag.value else ""
    return f"-{flag.short}, --{flag.name}{value}" if flag.short else f"--{flag.name}{value}"


def _two_columns(rows: list[tuple[str, str]], width: int) -> list[str]:
    return ["", *(f"  {left:<{width}}  {right}" for left, right in rows)] if rows else []


def overview(commands: Iterable[Command]) -> str:
    """A list of commands, one on each line."""
    rows = [(command.name, command.help) for command in commands]
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(_two_columns(rows, width)[1:])


def find(commands: Sequence[Command], words: Sequence[str]) -> tuple[Command, list[str]]:
    """The command that the words begin with, and the other words. Raises `CommandError`."""
    if instead := instead_of([word for word in words if not word.startswith("-") and "=" not in word]):
        raise CommandError(instead)
    named = {tuple(command.name.split()): command for command in commands}
    for length in range(min(3, len(words)), 0, -1):
        command = named.get(tuple(words[:length]))
        if command is not None:
            return command, list(words[length:])
    plain = [word for word in words if not word.startswith("-") and "=" not in word]
    family = [command for command in commands if plain and command.name.split()[0] == plain[0]]
    if not plain:
        raise CommandError(f"No command is given. Commands are:\n{overview(commands)}")
    said = f"Unknown command: {' '.join(shown(plain)[:3])}."
    if len(plain) == 1 and family:
        said = f"{plain[0]} needs one more word."
    if family:
        raise CommandError(f"{said} There are:\n{overview(family)}")
    near = get_close_matches(" ".join(plain[:2])[:80], [command.name for command in commands], 1, 0.6)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise CommandError(f"{said}{hint} `vmq-admin --help` lists all commands.")


def parse(command: Command, words: Sequence[str], report: Report = _ignore_progress) -> Call:
    """Parse the arguments and flags of a command. Raises `CommandError`."""
    call = Call({}, [], [], report)
    todo = list(words)
    while todo:
        word = todo.pop(0)
        if word.startswith("-") and word != "-":
            _flag(command, call, word, todo)
        elif "=" in word and not command.positionals:
            _key(command, call, word)
        elif command.positionals:
            call.positionals.append(word)
        else:
            raise CommandError(f"{_shown(command, word)} is not expected here.\n{command.explain()}")
    missing = [key.name for key in command.arguments if key.name not in call.arguments and not key.optional]
    if missing:
        raise CommandError(f"{' and '.join(f'{name}=...' for name in missing)} must be given.\n{command.explain()}")
    if command.positionals and not call.positionals:
        raise CommandError(f"{command.positionals} must be given.\n{command.explain()}")
    return call


def _key(command: Command, call: Call, word: str) -> None:
    name, _, text = word.partition("=")
    written = _shown(command, word)
    key = next((key for key in command.arguments if key.name == name), None)
    if key is None:
        if any(name == flag.name and flag.value for flag in command.flags):
            raise CommandError(f"{command.name} has no argument {name}=. Did you mean --{written}?")
        raise CommandError(f"{command.name} has no argument {written.partition('=')[0]}=.\n{command.explain()}")
    if name in call.arguments:
        raise CommandError(f"{name}= is given twice.")
    call.arguments[name] = _converted(f"{name}=", key.convert, text)


def _flag(command: Command, call: Call, word: str, todo: list[str]) -> None:
    name, equals, text = word.lstrip("-").partition("=")
    short = not word.startswith("--")
    flag = next((flag for flag in command.flags if name == (flag.short if short else flag.name)), None)
    if flag is None or not name:
        near = get_close_matches(name[:80], [flag.name for flag in command.flags], 1, 0.6)
        hint = f" Did you mean --{near[0]}?" if near else ""
        written = _shown(command, word).partition("=")[0]
        raise CommandError(f"{command.name} has no flag {written}.{hint}\n{command.explain()}")
    wants = bool(flag.value) and not equals
    if wants and flag.optional:
        # `-a false` is VerneMQ's form; `-a` alone may precede another flag or an argument
        wants = short and bool(todo) and not todo[0].startswith("-") and "=" not in todo[0]
    if wants:
        if not todo:
            raise CommandError(f"--{flag.name} needs a value: --{flag.name}={flag.value}.")
        equals, text = "=", todo.pop(0)
    if equals and not flag.value:
        raise CommandError(f"--{flag.name} takes no value.")
    call.flags.append((flag.name, _converted(f"--{flag.name}", flag.convert, text) if equals else None))


def _shown(command: Command, word: str) -> str:
    """A word of the command line for an answer: with its secret hidden, if it has one."""
    return shown([*command.name.split(), word])[-1]


def _converted(where: str, convert: Callable[[str], Any], text: str) -> Any:
    try:
        return convert(text)
    except ValueError as error:
        raise CommandError(f"{where}: {text!r} is invalid: expected {error}.") from None
