"""Loads `Settings` from files, environment and overrides, and reports all problems together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from .checks import check, in_months
from .deprecated import without_removed
from .environment import from_environment
from .listeners import SHORTEST_COOKIE, open_to_guesses, unopened
from .lookup import Setting
from .problems import ConfigError, Problem
from .schema import LISTS, TEXTS, Key, Schema, schema
from .settings import REFERENCE, Settings
from .syntax import Line, read_lines
from .values import WrongValueError

_MOST_SUGGESTIONS = 20
"""Most suggestions for unknown keys. Each takes milliseconds, and a wrong file has an error in every line."""

_LONGEST = 8192
"""Most characters of a value with replaced references. It stops references whose text grows exponentially."""


def load(path: Path | None, environ: Mapping[str, str] = {}, overrides: Mapping[str, str] = {}) -> Settings:
    """Load a vernemq.conf with the `conf.d/*.conf` beside it, DOCKER_VERNEMQ_* variables and overrides.

    Later lines override earlier ones, files override defaults, the environment overrides files, and `overrides`
    override all. Raises `ConfigError` with all problems. `load` reads no environment except `environ`.
    """
    lines, problems, notices = _files(path) if path is not None else ([], [], [])
    repeated = _repeated(lines)
    wanted = from_environment(environ, {line.key: line.text for line in lines})
    for key, (text, variable) in wanted.values.items():
        lines.append(Line(key, text, variable, 0, "environment"))
    if wanted.problem is not None:
        problems.append(Problem(wanted.problem[0], 0, "", wanted.problem[1]))
    lines += [Line(key, text, "override", 0, "override") for key, text in overrides.items()]
    known = schema()
    lines, stopped, warnings = without_removed(lines, known)
    explicit, wrong = _Values(known, lines).parse()
    _aliases(known, explicit, warnings)
    warnings += _months(explicit)
    settings = Settings(known, explicit, [*notices, *repeated, *wanted.warnings, *warnings])
    for listener in unopened(settings):
        settings.notices.append(f"{listener} has options but no address, so it is not opened")
    problems += [*stopped, *wrong, *check(settings)]
    if problems:
        order = {line.file: place for place, line in reversed(list(enumerate(lines)))}
        raise ConfigError(sorted(problems, key=lambda p: (order.get(p.file, -1), p.file, p.line)))
    settings.notices += _open_to_guesses(settings)
    return settings


def _open_to_guesses(settings: Settings) -> list[str]:
    """Warnings for cluster listeners with a short cookie."""
    listeners = settings.listeners()
    if any(listener.type == "vmqs" for listener in listeners):
        return []
    said = (
        f"can be reached from other machines, and distributed_cookie has less than {SHORTEST_COOKIE} characters: "
        "`openssl rand -hex 16` makes a good one"
    )
    return [f"{listener.key} {said}" for listener in listeners if open_to_guesses(settings, listener)]


def usual_file() -> Path | None:
    """`./etc/vernemq.conf` if it exists, also if it is unreadable: then `load` reports that."""
    path = Path("etc/vernemq.conf")
    try:
        return path if path.exists() else None
    except OSError:
        return path


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _files(path: Path) -> tuple[list[Line], list[Problem], list[str]]:
    lines: list[Line] = []
    problems: list[Problem] = []
    warnings: list[str] = []
    folder = path.parent / "conf.d"
    try:
        beside = sorted(each for each in folder.iterdir() if _counts(each.name)) if folder.is_dir() else []
    except OSError as error:
        beside = []
        problems.append(Problem(str(folder), 0, "", f"the folder cannot be read: {_reason(error)}"))
    for file in (path, *beside):
        try:
            content = file.read_bytes().decode("utf-8-sig")
        except OSError as error:
            problems.append(Problem(str(file), 0, "", f"the file cannot be read: {_reason(error)}"))
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            problems.append(Problem(str(file), line, "", "this is not UTF-8", "", ascii(error.object[error.start])))
        else:
            more, wrong, warned = read_lines(content, str(file))
            lines += more
            problems += wrong
            warnings += warned
    return lines, problems, warnings


def _counts(name: str) -> bool:
    """Whether a file of conf.d is read. Editors put locks and copies with a dot beside a file that is edited."""
    return name.endswith(".conf") and not name.startswith(".")


def _repeated(lines: list[Line]) -> list[str]:
    """Warnings for keys that files set more than once."""
    last: dict[str, Line] = {}
    warnings = []
    for line in lines:
        before = last.get(line.key)
        if before is not None:
            warnings.append(f"{line.place}: {line.key} is set again: this line counts, {before.place} does not")
        last[line.key] = line
    return warnings


def _months(explicit: dict[str, Setting]) -> list[str]:
    """Warnings for ages in m."""
    said = {name: in_months(setting.key, setting.line.text) for name, setting in explicit.items()}
    return [f"{explicit[name].line.place}: {warning}" for name, warning in said.items() if warning]


def _aliases(known: Schema, explicit: dict[str, Setting], warnings: list[str]) -> None:
    """`leveldb.sync_on_write = on` is another way to ask for synchronous durability."""
    sync = explicit.get("leveldb.sync_on_write")
    if sync is None or sync.value is not True:
        return
    durability = explicit.get("message_store.durability")
    if durability is None:
        explicit["message_store.durability"] = Setting(known.keys["message_store.durability"], "sync", sync.line)
    elif durability.value != "sync":
        warnings.append(
            f"{sync.line.place}: {sync.line.key} = on does not count, because {durability.line.place} says "
            f"{durability.line.key} = {durability.value}"
        )


class _Values:
    """Parses the effective lines, and replaces `$(key)` by the value of that key."""

    def __init__(self, known: Schema, lines: list[Line]) -> None:
        self._schema = known
        self._lines: dict[str, Line] = {}
        self._references: dict[str, str | None] = {}
        self._suggestions = 0
        self._problems: list[Problem] = []
        for line in lines:
            if known.find(line.key) is None:
                self._problem(line, "unknown key", suggestion=self._nearest(line.key))
            else:
                self._lines[line.key] = line

    def parse(self) -> tuple[dict[str, Setting], list[Problem]]:
        explicit: dict[str, Setting] = {}
        for name, line in self._lines.items():
            key = self._schema.find(name)
            assert key is not None
            text = self._expanded(line, line.text, ())
            if text is None:
                continue
            if "$(" in text and key.type in ("file", "directory"):
                self._problem(line, "there is a $( without a key and )", "$(key)", text)
                continue
            try:
                if text == "" and key.type not in (*TEXTS, *LISTS, "terms", "modules"):
                    raise WrongValueError(key.expected)
                explicit[name] = Setting(key, key.parse(text), line)
            except WrongValueError as error:
                suggestion = error.suggestion or self._meant_option(key, name)
                message = "wrong value" if text else "the value is missing"
                self._problem(line, message, error.expected, text, suggestion)
        return explicit, list(dict.fromkeys(self._problems))

    def _expanded(self, line: Line, text: str, seen: tuple[str, ...]) -> str | None:
        """The text with replaced references, None after a reported problem."""
        for reference in dict.fromkeys(REFERENCE.findall(text)):
            below = None if reference in seen else self._referred(line, reference, seen)
            if below is None:
                if reference in (*seen, line.key):
                    self._problem(line, "the value refers to itself", found=f"$({reference})")
                return None
            text = text.replace(f"$({reference})", below)
            if len(text) > _LONGEST:
                self._problem(line, f"the value is longer than {_LONGEST} characters")
                return None
        return text

    def _referred(self, line: Line, reference: str, seen: tuple[str, ...]) -> str | None:
        """The text of a reference. Each is computed once."""
        if reference not in self._references:
            key = self._schema.find(reference)
            if key is None:
                suggestion = self._nearest(reference)
                self._problem(line, "unknown key in $(...)", found=f"$({reference})", suggestion=suggestion)
                return None
            other = self._lines.get(reference)
            text = other.text if other is not None else key.default or ""
            self._references[reference] = self._expanded(other or line, text, (*seen, reference))
        return self._references[reference]

    def _meant_option(self, key: Key, name: str) -> str:
        """The option probably meant: the misspelt `listener.tcp.max_conections` looks like an address."""
        return self._schema.nearest_option(name) if key.type == "address" else ""

    def _nearest(self, name: str) -> str:
        self._suggestions += 1
        return self._schema.nearest(name) if self._suggestions <= _MOST_SUGGESTIONS else ""

    def _problem(self, line: Line, message: str, expected: str = "", found: str = "", suggestion: str = "") -> None:
        self._problems.append(Problem(line.file, line.line, line.key, message, expected, found, suggestion))
