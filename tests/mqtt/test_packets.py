"""The packet classes: cheap values with the defaults that senders mean when they leave a field out."""

import gc

from strogoff.mqtt import packets as p


def test_equality_and_defaults() -> None:
    """Two packets with the same content are equal; omitted fields mean success, QoS 0, no properties."""
    assert p.Publish("a", b"x") == p.Publish("a", b"x", 0, False, False, 0, None)
    assert p.Puback(1) == p.Puback(1, 0, None)
    unlike: p.Packet = p.Pubrec(1)
    assert unlike != p.Puback(1)
    assert p.SubscribeOptions("a", 1) == p.SubscribeOptions("a", 1, False, False, 0)
    assert (p.Disconnect().reason, p.Auth().reason) == (0, 0)


def test_not_tracked_by_the_garbage_collector() -> None:
    """Packets are made by the million: a full collection must not visit them."""
    for packet in (p.Publish("a", b"x"), p.Puback(1), p.Connect("c"), p.Subscribe(1, [p.SubscribeOptions("a")])):
        assert not gc.is_tracked(packet)
