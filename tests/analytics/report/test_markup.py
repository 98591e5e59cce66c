"""Text is escaped, whatever it is."""

from __future__ import annotations

import pytest

from strogoff.analytics.report.markup import Html, join, tag, text

NASTY = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a & b", "' onmouseover='x", "</style>"]


@pytest.mark.parametrize("words", NASTY)
def test_text_is_no_markup_anywhere(words: str) -> None:
    for made in (tag("p", words), tag("p", "x", title=words), join(words, "y"), text(words)):
        inside = made.removeprefix("<p").removesuffix("</p>")
        assert "<" not in inside.replace(' title="', "") and words not in made


def test_markup_stays_and_text_beside_it_does_not() -> None:
    assert tag("p", tag("b", "x<y"), " & ", 7) == "<p><b>x&lt;y</b> &amp; 7</p>"
    assert isinstance(tag("p"), Html)
    assert not isinstance(tag("p") + "<script>", Html)


def test_attributes() -> None:
    assert (
        tag("a", "t", href="#f", class_="x", aria_label='"', title=None)
        == '<a href="#f" class="x" aria-label="&quot;">t</a>'
    )
    assert tag("rect", x=1.5, y=2.0, width=3) == '<rect x="1.5" y="2" width="3"/>'


def test_nothing_is_left_out() -> None:
    assert tag("p", None, "a", None) == "<p>a</p>"


@pytest.mark.parametrize("char", ["\u202e", "\u200b", "\x00", "\n", "\ud800", "\x1b"])
def test_characters_that_nobody_sees_are_shown(char: str) -> None:
    """Such as one that turns the direction of what follows, and half of a surrogate pair, which no file can hold."""
    made = tag("p", f"client{char}id", title=char)
    assert made == '<p title="\ufffd">client\ufffdid</p>'
    made.encode("utf-8")
