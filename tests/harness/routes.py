"""Nodes with only sessions and routes, without connections. Their maps lose nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from strogoff.broker.clustering.route_advertiser import Ports, RouteAdvertiser
from strogoff.broker.clustering.routes import Routes
from strogoff.broker.routing.plans import Plan, PlanCache
from strogoff.broker.routing.subscriptions import Subscription, SubscriptionTable
from strogoff.mqtt.topics import parse_shared
from strogoff.storage.keys import client_key


class Queue(msgspec.Struct):
    """The part of a queue that routes use."""

    upgrade: bool = False


class Client:
    """The part of a session that the advertiser, plans and shared groups use."""

    def __init__(self, mountpoint: str, client_id: str, durable: bool, slot: int) -> None:
        self.mountpoint = mountpoint
        self.client_id = client_id
        self.key = client_key(slot, mountpoint, client_id)
        self.durable = durable
        self.online = True
        self.subscriptions: dict[str, Subscription] = {}
        self.queue = Queue()


class RouteMap:
    """A map that one node writes. `writes` has every write, in order."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.writes: list[tuple[bytes, bytes | None]] = []

    def get(self, key: bytes) -> bytes | None:
        """Returns the value of a key, or None."""
        return self.values.get(key)

    def put(self, key: bytes, value: bytes) -> int:
        """Set a value, which must differ from the present one. Returns the number of writes so far."""
        assert self.values.get(key) != value
        self.values[key] = value
        self.writes.append((key, value))
        return len(self.writes)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yields all keys and values with this prefix."""
        yield from [(key, value) for key, value in self.values.items() if key.startswith(prefix)]

    def delete(self, key: bytes) -> int:
        """Delete a key. Returns the number of writes so far."""
        del self.values[key]
        self.writes.append((key, None))
        return len(self.writes)


SLOTS_EACH = 3
"""Slots of a node. Client ids of one node take turns among them."""


def slots_of(name: str) -> range:
    """Returns the slots of node n1, n2, ..."""
    first = int(name[1:]) * 10
    return range(first, first + SLOTS_EACH)


class RouteNode:
    """One node: its clients, the routes that it announces, and the routes of other nodes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.unsafe: list[Callable[[], None]] | None = None
        """What waits for the disk; None if the disk is quick."""
        self.later: list[Callable[[], None]] = []
        self.map = RouteMap()
        self.clients: dict[tuple[str, str], Client] = {}
        self.tables: dict[str, SubscriptionTable] = {}
        self.caches: dict[str, PlanCache] = {}
        self.routes = Routes(name, self.later.append)
        self.routes.changed.append(lambda mountpoint, text: self.cache(mountpoint).invalidate(text))
        self.sure = True
        """No other node can be the primary of this node's slots."""
        ports = Ports(
            self.table, lambda: self.tables, slots_of(name).__contains__, lambda slot: self.sure, self.map,
            lambda key: self.routes.change(key, None),
            self.later.append, self._when_safe,
        )  # fmt: skip
        self.advertiser = RouteAdvertiser(name, ports)
        self.announced: list[int | None] = []

    def _when_safe(self, then: Callable[[], None]) -> None:
        if self.unsafe is None:
            then()
        else:
            self.unsafe.append(then)

    def table(self, mountpoint: str) -> SubscriptionTable:
        """Returns the subscriptions of a mountpoint."""
        if mountpoint not in self.tables:
            self.tables[mountpoint] = SubscriptionTable()
        return self.tables[mountpoint]

    def cache(self, mountpoint: str) -> PlanCache:
        """Returns the plans of a mountpoint."""
        if mountpoint not in self.caches:
            self.caches[mountpoint] = PlanCache(
                self.table(mountpoint), remote=lambda topic: self.routes.match(mountpoint, topic)
            )
        return self.caches[mountpoint]

    def plan(self, mountpoint: str, topic: str) -> Plan:
        """Returns the plan for a topic, from the cache or newly built."""
        cache = self.cache(mountpoint)
        return cache.plans.get(topic) or cache.build(topic)

    def run(self) -> int:
        """Run all scheduled turns. Returns their number."""
        turns = 0
        while self.later:
            self.later.pop(0)()
            turns += 1
        return turns

    def enter(self, since: int) -> None:
        """Start the advertiser in the view `since`."""
        self.advertiser.start(since, self.announced.append)

    def client(self, client_id: str, durable: bool = False, mountpoint: str = "") -> Client:
        """Returns the session of a client id, a new one if none exists."""
        client = self.clients.get((mountpoint, client_id))
        if client is None:
            slot = slots_of(self.name)[sum(client_id.encode()) % SLOTS_EACH]
            client = self.clients[mountpoint, client_id] = Client(mountpoint, client_id, durable, slot)
        return client

    def subscribe(self, client: Client, text: str, qos: int = 1) -> int | None:
        """Subscribe, and return the result of the advertiser."""
        group, pattern = parse_shared(text)
        subscription = Subscription(client, pattern, group, qos, False, False, 0, 0)
        client.subscriptions[text] = subscription
        return self.advertiser.added(subscription, self.table(client.mountpoint).add(subscription))

    def unsubscribe(self, client: Client, text: str) -> None:
        """Unsubscribe. The routes are withdrawn at once."""
        self.advertiser.removed(self._remove(client, text))
        self._settle()

    def _settle(self) -> None:
        """Run the turns in which routes are withdrawn, and no others."""
        while self.unsafe is None and self.advertiser.owing:
            turns = [each for each in self.later if each == self.advertiser._settle_when_safe]
            for each in turns:
                self.later.remove(each)
                each()

    def _remove(self, client: Client, text: str) -> Subscription:
        subscription = client.subscriptions.pop(text)
        table = self.table(client.mountpoint)
        table.remove(client.key, subscription.filter, subscription.group, client.durable)
        return subscription

    def connect(self, client: Client, online: bool) -> None:
        """Connect or disconnect a client. A clean session ends when it disconnects."""
        client.online = online
        if not online and not client.durable:
            self.end(client)
            return
        self.advertiser.presence(client)

    def end(self, client: Client, settled: bool = True) -> None:
        """End a session. With `settled` its routes are withdrawn at once, else in later turns."""
        client.online = False
        for text in list(client.subscriptions):
            self.advertiser.ended(self._remove(client, text))
        del self.clients[client.mountpoint, client.client_id]
        if settled:
            self._settle()
