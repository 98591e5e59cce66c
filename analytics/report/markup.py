"""Makes HTML of parts. Text is escaped always: only what this module has made is taken for markup.

Characters that no reader sees, such as those that turn the direction of a text, are shown as U+FFFD: a client id must
not look like another one.
"""

from __future__ import annotations

from html import escape
from typing import Final


class Html(str):
    """Markup, made by `tag` or `join`."""

    __slots__ = ()


Part = str | int | Html | None
"""What a tag may contain: text, a number, markup, or nothing."""

EMPTY: Final = frozenset(("br", "meta", "rect", "line", "path", "polyline", "use"))
"""Tags without content here."""


def text(value: str | int) -> Html:
    """Returns a text as markup."""
    return Html(escape("".join(char if char.isprintable() else "\ufffd" for char in str(value))))


def join(*parts: Part) -> Html:
    """Returns parts in a row."""
    return Html("".join(each if isinstance(each, Html) else text(each) for each in parts if each is not None))


def tag(name: str, /, *parts: Part, **attributes: str | int | float | None) -> Html:
    """Returns an element. In names of attributes `_` stands for `-`, and one at the end is left out (`class_`); an
    attribute that is None is left out, too."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{given}/>" if name in EMPTY else f"<{name}{given}>{join(*parts)}</{name}>")


def _plain(value: str | int | float) -> str | int:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
