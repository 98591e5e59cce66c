"""The publishing half of a model client."""

from __future__ import annotations

from typing import Any

from strogoff.mqtt.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel
from strogoff.sim.history import NEVER, History
from strogoff.sim.workload.sender import Sender, key_of, payload


def make() -> tuple[Sender, list[Any], History]:
    sent: list[Any] = []
    history = History(lambda: 1.0)
    return Sender(history, "w", lambda *packets: sent.extend(packets)), sent, history


def test_keys() -> None:
    assert payload("w-1", 3) == b"w-1|..." and key_of(payload("w-1", 3)) == "w-1"


def test_qos_1() -> None:
    sender, sent, history = make()
    assert sender.publish("t", 1)
    assert sent == [Publish("t", b"w-1|", 1, packet_id=1)]
    sender.puback(Puback(1), (7, 0.0, False))
    attempt = history.attempts["w-1"]
    assert (attempt.acked, attempt.mark, sender.open) == (2, 7, {})


def test_qos_2() -> None:
    """[MQTT-4.3.3-1] [MQTT5-4.3.3-1]"""
    sender, sent, history = make()
    sender.publish("t", 2)
    sender.pubrec(Pubrec(1), (7, 0.0, False))
    assert sent[1] == Pubrel(1) and history.attempts["w-1"].acked == 2
    sender.pubrec(Pubrec(1), (9, 0.0, False))
    assert history.attempts["w-1"].mark == 7
    sender.pubcomp(Pubcomp(1))
    assert sender.open == {} and history.problems == []


def test_the_lowest_free_id_is_taken_and_the_window_respected() -> None:
    sender, sent, _ = make()
    sender.limit = 2
    assert [sender.publish("t", 1) for _ in range(3)] == [True, True, False]
    sender.puback(Puback(1), (0, 0.0, False))
    sender.publish("t", 1)
    assert [packet.packet_id for packet in sent] == [1, 2, 1]
    assert sender.publish("t", 0) and sent[-1].packet_id == 0


def test_resumed_in_order_with_dup() -> None:
    """[MQTT-4.4.0-1] [MQTT-4.6.0-1] [MQTT-3.3.1-1]"""
    sender, sent, history = make()
    for qos in (2, 1, 2):
        sender.publish("t", qos)
    sender.pubrec(Pubrec(1), (0, 0.0, False))
    sent.clear()
    sender.resume()
    assert sent == [Pubrel(1), Publish("t", b"w-2|", 1, False, True, 2), Publish("t", b"w-3|", 2, False, True, 3)]
    assert [history.attempts[key].resent for key in ("w-1", "w-2", "w-3")] == [0, 1, 1]


def test_the_node_that_gets_a_message_again_and_since_when() -> None:
    """An answered message is not sent again."""
    sender, _, history = make()
    times = iter(range(1, 100))
    history.now = lambda: float(next(times))
    sender.publish("t", 1)
    sender.publish("t", 2)
    sender.pubrec(Pubrec(2), (0, 0.0, False))
    first, second = history.attempts.values()
    assert first.resent_to is None
    for node, resent_to in [("n1", ("n1", 4.0)), ("n1", ("n1", 4.0)), ("n2", ("n2", 5.0)), ("n1", ("n1", 6.0))]:
        sender.go_to(node)
        sender.resume()
        assert first.resent_to == resent_to
    assert (first.node, first.resent, second.resent_to) == ("n1", 4, None)


def test_forgotten_with_the_session() -> None:
    sender, sent, history = make()
    sender.publish("t", 1)
    sender.forget()
    sent.clear()
    sender.resume()
    assert sent == [] and history.attempts["w-1"].acked == NEVER


def test_refusals_finish_a_message() -> None:
    sender, _, history = make()
    sender.publish("t", 1)
    sender.publish("t", 2)
    sender.puback(Puback(1, 0x97), (0, 0.0, False))
    sender.pubrec(Pubrec(2, 0x97), (0, 0.0, False))
    assert sender.open == {} and all(each.acked == NEVER for each in history.attempts.values())
    assert [each.refused for each in history.attempts.values()] == [3, 4]


def test_answers_without_a_message_are_problems() -> None:
    sender, _, history = make()
    sender.puback(Puback(1), (0, 0.0, False))
    sender.pubrec(Pubrec(1), (0, 0.0, False))
    sender.publish("t", 2)
    sender.pubcomp(Pubcomp(1))
    assert len(history.problems) == 3
