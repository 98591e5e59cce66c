"""Rows of what clients do: each is right by the schema."""

from __future__ import annotations

from random import Random

from strogoff.analytics.schema import validate
from strogoff.judge.planted.clients import Acts, Client
from strogoff.judge.planted.scene import Node, Scene


def test_the_life_of_a_client() -> None:
    scene, node, other = Scene(Random(1)), Node("n"), Node("m")
    acts, client = Acts(scene), Client("rx", node, 60)
    for each in (node, other):
        scene.boot(each)
    acts.connect(client, will="w")
    acts.subscribe(client, "t", 2)
    mid = acts.accept(client, "t", 2)
    acts.forward(mid, node, other)
    acts.forwarded(mid, node, other)
    acts.route(mid, node, client)
    acts.enqueue(mid, client, "t", 2)
    acts.ack(mid, client, 2)
    acts.got(mid, client, acts.send(mid, client, 2), 2)
    acts.send(mid, client, 0)
    acts.unsubscribe(client, "t")
    acts.close(client)
    rows = scene.written
    assert [text for row in rows for text in validate(row)] == []
    assert len(rows) == 25 and len({row["type"] for row in rows}) == 23
    assert client.epoch == 1 and client.filters == {} and "sess.end" not in {row["type"] for row in rows}


def test_packet_ids_come_round() -> None:
    client = Client("rx", Node("n"), packet_id=65_535)
    assert [client.next_packet_id(), client.next_packet_id()] == [1, 2]
