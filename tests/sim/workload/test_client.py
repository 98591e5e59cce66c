"""A model client on a real node."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from strogoff.sim.engine.disk import SimDisk
from strogoff.sim.engine.host import Host
from strogoff.sim.engine.loop import VirtualLoop
from strogoff.sim.history import NEVER, History
from strogoff.sim.workload.client import ModelClient
from strogoff.sim.workload.swarm import ClientSpec

from ..histories import make_host

SPEC = ClientSpec("c", 5, None, False, True, ("t/0",), (("t/#", 2),), None, 10, 0.0, 1.0, False)


class Stage:
    def __init__(self, **changes: Any) -> None:
        self.loop: VirtualLoop
        self.host: Host
        self.disks: list[SimDisk]
        self.loop, self.host, self.disks = make_host()
        self.history = History(lambda: self.loop.now_s, [])
        self.host.start()
        self.client = ModelClient(replace(SPEC, **changes), self.host, self.history, Random(0), (0.0, 0.0), None)

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
    scenario = Stage(version=version)
    scenario.connect()
    client = scenario.client
    assert client.connected and client.epoch == 1 and list(client.granted) == ["t/#"]
    client.sender.publish("t/0", 2)
    scenario.loop.run_for(1)
    assert client.sender.open == {} and client.receiver.held == {}
    assert [each.key for each in scenario.history.deliveries] == ["c-1"]
    assert scenario.history.attempts["c-1"].acked != NEVER and scenario.history.problems == []


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_session_is_resumed_and_a_clean_one_is_new(version: int) -> None:
    scenario = Stage(version=version)
    scenario.connect()
    scenario.client.lose()
    scenario.connect()
    assert scenario.client.epoch == 1 and len(scenario.history.subscriptions) == 1
    scenario.client.disconnect()
    scenario.connect(clean=True)
    assert scenario.client.epoch == 2 and len(scenario.history.subscriptions) == 2
    present = [each.present for each in scenario.client.lists]
    assert present == ([None, None, None] if version == 3 else [False, True, False])


def test_it_comes_back_after_a_kill_with_its_open_messages() -> None:
    scenario = Stage()
    scenario.connect()
    scenario.disks[0].stall_until = 100.0
    scenario.client.sender.publish("t/0", 2)
    scenario.loop.run_for(1)
    scenario.disks[0].stall_until = 0.0
    scenario.restart()
    scenario.loop.run_for(2)
    assert (
        scenario.client.connected and scenario.client.sender.open == {} and scenario.history.attempts["c-1"].resent == 1
    )
    assert [each.first for each in scenario.history.deliveries] == [True]


def test_take_over_from_itself() -> None:
    scenario = Stage()
    scenario.connect()
    scenario.client.take_over()
    scenario.loop.run_for(1)
    assert scenario.client.connected and scenario.client.superseded[0][1].closed and scenario.client.epoch == 1


def test_a_client_that_leaves_for_good() -> None:
    scenario = Stage()
    scenario.connect()
    scenario.client.abandon()
    scenario.connect()
    assert not scenario.client.connected and scenario.client.peer is None


def test_subscriptions_are_given_up_and_asked_for_again() -> None:
    scenario = Stage()
    scenario.connect()
    scenario.client.unsubscribe("t/#")
    scenario.client.unsubscribe("t/#")
    scenario.loop.run_for(1)
    first = scenario.history.subscriptions[0]
    assert first.given_up < first.gone < NEVER and scenario.client.dropped == {"t/#"}
    scenario.client.subscribe(["t/#"])
    scenario.loop.run_for(1)
    assert len(scenario.history.subscriptions) == 2 and list(scenario.client.granted) == ["t/#"]


def test_wills_and_disconnect() -> None:
    scenario = Stage(will=(2, 0), filters=(("w/#", 2),))
    scenario.connect()
    scenario.client.disconnect()
    scenario.connect()
    assert scenario.history.deliveries == [] and scenario.client.lists[0].polite and scenario.client.lists[0].arrived
    scenario.client.disconnect(with_will=True)
    scenario.connect()
    assert [each.key for each in scenario.history.deliveries] == ["c!2"] and not scenario.client.lists[1].polite


def test_the_session_expiry_goes_with_disconnect() -> None:
    """Section 3.14.2.2.2."""
    scenario = Stage()
    scenario.connect()
    scenario.client.disconnect(expiry_s=1)
    scenario.loop.run_for(5)
    scenario.connect()
    assert scenario.client.lists[1].clean and scenario.client.lists[0].final_expiry_s == 1
    assert len(scenario.host.node.sessions) == 1 if scenario.host.node else False


def test_a_client_whose_session_may_be_lost_starts_clean() -> None:
    scenario = Stage(version=4)
    scenario.client.kept_s = 4
    scenario.connect()
    scenario.client.lose()
    scenario.loop.run_for(3)
    scenario.connect()
    assert [each.clean for each in scenario.client.lists] == [False, True]


@pytest.mark.parametrize(("version", "clean"), [(3, [False, False, True]), (4, [False, False])])
def test_a_late_answer_without_a_flag_does_not_tell_whether_the_session_exists(version: int, clean: list[bool]) -> None:
    """The CONNECT was in time, and its answer comes when the session may have expired: only MQTT 3.1 does not say."""
    scenario = Stage(version=version)
    scenario.client.kept_s = 4
    scenario.connect()
    scenario.client.lose()
    scenario.disks[0].stall_until = scenario.loop.now_s + 10
    scenario.client.connect(False)
    scenario.loop.run_for(20)
    assert scenario.client.connected
    assert [each.clean for each in scenario.client.lists] == clean


def test_a_reader_that_pauses() -> None:
    scenario = Stage()
    scenario.connect()
    scenario.client.pause()
    scenario.client.sender.publish("t/0", 1)
    scenario.loop.run_for(1)
    assert scenario.history.deliveries == []
    scenario.client.read_on()
    scenario.loop.run_for(1)
    assert len(scenario.history.deliveries) == 1 and scenario.client.sender.open == {}


def test_a_connect_that_is_never_answered_is_given_up() -> None:
    scenario = Stage()
    scenario.disks[0].stall_until = 40.0
    scenario.client.connect(False)
    scenario.loop.run_for(39)
    assert not scenario.client.connected and len(scenario.client.lists) > 1
    scenario.loop.run_for(20)
    assert scenario.client.connected


def test_only_a_full_disk_may_refuse_connect() -> None:
    scenario = Stage()
    scenario.connect()
    scenario.client.lose()
    scenario.disks[0].full = True
    scenario.loop.run_for(1)
    scenario.history.life().full_until = 100.0
    scenario.connect()
    assert scenario.history.problems == [] and not scenario.client.connected
    scenario.history.life().full_until = -1.0
    scenario.loop.run_for(1)
    assert "CONNECT refused" in scenario.history.problems[0]
    scenario.disks[0].full = False
    scenario.loop.run_for(20)
    assert scenario.client.connected
