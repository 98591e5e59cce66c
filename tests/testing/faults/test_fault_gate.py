"""The fault gate between listeners and core: it drops, holds and cuts, and otherwise changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.testing.faults.fault_gate import FaultGate
from strogoff.testing.faults.packet_drops import Drop
from strogoff.testing.runtime.idle import IdleDetector

PINGREQ, PUBACK = b"\xc0\x00", b"\x40\x02\x00\x01"


class Ends:
    """Both sides of a gate, a connection and a front, which record their calls."""

    def __init__(self, *drops: Drop) -> None:
        self.told: list[Any] = []
        self.client_id = "c"
        self.gate = FaultGate(self.make_connection, lambda connection: None, IdleDetector(), list(drops))
        self.link: Any = None
        self.passage: Any = self.gate.accept(_Link(self.told), None)  # type: ignore[arg-type]

    def make_connection(self, link: Any, origin: Any) -> Any:
        self.link = link
        self.told.append("front made")
        return self

    def receive(self, data: bytes) -> None:
        self.told.append(("in", data))

    def lost(self, reason: str) -> None:
        self.told.append(("lost", reason))

    def writable(self, flag: bool) -> None:
        self.told.append(("writable", flag))


class _Link:
    def __init__(self, told: list[Any]) -> None:
        self._told = told

    def write(self, data: bytes) -> None:
        self._told.append(("out", data))

    def __getattr__(self, name: str) -> Any:
        return lambda: self._told.append(name)


def test_everything_passes() -> None:
    """Packets pass in both directions, and count as activity."""
    ends = Ends()
    ends.passage.receive(PINGREQ)
    ends.link.write(PUBACK)
    ends.passage.writable(False)
    for call in ("pause_reading", "resume_reading", "accepted", "close", "abort"):
        getattr(ends.link, call)()
    ends.passage.lost("closed")
    assert ends.told == [
        "front made",
        ("in", PINGREQ),
        ("out", PUBACK),
        ("writable", False),
        *("pause_reading", "resume_reading", "accepted", "close", "abort"),
        ("lost", "closed"),
    ]
    assert ends.gate.activity.count == len(ends.told) and ends.gate.connections == {}


def test_another_port_takes_over() -> None:
    ends, other = Ends(), Ends()
    assert not ends.link.watch_silence(1000)
    ends.link.hand_over(other)
    ends.passage.receive(PINGREQ)
    ends.passage.writable(True)
    ends.passage.lost("closed")
    assert ends.told == ["front made"]
    assert other.told == ["front made", ("in", PINGREQ), ("writable", True), ("lost", "closed")]


def test_a_packet_is_dropped_in_its_direction() -> None:
    """The same packet in the other direction passes."""
    ends = Ends(Drop("PUBACK", direction="in"))
    ends.link.write(PUBACK)
    ends.passage.receive(PUBACK + PINGREQ)
    assert ends.told[1:] == [("out", PUBACK), ("in", PINGREQ)]


def test_nothing_passes_after_a_cut() -> None:
    """Packets behind the dropped one are lost with the connection."""
    ends = Ends(Drop("PUBACK", direction="in", then="cut"))
    ends.passage.receive(PUBACK + PINGREQ)
    ends.link.write(PUBACK)
    ends.passage.lost("aborted")
    assert ends.told[1:] == [("lost", "aborted")]


@pytest.mark.parametrize("cut", [PUBACK + PINGREQ, PUBACK])
def test_packets_before_the_cut_pass(cut: bytes) -> None:
    """They arrive together with the packet to drop: exactly that one is dropped."""
    ends = Ends(Drop("PUBACK", nth=2, direction="in", then="cut"))
    ends.passage.receive(PINGREQ + PUBACK + cut)
    ends.passage.receive(PINGREQ)
    assert ends.told[1:] == [("in", PINGREQ + PUBACK)]
    ends = Ends(Drop("PUBACK", nth=2, then="cut"))
    ends.link.write(PUBACK + cut)
    ends.link.write(PINGREQ)
    assert ends.told[1:] == [("out", PUBACK)]


def test_a_frozen_gate_holds_all_events_and_releases_them_in_order() -> None:
    """It also holds new connections."""
    ends = Ends()
    ends.gate.freeze()
    ends.gate.accept(_Link(ends.told), None)  # type: ignore[arg-type]
    ends.passage.receive(PINGREQ)
    ends.link.write(PUBACK)
    assert ends.told == ["front made"]
    ends.gate.thaw()
    assert ends.told[1:] == ["front made", ("in", PINGREQ), ("out", PUBACK)]


def test_a_dead_gate_passes_no_events() -> None:
    """The core gets no event any more, not even the end of its connections."""
    ends = Ends()
    ends.gate.freeze()
    ends.passage.receive(PINGREQ)
    ends.gate.cut()
    ends.gate.thaw()
    ends.passage.receive(PINGREQ)
    ends.passage.lost("aborted")
    assert ends.told == ["front made"] and ends.gate.connections == {}
