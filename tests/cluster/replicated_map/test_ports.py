"""The ports of a map."""

from __future__ import annotations

from random import Random

from strogoff.cluster.replicated_map.ports import MapPorts, Rng


def test_the_generator_of_the_library_is_a_source_of_chance() -> None:
    rng: Rng = Random(1)
    assert 0 <= rng.uniform(0, 3) <= 3


def test_ports_are_in_this_order() -> None:
    names = list(MapPorts.__dataclass_fields__)
    assert names == ["store", "send", "datagram", "soon", "now_ms", "cluster_ms", "rng", "applied_view"]
