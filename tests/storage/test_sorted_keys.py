"""Keys in order, against a sorted list."""

from __future__ import annotations

from random import Random

from strogoff.storage import sorted_keys
from strogoff.storage.sorted_keys import SortedKeys


def test_empty() -> None:
    keys = SortedKeys()
    assert keys.between(b"", b"\xff") == keys.between(b"", b"\xff", reverse=True) == []
    keys.add(b"a")
    keys.remove(b"a")
    assert keys.between(b"", b"\xff") == keys.between(b"", b"\xff", reverse=True) == []


def test_the_keys_equal_a_sorted_list() -> None:
    rng = Random(3)
    for chunk in (4, 1000):
        sorted_keys.CHUNK = chunk
        try:
            model = {bytes(rng.choices(b"abc", k=rng.randint(0, 6))) for _ in range(50)}
            keys = SortedKeys(model)
            for _ in range(4000):
                key = bytes(rng.choices(b"abc", k=rng.randint(0, 6)))
                if key in model:
                    model.remove(key)
                    keys.remove(key)
                else:
                    model.add(key)
                    keys.add(key)
                start, stop = (bytes(rng.choices(b"abcd", k=rng.randint(0, 4))) for _ in range(2))
                limit, reverse = rng.choice((0, 0, 1, 5)), rng.random() < 0.5
                want = sorted((k for k in model if start <= k < stop), reverse=reverse)
                assert keys.between(start, stop, limit, reverse) == (want[:limit] if limit else want)
            for key in sorted(model):
                keys.remove(key)
            assert keys.between(b"", b"z") == []
        finally:
            sorted_keys.CHUNK = 1000
