"""Subscriptions with all their options against a model: each client gets each message in the right form, once."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

import pytest

from strogoff.mqtt import packets
from strogoff.mqtt.topics import matches

from ...harness.broker import BrokerHarness, PacketClient, option, publish

LEVELS = ("", "a", "b", "$x")
NAMES = ("one", "two", "three")


class Seen(NamedTuple):
    """A message as a subscriber sees it."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    identifiers: tuple[int, ...]


class Subscribed(NamedTuple):
    """A subscription of the model."""

    options: packets.SubscribeOptions
    identifiers: tuple[int, ...]


@dataclass
class Client:
    """A client of the model. `aliases`: the topic of each alias of its connection. `subscriptions` are those that it
    has, and `expected` are the messages that it must get."""

    name: str
    link: PacketClient | None = None
    aliases: dict[int, str] = field(default_factory=dict)
    subscriptions: dict[str, Subscribed] = field(default_factory=dict)
    expected: list[Seen] = field(default_factory=list)

    def take(self, link: PacketClient) -> list[Seen]:
        """Take what has come, with the topics that the aliases stand for."""
        found = []
        for each in link.drain():
            properties = each.properties or {}
            alias = properties.get("topic_alias", 0)
            topic = each.topic or self.aliases[alias]
            self.aliases[alias] = topic
            identifiers = tuple(sorted(properties.get("subscription_identifier", ())))
            found.append(Seen(topic, each.payload, each.qos, each.retain, identifiers))
        return found


class Case:
    """A broker with three clients, each of which publishes and subscribes. The choices follow from the seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.broker = BrokerHarness(seed=seed, topic_alias_max_broker=self.random.choice((0, 3)))
        self.clients = [Client(name) for name in NAMES]
        self.retained: dict[str, tuple[bytes, int, str]] = {}

    def step(self, number: int) -> None:
        """One client acts; a client without connection connects."""
        client, kind = self.random.choice(self.clients), self.random.random()
        if client.link is None:
            self.connect(client)
        elif kind < 0.1:
            self.random.choice((client.link.leave, client.link.vanish))()
            client.link = None
        elif kind < 0.14:
            self.broker.commit_late_writes()
            self.broker.restart()
            for each in self.clients:
                each.link = None
        elif kind < 0.4:
            self.subscribe(client, client.link)
        elif kind < 0.5 and client.subscriptions:
            text = self.random.choice(list(client.subscriptions))
            del client.subscriptions[text]
            client.link.send(packets.Unsubscribe(2, [text]))
        else:
            self.publish(client, client.link, b"%d" % number)

    def check(self) -> None:
        """Each connected client has got what it must get, and nothing else."""
        for client in self.clients:
            if client.link is not None:
                assert sorted(client.take(client.link)) == sorted(client.expected)
                client.expected.clear()

    def connect(self, client: Client) -> None:
        limits = {"topic_alias_maximum": self.random.choice((1, 3)), "receive_maximum": self.random.choice((1, 50))}
        client.link = self.broker.persistent(client.name, 5, **limits)
        client.aliases.clear()

    def topic(self, wildcards: tuple[str, ...] = ()) -> str:
        """A topic, or a filter."""
        levels = [self.random.choice(LEVELS + wildcards) for _ in range(self.random.randint(1, 3))]
        if wildcards and self.random.random() < 0.3:
            levels[-1] = "#"
        text = "/".join(levels)
        return text if text and (wildcards or text[0] != "$") else self.topic(wildcards)

    def subscribe(self, client: Client, link: PacketClient) -> None:
        """SUBSCRIBE brings the retained messages if the options say so [MQTT5-3.3.1-9] [MQTT5-3.3.1-10]."""
        chance = self.random.random
        identifier = self.random.choice((0, 0, 1, 2, 3))
        identifiers = (identifier,) if identifier else ()
        wanted = option(
            self.topic(("+", "+")),
            self.random.randint(0, 2),
            no_local=chance() < 0.4,
            retain_as_published=chance() < 0.5,
            retain_handling=self.random.randint(0, 2),
        )
        link.send(packets.Subscribe(1, [wanted], {"subscription_identifier": identifier} if identifier else None))
        new = wanted.filter not in client.subscriptions
        client.subscriptions[wanted.filter] = Subscribed(wanted, identifiers)
        if wanted.retain_handling == 0 or (wanted.retain_handling == 1 and new):
            for topic, (payload, qos, publisher) in self.retained.items():
                if matches(wanted.filter, topic) and not (wanted.no_local and publisher == client.name):
                    client.expected.append(Seen(topic, payload, min(qos, wanted.qos), True, identifiers))

    def publish(self, client: Client, link: PacketClient, payload: bytes) -> None:
        """One copy for each client with matching subscriptions, whatever their number."""
        topic, qos, retain = self.topic(), self.random.randint(0, 2), self.random.random() < 0.5
        payload = b"" if retain and self.random.random() < 0.2 else payload
        link.send(publish(topic, payload, qos, 9, retain))
        if qos == 2:
            link.send(packets.Pubrel(9))
        if retain:
            self.retained[topic] = payload, qos, client.name
            if not payload:
                del self.retained[topic]
        for each in self.clients:
            matching = [
                one
                for text, one in each.subscriptions.items()
                if matches(text, topic) and not (one.options.no_local and each is client)
            ]
            granted = min(qos, max([one.options.qos for one in matching], default=0))
            if matching and (granted or each.link is not None):
                kept = retain and any(one.options.retain_as_published for one in matching)
                identifiers = tuple(sorted(number for one in matching for number in one.identifiers))
                each.expected.append(Seen(topic, payload, granted, kept, identifiers))


@pytest.mark.parametrize("part", range(4))
def test_each_client_gets_what_its_subscriptions_say(part: int) -> None:
    """Overlapping filters, QoS, No Local, RETAIN, identifiers, topic aliases, lost connections, and restarts."""
    for seed in range(part * 15, part * 15 + 15):
        case = Case(seed)
        for number in range(80):
            case.step(number)
            case.check()
