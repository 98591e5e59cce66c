"""The names and definitions of the anomalies, from the docstrings of their modules."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Final, NamedTuple

from . import anomalies


class Definition(NamedTuple):
    """What an anomaly is. `title`: number and name, such as `A1 lost-acked`; `sentence`: what it means in short;
    `text`: the rest, in paragraphs and lists as in docs/anomalies.md."""

    title: str
    sentence: str
    text: str


def parse(docstring: str) -> Definition:
    """Returns the parts of a module's docstring. Raises ValueError for one without number and name."""
    first, _, rest = docstring.partition("\n")
    title, colon, sentence = first.partition(": ")
    if not colon:
        raise ValueError(f"{first!r} does not begin with the number and the name of an anomaly")
    return Definition(title, sentence[:1].upper() + sentence[1:], rest.strip())


def _all() -> dict[str, Definition]:
    modules = [import_module(f"{anomalies.__name__}.{each.name}") for each in iter_modules(anomalies.__path__)]
    # without docstrings (python -OO) the number alone is known
    found = [parse(each.__doc__) if each.__doc__ else Definition(each.ID, "", "") for each in modules]
    return {each.title.partition(" ")[0]: each for each in found}


DEFINITIONS: Final = _all()
"""Number of an anomaly, such as `A1` -> its definition."""
