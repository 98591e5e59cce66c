"""The subscribing half of a model client."""

from __future__ import annotations

from typing import Any

from strogoff.mqtt.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel
from strogoff.sim.engine.loop import VirtualLoop
from strogoff.sim.history import History
from strogoff.sim.workload.receiver import Receiver
from strogoff.sim.workload.sender import payload


class Stage:
    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.history = History(lambda: self.loop.now_s)
        self.sent: list[Any] = []
        self.connection = 1
        self.receiver = Receiver(self.history, "s", self.loop.call_later, self.answer)
        self.receiver.begin(1)

    def answer(self, connection: int, packet: Any) -> bool:
        if connection == self.connection:
            self.sent.append(packet)
        return connection == self.connection

    def message(self, key: str, qos: int, packet_id: int, dup: bool = False) -> None:
        self.receiver.publish(Publish("t", payload(key), qos, False, dup, packet_id), 0.5)

    @property
    def handed_on(self) -> list[str]:
        return [each.key for each in self.history.deliveries if each.first]


def test_every_level_is_answered() -> None:
    scenario = Stage()
    scenario.message("w-1", 0, 0)
    scenario.message("w-2", 1, 1)
    scenario.message("w-3", 2, 2)
    scenario.receiver.pubrel(Pubrel(2))
    assert scenario.sent == [Puback(1), Pubrec(2), Pubcomp(2)] and scenario.handed_on == ["w-1", "w-2", "w-3"]
    assert scenario.history.deliveries[0].sent_at == 0.5


def test_a_known_id_is_dropped_also_on_another_connection() -> None:
    """[MQTT-4.3.3-2] [MQTT5-4.3.3-10]"""
    scenario = Stage()
    scenario.message("w-1", 2, 1)
    scenario.connection = 2
    scenario.receiver.begin(2)
    scenario.message("w-1", 2, 1, dup=True)
    assert scenario.handed_on == ["w-1"] and len(scenario.history.deliveries) == 2 and scenario.history.ids == []
    scenario.receiver.pubrel(Pubrel(1))
    scenario.message("w-2", 2, 1)
    assert scenario.handed_on == ["w-1", "w-2"]


def test_a_used_id_with_another_message_is_swallowed_and_seen() -> None:
    scenario = Stage()
    scenario.message("w-1", 2, 1)
    scenario.message("w-2", 2, 1)
    assert scenario.handed_on == ["w-1"] and "packet id 1 came with w-2" in scenario.history.ids[0].text


def test_forgotten_with_the_session() -> None:
    scenario = Stage()
    scenario.message("w-1", 2, 1)
    scenario.receiver.forget()
    scenario.message("w-1", 2, 1)
    assert scenario.handed_on == ["w-1", "w-1"]


def test_late_answers_keep_their_order_and_their_connection() -> None:
    """[MQTT-4.6.0-2]"""
    scenario = Stage()
    scenario.receiver.delay_s = 5.0
    scenario.message("w-1", 1, 1)
    scenario.receiver.delay_s = 0.0
    scenario.message("w-2", 1, 2)
    scenario.loop.run_for(4.0)
    assert scenario.sent == []
    scenario.loop.run_for(1.0)
    assert scenario.sent == [Puback(1), Puback(2)]
    scenario.receiver.delay_s = 5.0
    scenario.message("w-3", 1, 3)
    scenario.connection = 2
    scenario.receiver.begin(2)
    scenario.loop.run_for(9.0)
    assert scenario.sent == [Puback(1), Puback(2)]


def test_a_window_overrun_is_a_problem() -> None:
    """[MQTT5-3.3.4-9]; a repeated message may cross its answer and does not count."""
    scenario = Stage()
    scenario.receiver.window = 1
    scenario.receiver.delay_s = 5.0
    scenario.message("w-1", 1, 1)
    scenario.message("w-1", 1, 1, dup=True)
    assert scenario.history.problems == []
    scenario.message("w-2", 1, 2)
    assert scenario.history.problems == ["s: 2 in flight, window 1"]
