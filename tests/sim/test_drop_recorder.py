"""The plugin that notes dropped messages."""

from __future__ import annotations

from random import Random

from strogoff.broker.options import Options
from strogoff.mqtt import packets
from strogoff.sim.drop_recorder import DropRecorder
from strogoff.sim.engine.disk import SimDisk
from strogoff.sim.engine.host import Host
from strogoff.sim.engine.loop import VirtualLoop
from strogoff.sim.engine.peer import Peer, connect_packet
from strogoff.sim.history import History
from strogoff.sim.workload.sender import payload


def test_a_full_queue_is_noted_by_client_key_and_reason() -> None:
    loop = VirtualLoop()
    history = History(lambda: loop.now_s)
    disk = SimDisk(Random(0), loop.call_later, lambda: loop.now_s)
    options = Options(allow_anonymous=True, systree_enabled=False, max_offline_messages=1)
    host = Host(loop, lambda _: disk, options, plugins={"witness": DropRecorder(history)})
    host.start()
    subscriber = Peer(host)
    subscriber.send(connect_packet("s", clean=False), packets.Subscribe(1, [packets.SubscribeOptions("t", 1)]))
    loop.run_for(1)
    subscriber.close()
    publisher = Peer(host)
    publisher.send(connect_packet("p"))
    for number in (1, 2):
        publisher.send(packets.Publish("t", payload(f"p-{number}"), 1, packet_id=number))
    loop.run_for(1)
    assert [(each.client, each.key, each.reason) for each in history.drops] == [("s", "p-2", "queue_full")]
