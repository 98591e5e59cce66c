"""A cache by text keeps a number of short texts."""

from __future__ import annotations

from strogoff.broker.remembered import TEXT_KEPT, remembered


def test_long_texts_are_not_kept() -> None:
    asked: list[int] = []

    def size(text: str) -> int:
        asked.append(len(text))
        return len(text)

    cached = remembered(10, size)
    for length in (TEXT_KEPT, TEXT_KEPT + 1, TEXT_KEPT, TEXT_KEPT + 1):
        assert cached("x" * length) == length
    assert asked == [TEXT_KEPT, TEXT_KEPT + 1, TEXT_KEPT + 1]


def test_the_number_of_texts_is_bounded() -> None:
    asked: list[str] = []
    cached = remembered(2, lambda text: asked.append(text))
    for text in "abcab":
        cached(text)
    assert asked == list("abcab")
