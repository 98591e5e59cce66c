"""The list of mutants in `mutants.toml`: what each changes, which promise it breaks, and what must find it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).with_name("mutants.toml")


class ListError(ValueError):
    """An entry of the list is wrong; the text names the entry and how to correct it."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One wrong change of one file.

    `before` is replaced by `after`; it must occur exactly once in `file`, a path from the root of the repository.
    `breaks` is the promise, in one sentence. `tests` are paths for pytest. `sim` are options of `strogoff sim`, empty
    if no seed can show the mutant; `first` is the first seed to try.
    """

    name: str
    file: str
    before: str
    after: str
    breaks: str
    tests: tuple[str, ...] = ()
    sim: str = ""
    first: int = 0

    def apply(self, source: str) -> str:
        """Returns the source with the mutant's change. Raises `ListError` unless `before` occurs exactly once."""
        count = source.count(self.before)
        if count != 1:
            raise ListError(
                f"mutant {self.name}: `before` occurs {count} times in {self.file}; it must occur once. "
                "Adapt the entry in mutants/mutants.toml to the present source"
            )
        return source.replace(self.before, self.after)


def read(path: Path = LIST) -> tuple[Mutant, ...]:
    """Returns all mutants of the list, in its order. Raises `ListError` for a wrong entry."""
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", [])
    except tomllib.TOMLDecodeError as error:
        raise ListError(f"{path}: {error}") from error
    found: dict[str, Mutant] = {}
    for row in rows:
        mutant = _mutant(row)
        if mutant.name in found:
            raise ListError(f"mutant {mutant.name}: the name is in the list twice")
        found[mutant.name] = mutant
    return tuple(found.values())


def _mutant(row: dict[str, object]) -> Mutant:
    name = row.get("name", "without a name")
    strings = ("name", "file", "before", "after", "breaks")
    if wrong := [key for key in strings if not isinstance(row.get(key), str)]:
        raise ListError(f"mutant {name}: {', '.join(wrong)} must be given, as text")
    if unknown := sorted(set(row) - {*strings, "tests", "sim", "first"}):
        raise ListError(f"mutant {name}: unknown keys {', '.join(unknown)}")
    tests, sim, first = row.get("tests", []), row.get("sim", ""), row.get("first", 0)
    if not isinstance(tests, list) or not isinstance(sim, str) or not isinstance(first, int):
        raise ListError(f"mutant {name}: tests is a list of paths, sim a text of options, first a number")
    if row["before"] == row["after"]:
        raise ListError(f"mutant {name}: before and after are the same")
    if not tests and not sim:
        raise ListError(f"mutant {name}: neither tests nor sim, so nothing can find it")
    text = {key: str(row[key]) for key in strings}
    return Mutant(**text, tests=tuple([str(each) for each in tests]), sim=sim, first=first)
