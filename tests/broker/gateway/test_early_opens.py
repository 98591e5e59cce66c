"""The OPENs of a gateway that wait at a primary are bounded, by number and by size."""

from __future__ import annotations

from strogoff.broker.gateway.early_opens import EARLY_BYTES, EARLY_MOST, Arrival, EarlyOpens
from strogoff.broker.gateway.messages import OPENING_BYTES


def arrival(data: bytes) -> Arrival:
    return Arrival(data, 7)


def test_the_number_is_bounded() -> None:
    opens = EarlyOpens()
    kept = [opens.keep(number, arrival(b"x")) for number in range(EARLY_MOST + 2)]
    assert kept == [True] * EARLY_MOST + [False] * 2 and len(opens) == EARLY_MOST
    assert opens.pop(0) == arrival(b"x") and opens.keep(EARLY_MOST, arrival(b"x"))


def test_the_bytes_are_bounded() -> None:
    opens = EarlyOpens()
    count = EARLY_BYTES // OPENING_BYTES
    kept = [opens.keep(number, arrival(bytes(OPENING_BYTES))) for number in range(count + 1)]
    assert kept == [True] * count + [False]
    assert opens.keep(0, arrival(b"again")) and opens.keep(count, arrival(b"small"))
    assert not opens.keep(count + 1, arrival(bytes(OPENING_BYTES))), "0 has room for less"
    assert opens.pop(1) is not None and opens.pop(1) is None and opens.keep(count + 1, arrival(bytes(OPENING_BYTES)))
    assert len(opens.pop_all()) == len(range(count + 1)) and len(opens) == 0
    assert opens.keep(0, arrival(bytes(EARLY_BYTES)))
