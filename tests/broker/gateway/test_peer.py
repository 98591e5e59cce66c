"""The messages of a turn to one node, and senders that wait for its tunnel."""

from __future__ import annotations

from collections.abc import Callable

from strogoff.broker.gateway.messages import DATA, PIECE_BYTES, ROOM, read
from strogoff.broker.gateway.peer import JOINED_BYTES, PeerNode


class FakeTunnel:
    """Tunnels that keep their items; `full` as long as the test wants."""

    def __init__(self) -> None:
        self.items: list[bytes] = []
        self.full = False
        self.turns: list[Callable[[], None]] = []

    def tunnel(self, node: str, payload: bytes) -> bool:
        self.items.append(payload)
        return True

    def tunnel_open(self, node: str) -> bool:
        return node == "n2"

    def tunnel_full(self, node: str) -> bool:
        return self.full

    def turn(self) -> None:
        """End the turn of the loop."""
        turns, self.turns = self.turns, []
        for each in turns:
            each()

    def peer(self) -> PeerNode:
        return PeerNode("n2", self, self.turns.append)


class Waits:
    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.pumped = 0
        self.then = then

    def pump(self) -> None:
        self.pumped += 1
        self.then()


def test_the_messages_of_a_turn_are_one_item() -> None:
    tunnel = FakeTunnel()
    peer = tunnel.peer()
    assert peer.open and not PeerNode("n3", tunnel, tunnel.turns.append).open
    peer.send(DATA, 1, b"ab")
    peer.say(ROOM, 2, 5)
    peer.send(DATA, 1, b"c")
    assert tunnel.items == [] and len(tunnel.turns) == 1
    tunnel.turn()
    (item,) = tunnel.items
    assert read(item) == [(DATA, 1, 2, b"ab"), (ROOM, 2, 5, b""), (DATA, 1, 1, b"c")]
    peer.flush()
    assert len(tunnel.items) == 1


def test_large_turns_are_several_items() -> None:
    tunnel = FakeTunnel()
    peer = tunnel.peer()
    for number in range(5):
        peer.send(DATA, number, bytes(PIECE_BYTES))
    tunnel.turn()
    assert [number for item in tunnel.items for _, number, _, _ in read(item)] == [*range(5)]
    assert max(map(len, tunnel.items)) <= JOINED_BYTES


def test_waiting_senders_take_turns_until_the_tunnel_is_full() -> None:
    tunnel = FakeTunnel()
    peer = tunnel.peer()

    def fills() -> None:
        tunnel.full = True
        peer.say(ROOM, 1, 1)
        peer.flush()

    first, second, third = Waits(), Waits(fills), Waits()
    peer.blocked.update(dict.fromkeys((first, second, third)))
    peer.room()
    assert (first.pumped, second.pumped, third.pumped) == (1, 1, 0) and [*peer.blocked] == [third] and peer.full
    tunnel.full = False
    peer.room()
    assert third.pumped == 1 and not peer.blocked and not peer.full


def test_a_broken_tunnel_forgets_what_waits() -> None:
    tunnel = FakeTunnel()
    peer = tunnel.peer()
    peer.say(ROOM, 1, 1)
    peer.blocked[Waits()] = None
    peer.broken()
    tunnel.turn()
    assert tunnel.items == [] and not peer.blocked
