"""Numbered messages for the queue of one session."""

from __future__ import annotations

from strogoff.mqtt.packets import Puback, Pubcomp, Publish, Pubrec

from ...harness.broker import BrokerHarness, PacketClient, publish


def offline(broker: BrokerHarness, client_id: str = "s", version: int = 4, qos: int = 2) -> None:
    """A session that subscribes to `t` and disconnects."""
    client = broker.persistent(client_id, version)
    client.subscribe(("t", qos))
    client.leave()


def numbers(messages: list[Publish]) -> list[int]:
    """Returns the numbers in the payloads."""
    return [int(message.payload.split(b"|")[0]) for message in messages]


def fill(publisher: PacketClient, first: int, last: int, qos: int = 1, size: int = 0) -> None:
    """Publish the numbers `first` to `last`."""
    tail = b"|" + b"x" * size if size else b""
    publisher.ask(*[publish("t", b"%d" % number + tail, qos, number % 65535 + 1) for number in range(first, last + 1)])


def finish(subscriber: PacketClient, *messages: Publish) -> None:
    """Answer messages to the end."""
    for message in messages:
        if message.qos == 1:
            subscriber.send(Puback(message.packet_id))
        else:
            subscriber.send(Pubrec(message.packet_id), Pubcomp(message.packet_id))
