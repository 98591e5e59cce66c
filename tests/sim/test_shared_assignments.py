"""Assignments of shared messages to members."""

from __future__ import annotations

from random import Random

from strogoff.broker.options import Options
from strogoff.mqtt import packets
from strogoff.sim.engine.disk import SimDisk
from strogoff.sim.engine.host import Host
from strogoff.sim.engine.loop import VirtualLoop
from strogoff.sim.engine.peer import Peer, connect_packet
from strogoff.sim.history import History
from strogoff.sim.shared_assignments import record_assignments
from strogoff.sim.workload.sender import payload


def test_a_message_in_the_queue_of_a_member_is_noted() -> None:
    loop = VirtualLoop()
    history = History(lambda: loop.now_s)
    disk = SimDisk(Random(0), loop.call_later, lambda: loop.now_s)
    host = Host(loop, lambda _: disk, Options(allow_anonymous=True, systree_enabled=False))
    host.on_node = lambda node: record_assignments(history, node)
    host.start()
    members = [Peer(host), Peer(host)]
    for peer, name, topic_filter in zip(members, ("plain", "member"), ("t", "$share/g/t"), strict=True):
        peer.send(connect_packet(name), packets.Subscribe(1, [packets.SubscribeOptions(topic_filter, 1)]))
    publisher = Peer(host)
    publisher.send(connect_packet("p"))
    publisher.send(packets.Publish("t", payload("p-1"), 1, packet_id=1))
    loop.run_for(1)
    assert history.assigned == {("$share/g/t", "member", "p-1")}
