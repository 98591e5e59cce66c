"""The session and the will of one client against a model: each will is published once, when it is due, or never."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from strogoff.mqtt import packets

from ...harness.broker import BrokerHarness, PacketClient
from ...harness.thinning import thinned

FOREVER_S = 10**9
SOON_S = 0.3
"""A will that is due is published within this time."""


@dataclass
class Connected:
    """What the client has asked for at its last CONNECT. A version 4 client with a session keeps it for ever."""

    version: int
    expiry_s: int
    will: bytes | None
    delay_s: int


@dataclass
class Model:
    """The Session State of the client, as the standard has it. `due`: wills that must have been published."""

    now_s: float = 0.0
    connected: Connected | None = None
    expires_s: float | None = None
    waiting: tuple[bytes, float] | None = None
    due: list[bytes] = field(default_factory=list)

    def connect(self, clean: bool, asked: Connected) -> bool:
        """Return whether the session is present. The client cancels a will that waits, unless it ends the session."""
        if self.connected is not None:
            self.vanish()
        present = self.expires_s is not None and not clean
        if self.expires_s is not None and clean:
            self._end()
        self.connected, self.expires_s, self.waiting = asked, None, None
        return present

    def vanish(self) -> None:
        """The connection has ended without DISCONNECT: the will waits, at most until the session ends."""
        was = self.connected
        assert was is not None
        self.connected = None
        self.expires_s = self.now_s + was.expiry_s
        if was.will is not None:
            self.waiting = was.will, self.now_s + min(was.delay_s, was.expiry_s)
        self.pass_to(self.now_s)

    def disconnect(self, reason: int, expiry_s: int | None) -> None:
        """DISCONNECT cancels the will, unless it has reason 4 or tries to keep a session that was not to stay."""
        was = self.connected
        assert was is not None
        if was.expiry_s or not expiry_s:
            was.expiry_s = was.expiry_s if expiry_s is None else expiry_s
            was.will = was.will if reason else None
        self.vanish()

    def pass_to(self, now_s: float) -> None:
        """Publish a will that is due, and end a session that has expired."""
        self.now_s = now_s
        if self.waiting is not None and self.waiting[1] <= now_s:
            self._fire()
        if self.expires_s is not None and self.expires_s <= now_s:
            self._end()

    def _end(self) -> None:
        self.expires_s = None
        self._fire()

    def _fire(self) -> None:
        if self.waiting is not None:
            self.due.append(self.waiting[0])
            self.waiting = None


class Case:
    """A broker, its client, the model of both, and an observer of the wills. The choices follow from the seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.broker = BrokerHarness(seed=seed)
        self.model = Model()
        self.client: PacketClient | None = None
        self.published: list[bytes] = []
        self.observer = self.broker.persistent("o", 5)
        self.observer.subscribe(("will/#", 1))

    def check(self) -> None:
        """Take what was published; let a little time pass if something is due."""
        until_s = self.broker.loop.now_s + SOON_S
        while True:
            self.published += [each.payload for each in self.observer.drain()]
            self.model.pass_to(self.broker.loop.now_s)
            if sorted(self.published) == sorted(self.model.due) or self.broker.loop.now_s > until_s:
                break
            self.broker.pass_s(SOON_S / 4)
        assert sorted(self.published) == sorted(self.model.due)

    def connect(self, number: int) -> None:
        """CONNECT, perhaps in place of a connection, a session or a will that waits."""
        clean, version = self.random.random() < 0.4, self.random.choice((4, 5, 5, 5))
        expiry_s = self.random.choice((0, 0, 3, 9)) if version == 5 else 0 if clean else FOREVER_S
        text = b"%d" % number if self.random.random() < 0.75 else None
        delay_s = self.random.choice((0, 2, 5)) if version == 5 and text else 0
        properties = {"will_delay_interval": delay_s} if delay_s else None
        retain = self.random.random() < 0.3
        will = None if text is None else packets.Will("will/x", text, self.random.randint(1, 2), retain, properties)
        self.model.pass_to(self.broker.loop.now_s)
        present = self.model.connect(clean, Connected(version, expiry_s, text, delay_s))
        self.client, connack = self.broker.connect("c", version, clean, expiry_s if version == 5 else None, will=will)
        assert connack.session_present is present

    def lose(self) -> None:
        """The connection breaks, or the client sends what is no packet."""
        assert self.client is not None
        if self.random.random() < 0.5:
            self.client.vanish()
        else:
            self.client.ask(b"\xf1\x00")
        self.model.vanish()

    def disconnect(self) -> None:
        """DISCONNECT, perhaps with another expiry of the session, or with the wish for the will."""
        assert self.client is not None and self.model.connected is not None
        v5 = self.model.connected.version == 5
        reason = self.random.choice((0, 4)) if v5 else 0
        expiry_s = self.random.choice((None, 0, 2, 7)) if v5 else None
        properties = None if expiry_s is None else {"session_expiry_interval": expiry_s}
        self.client.ask(packets.Disconnect(reason, properties))
        self.model.disconnect(reason, expiry_s)

    def restart(self) -> None:
        """The node is killed and starts again: the absence of a client that was connected begins."""
        self.broker.commit_late_writes()
        self.check()
        self.broker.restart()
        self.observer = self.broker.persistent("o", 5)
        self.model.pass_to(self.broker.loop.now_s)
        if self.model.connected is not None:
            self.model.vanish()


@pytest.mark.parametrize("part", thinned(range(4), 4))
def test_wills_and_sessions_end_as_the_standard_says(part: int) -> None:
    """CONNECT, the ends of connections, restarts, and time, in any order [MQTT5-3.1.2-8] [MQTT5-3.1.2-10]."""
    for seed in range(part * 50, part * 50 + 50):
        case = Case(seed)
        for number in range(60):
            kind = case.random.random()
            if kind < 0.35:
                case.connect(number)
            elif kind < 0.6 and case.model.connected is not None:
                case.random.choice((case.lose, case.disconnect))()
            elif kind < 0.65:
                case.restart()
            else:
                case.broker.pass_s(case.random.choice((0.31, 1.13, 2.41)))  # no two things are due at once
            case.check()
