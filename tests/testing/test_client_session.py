"""A client's half of a session: ids, resends, and QoS 2 delivered once."""

from __future__ import annotations

import pytest

from strogoff.mqtt.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel
from strogoff.testing.client_session import LAST_ID, Message, SessionState


def test_qos_1_is_finished_by_puback() -> None:
    """A second PUBACK has no effect."""
    state = SessionState()
    state.outgoing[1] = Publish("t", b"", 1, packet_id=1)
    assert state.answer(Puback(1, 16)) == (None, (1, 16))
    assert state.answer(Puback(1)) == (None, None)


def test_qos_2_is_finished_by_pubcomp() -> None:
    """PUBREC is answered with PUBREL, which alone is sent again from then on [MQTT-4.3.3-1]."""
    state = SessionState()
    state.outgoing[1] = Publish("t", b"", 2, packet_id=1)
    assert state.answer(Pubrec(1)) == (Pubrel(1), None)
    assert state.resume(True) == [Pubrel(1)]
    assert state.answer(Pubcomp(1)) == (None, (1, 0))
    assert state.outgoing == {}


def test_a_refusal_in_pubrec_finishes() -> None:
    """There is no PUBREL then [MQTT5-4.3.3-4]."""
    state = SessionState()
    state.outgoing[1] = Publish("t", b"", 2, packet_id=1)
    assert state.answer(Pubrec(1, 0x97)) == (None, (1, 0x97))


def test_unanswered_messages_are_sent_again() -> None:
    """In order and with DUP; nothing in a new session."""
    state = SessionState()
    for packet_id in (1, 2):
        state.outgoing[packet_id] = Publish("t", b"%d" % packet_id, 1, packet_id=packet_id)
    again = state.resume(True)
    assert [(each.packet_id, each.dup) for each in again if isinstance(each, Publish)] == [(1, True), (2, True)]
    assert state.resume(False) == [] and state.outgoing == {}


def test_a_qos_2_message_is_delivered_once_until_pubrel() -> None:
    """The packet id identifies it [MQTT-4.3.3-2]."""
    state = SessionState()
    publish = Publish("t", b"x", 2, packet_id=5)
    assert state.accept(publish) == Message("t", b"x", 2, packet_id=5)
    assert state.accept(publish) is None
    assert state.answer(Pubrel(5)) == (Pubcomp(5), None)
    assert state.accept(publish) is not None


def test_ids_in_use_are_skipped() -> None:
    """[MQTT-2.3.1-2]; with none left there is an error."""
    state = SessionState()
    state.outgoing = {packet_id: Pubrel(packet_id) for packet_id in range(1, LAST_ID)}
    assert state.new_id() == LAST_ID
    state.outgoing[LAST_ID] = Pubrel(LAST_ID)
    with pytest.raises(OverflowError):
        state.new_id()


def test_payloads() -> None:
    """As text and as JSON."""
    assert Message("t", b'{"a": 1}').json() == {"a": 1}
    assert Message("t", "é".encode()).text == "é"


def test_an_alias_stands_for_its_topic() -> None:
    """A later topic replaces it, also in a repeated QoS 2 message."""
    state = SessionState()
    named = Publish("a", b"", 2, packet_id=5, properties={"topic_alias": 1})
    short = Publish("", b"", properties={"topic_alias": 1})
    assert state.accept(named) == Message("a", b"", 2, packet_id=5, properties={"topic_alias": 1})
    assert state.accept(short) == Message("a", b"", properties={"topic_alias": 1})
    state.accept(Publish("b", b"", properties={"topic_alias": 1}))
    assert state.accept(named) is None
    assert state.accept(short) == Message("a", b"", properties={"topic_alias": 1})
