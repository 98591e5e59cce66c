"""Tables for eyes and ears."""

from __future__ import annotations

from strogoff.analytics.report.tables import table


def test_a_table_has_a_caption_headers_and_numbers_to_the_right() -> None:
    made = table("Drops & more", ["what", "number"], [["a<b", 1234], [5, "x"]])
    assert "<caption>Drops &amp; more</caption>" in made
    assert '<tr><th scope="col">what</th><th scope="col">number</th></tr>' in made
    assert '<tr><th scope="row">a&lt;b</th><td class="number">1,234</td></tr>' in made
    assert '<tr><th scope="row">5</th><td>x</td></tr>' in made


def test_a_wide_table_can_be_scrolled_with_keys() -> None:
    assert table("T", ["a"], []).startswith('<div class="wide" role="region" aria-label="T" tabindex="0">')
