"""The reference, and the page of the documentation made from it."""

from __future__ import annotations

from pathlib import Path

from strogoff.configs.reference import reference
from strogoff.configs.schema import schema

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_is_up_to_date() -> None:
    """Rewrite it with `strogoff config reference > docs/configuration.md`."""
    assert PAGE.read_text(encoding="utf-8") == reference(markdown=True)


def test_every_key_is_on_the_page() -> None:
    page = reference(markdown=True)
    names = [*schema().keys, *schema().removed]
    assert [name for name in names if f"`{name}`" not in page] == []


def test_every_key_is_explained_in_plain_text() -> None:
    paragraphs = reference(markdown=False).split("\n\n")
    assert len(paragraphs) == len(schema().keys)
    assert {text.split("\n")[0] for text in paragraphs} == set(schema().keys)
    (entry,) = [text for text in paragraphs if text.startswith("eventlog.rotation.size")]
    assert entry == (
        "eventlog.rotation.size\n"
        "    Size at which a new event log file begins, before it is compressed; at most 64MB.\n"
        "    values: a size in bytes, or with KB, MB or GB\n    default: 64MB\n    effect: yes, ours"
    )


def test_a_word_selects_keys() -> None:
    page = reference(markdown=True, word="retry_interval")
    assert page.count("\n| `") == 1
    assert "| `retry_interval` | an integer, 1 or more | `20` | yes | yes |" in page
    assert reference(markdown=True, word="no such key") == ""
    assert "listener.tcp.proxy_protocol`" in reference(markdown=True, word="tcp.proxy")
