"""A model client on a real node."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from strogoff.sim.client import Client
from strogoff.sim.disk import SimDisk
from strogoff.sim.history import NEVER, History
from strogoff.sim.host import Host
from strogoff.sim.loop import VirtualLoop
from strogoff.sim.swarm import ClientSpec

from .scene import make_host

SPEC = ClientSpec("c", 5, None, False, True, ("t/0",), (("t/#", 2),), None, 10, 0.0, 1.0, False)


class Stage:
    def __init__(self, **changes: Any) -> None:
        self.loop: VirtualLoop
        self.host: Host
        self.disks: list[SimDisk]
        self.loop, self.host, self.disks = make_host()
        self.history = History(lambda: self.loop.now_s, [])
        self.host.start()
        self.client = Client(replace(SPEC, **changes), self.host, self.history, Random(0), (0.0, 0.0), None)

    def connect(self, clean: bool = False) -> None:
        self.client.connect(clean)
        self.loop.run_for(1)

    def restart(self) -> None:
        self.disks[0].crash(False)
        self.disks[0] = self.disks[0].reopen()
        self.host.kill()
        self.host.start()


@pytest.mark.parametrize("version", [3, 4, 5])
def test_connect_subscribe_publish(version: int) -> None:
    stage = Stage(version=version)
    stage.connect()
    client = stage.client
    assert client.connected and client.epoch == 1 and list(client.granted) == ["t/#"]
    client.sender.publish("t/0", 2)
    stage.loop.run_for(1)
    assert client.sender.open == {} and client.receiver.held == {}
    assert [each.key for each in stage.history.deliveries] == ["c-1"]
    assert stage.history.attempts["c-1"].acked != NEVER and stage.history.problems == []


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_session_is_resumed_and_a_clean_one_is_new(version: int) -> None:
    stage = Stage(version=version)
    stage.connect()
    stage.client.lose()
    stage.connect()
    assert stage.client.epoch == 1 and len(stage.history.subscriptions) == 1
    stage.client.disconnect()
    stage.connect(clean=True)
    assert stage.client.epoch == 2 and len(stage.history.subscriptions) == 2
    present = [each.present for each in stage.client.lists]
    assert present == ([None, None, None] if version == 3 else [False, True, False])


def test_it_comes_back_after_a_kill_with_what_was_open() -> None:
    stage = Stage()
    stage.connect()
    stage.disks[0].stall_until = 100.0
    stage.client.sender.publish("t/0", 2)
    stage.loop.run_for(1)
    stage.disks[0].stall_until = 0.0
    stage.restart()
    stage.loop.run_for(2)
    assert stage.client.connected and stage.client.sender.open == {} and stage.history.attempts["c-1"].resent == 1
    assert [each.first for each in stage.history.deliveries] == [True]


def test_take_over_from_itself() -> None:
    stage = Stage()
    stage.connect()
    stage.client.take_over()
    stage.loop.run_for(1)
    assert stage.client.connected and stage.client.superseded[0][1].closed and stage.client.epoch == 1


def test_gone_for_good() -> None:
    stage = Stage()
    stage.connect()
    stage.client.abandon()
    stage.connect()
    assert not stage.client.connected and stage.client.peer is None


def test_subscriptions_are_given_up_and_asked_for_again() -> None:
    stage = Stage()
    stage.connect()
    stage.client.unsubscribe("t/#")
    stage.client.unsubscribe("t/#")
    stage.loop.run_for(1)
    first = stage.history.subscriptions[0]
    assert first.given_up < first.gone < NEVER and stage.client.dropped == {"t/#"}
    stage.client.subscribe(["t/#"])
    stage.loop.run_for(1)
    assert len(stage.history.subscriptions) == 2 and list(stage.client.granted) == ["t/#"]


def test_wills_and_disconnect() -> None:
    stage = Stage(will=(2, 0), filters=(("w/#", 2),))
    stage.connect()
    stage.client.disconnect()
    stage.connect()
    assert stage.history.deliveries == [] and stage.client.lists[0].polite and stage.client.lists[0].arrived
    stage.client.disconnect(with_will=True)
    stage.connect()
    assert [each.key for each in stage.history.deliveries] == ["c!2"] and not stage.client.lists[1].polite


def test_the_session_expiry_goes_with_disconnect() -> None:
    """Section 3.14.2.2.2."""
    stage = Stage()
    stage.connect()
    stage.client.disconnect(expiry_s=1)
    stage.loop.run_for(5)
    stage.connect()
    assert stage.client.lists[1].clean and stage.client.lists[0].final_expiry_s == 1
    assert len(stage.host.node.slots) == 1 if stage.host.node else False


def test_who_may_have_lost_the_session_starts_clean() -> None:
    stage = Stage(version=4)
    stage.client.kept_s = 4
    stage.connect()
    stage.client.lose()
    stage.loop.run_for(3)
    stage.connect()
    assert [each.clean for each in stage.client.lists] == [False, True]


def test_a_reader_that_pauses() -> None:
    stage = Stage()
    stage.connect()
    stage.client.pause()
    stage.client.sender.publish("t/0", 1)
    stage.loop.run_for(1)
    assert stage.history.deliveries == []
    stage.client.read_on()
    stage.loop.run_for(1)
    assert len(stage.history.deliveries) == 1 and stage.client.sender.open == {}


def test_a_connect_that_is_never_answered_is_given_up() -> None:
    stage = Stage()
    stage.disks[0].stall_until = 40.0
    stage.client.connect(False)
    stage.loop.run_for(39)
    assert not stage.client.connected and len(stage.client.lists) > 1
    stage.loop.run_for(20)
    assert stage.client.connected


def test_a_full_disk_may_refuse_connect_and_nothing_else_may() -> None:
    stage = Stage()
    stage.connect()
    stage.client.lose()
    stage.disks[0].full = True
    stage.loop.run_for(1)
    stage.history.life().full_until = 100.0
    stage.connect()
    assert stage.history.problems == [] and not stage.client.connected
    stage.history.life().full_until = -1.0
    stage.loop.run_for(1)
    assert "CONNECT refused" in stage.history.problems[0]
    stage.disks[0].full = False
    stage.loop.run_for(20)
    assert stage.client.connected
