"""SUBSCRIBE and UNSUBSCRIBE: answers, replacement, refusals, changes by plugins, and the disk."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from strogoff.analytics.schema import validate
from strogoff.broker.connection.subscribe import FILTERS_PER_TURN
from strogoff.broker.options import Options
from strogoff.broker.plugins.hooks import Allow, Refuse
from strogoff.configs.schema import schema
from strogoff.mqtt import packets
from strogoff.mqtt.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel, Suback, Unsuback
from strogoff.mqtt.reasons import ReasonCode
from strogoff.netsplit.policy import ViewState
from strogoff.sim.engine.host import AllowAll

from ...harness.broker import BrokerHarness, option, publish
from ...harness.cluster import MAJORITY
from ...harness.transcript import PendingHooks

VERSIONS = (3, 4, 5)


class LateSubscribe(AllowAll):
    """A plugin that allows a SUBSCRIBE when the test calls `PendingHooks.answer`."""

    def auth_on_subscribe_m5(self, *arguments: Any) -> Any:
        return self._later()

    async def _later(self) -> bool:
        return True


@pytest.mark.parametrize("version", VERSIONS)
def test_suback(version: int) -> None:
    """One answer with the packet id of the request, one code per filter in their order: the granted QoS.

    [MQTT-2.3.1-7] [MQTT5-2.2.1-6] [MQTT-3.8.4-1] [MQTT-3.8.4-2] [MQTT-3.8.4-4] [MQTT-3.8.4-5] [MQTT-3.9.3-1]
    [MQTT5-3.8.4-1] [MQTT5-3.8.4-2] [MQTT5-3.8.4-5] [MQTT5-3.8.4-6] [MQTT5-3.8.4-7] [MQTT5-3.9.3-1]
    """
    broker = BrokerHarness()
    client = broker.client("s", version)
    assert client.subscribe(("a", 0), packet_id=65535) == [Suback(65535, [0])]
    assert client.subscribe(("a", 2), ("b/#", 0), ("+/c", 1), ("a", 1), packet_id=7) == [Suback(7, [2, 0, 1, 1])]
    publisher = broker.client("p", version)
    for topic in ("a", "b/x", "x/c"):
        publisher.publish(topic, b"", 2, ord(topic[0]))
    assert [(m.topic, m.qos) for m in client.messages()] == [("a", 1), ("b/x", 0), ("x/c", 1)]


@pytest.mark.parametrize("version", VERSIONS)
def test_suback_waits_for_the_disk(version: int) -> None:
    """After SUBACK a kill loses no subscription of a persistent session; after UNSUBACK it restores none (P7)."""
    broker = BrokerHarness()
    client = broker.persistent("s", version)
    broker.hold_disk()
    assert client.subscribe(("t", 1)) == []
    broker.free_disk()
    assert client.take() == [Suback(1, [1])]
    broker.restart()
    client = broker.persistent("s", version)
    publisher = broker.client("p", version)
    publisher.publish("t", b"x", 1, 1)
    assert client.payloads() == [b"x"]
    broker.hold_disk()
    assert client.unsubscribe("t", packet_id=2) == []
    broker.free_disk()
    assert client.take() == [Unsuback(2, [0] if version == 5 else [])]
    broker.restart()
    broker.client("p", version).publish("t", b"y", 1, 1)
    assert [m.payload for m in broker.persistent("s", version).messages()] == [b"x"]


def test_a_clean_session_does_not_wait_for_the_disk() -> None:
    """Its subscriptions are not written."""
    broker = BrokerHarness()
    client = broker.client("s")
    broker.hold_disk()
    assert client.subscribe(("t", 1)) == [Suback(1, [1])]
    assert client.unsubscribe("t") == [Unsuback(1, [])]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_same_filter_again_replaces_the_subscription(version: int) -> None:
    """New QoS, one subscription, the flow is not interrupted and nothing is lost.

    [MQTT-3.8.4-3] [MQTT5-3.8.4-3] [MQTT5-3.8.4-4]
    """
    broker = BrokerHarness()
    client = broker.persistent("s", version)
    client.subscribe(("t", 0))
    publisher = broker.client("p", version)
    seen: list[tuple[bytes, int]] = []
    for number, granted in enumerate((1, 2, 0, 2, 1), 1):
        publisher.send(publish("t", b"%d" % number, 2, number))
        client.send(packets.Subscribe(number, [option("t", granted)]))
        broker.settle()
        came = client.take()
        assert Suback(number, [granted]) in came
        seen += [(m.payload, m.qos) for m in came if isinstance(m, Publish)]
    publisher.publish("t", b"last", 2, 100)
    seen += [(m.payload, m.qos) for m in client.messages()]
    assert seen == [(b"1", 0), (b"2", 1), (b"3", 2), (b"4", 0), (b"5", 2), (b"last", 1)]
    client.unsubscribe("t")
    publisher.publish("t", b"gone", 2, 101)
    assert client.messages() == []


def test_shared_and_ordinary_filters_are_different_subscriptions() -> None:
    """`$share/g/t` is not `t` (section 4.8.2)."""
    broker = BrokerHarness()
    client = broker.client("s", 5)
    client.subscribe(("t", 0), ("$share/g/t", 0))
    assert client.unsubscribe("t") == [Unsuback(1, [0])]
    broker.client("p").publish("t")
    assert len(client.messages()) == 1


# -- refusals


def subscribe_frame(wanted: list[tuple[str, int]], version: int) -> bytes:
    """A SUBSCRIBE of filters and option bytes that the encoder would not send."""
    body = b"\x00\x01" + (b"\x00" if version == 5 else b"")
    for text, options in wanted:
        body += len(text).to_bytes(2, "big") + text.encode() + bytes([options])
    return bytes([0x82, len(body)]) + body


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("text", ["a#", "#/b", "$share/g", "$share//t", "$share/+/t", "x/+y", ""])
def test_malformed_filters_close_the_connection(version: int, text: str) -> None:
    """The whole packet has no effect (sections 4.7.1 and 4.8.2)."""
    broker = BrokerHarness()
    client = broker.client("s", version)
    came = client.ask(subscribe_frame([("ok", 1), (text, 0)], version))
    assert [packet.reason for packet in came] == ([0x81] if version == 5 else [])
    assert client.closed and broker.node.router.subscriptions == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_single_filters_are_refused(version: int) -> None:
    """v5 0x8F, the older versions 0x80; the other filters of the packet are granted.

    [MQTT-3.9.3-2] [MQTT5-3.9.3-2] [MQTT5-3.8.4-7] [MQTT-3.8.4-5]
    """
    client = BrokerHarness(topic_max_depth=2).client("s", version)
    code = 0x8F if version == 5 else 0x80
    wanted = [("ok", 1), ("a/b/c", 0), ("fine/#", 2), ("#", 0), ("a/b/#", 1)]
    assert client.subscribe(*wanted) == [Suback(1, [1, code, 2, 0, code])]
    assert client.subscribe(("a/b/c", 0)) == [Suback(1, [code])]


def test_limits_of_a_client() -> None:
    """Depth of a filter and number of subscriptions; one that exists may always be replaced."""
    broker = BrokerHarness(topic_max_depth=3, max_subscriptions_per_client=2)
    client = broker.client("s", 5)
    answer = [0x8F, 0, 0, 0, 0x97]
    wanted = [("a/b/c/d", 0), ("$share/g/a/b/c", 0), ("x", 0), ("x", 0), ("y", 0)]
    assert client.subscribe(*wanted) == [Suback(1, answer)]
    assert client.subscribe(("x", 1)) == [Suback(1, [1])]
    assert broker.client("old").subscribe(("a", 0), ("b", 0), ("c", 0)) == [Suback(1, [0, 0, 0x80])]


def test_the_filters_of_a_client_are_bounded_by_default() -> None:
    """P8: a session with very many filters ends in one turn."""
    assert Options().max_subscriptions_per_client == schema().keys["max_subscriptions_per_client"].default_value() > 0


def test_no_local_with_a_shared_subscription() -> None:
    """It is a protocol error; the whole packet has no effect [MQTT5-3.8.3-4]."""
    broker = BrokerHarness()
    client = broker.client("s", 5)
    (answer,) = client.ask(subscribe_frame([("t", 0), ("$share/g/t", 0x04)], 5))
    assert answer.reason == 0x82 and client.closed
    assert broker.node.router.subscriptions == 0


class Plugin:
    """A plugin whose answers the test sets, and that notes its notifications."""

    def __init__(self, answer: Any = True, unsubscribe: Any = None) -> None:
        self.answer = answer
        self.on_answer = unsubscribe
        self.heard: list[tuple[str, list[Any]]] = []

    def auth_on_publish(self, *_: Any) -> bool:
        return True

    def auth_on_subscribe(self, *_: Any) -> Any:
        return self.answer

    def on_subscribe(self, user: Any, subscriber: Any, topics: Any) -> None:
        self.heard.append(("sub", list(topics)))

    def on_unsubscribe(self, *_: Any) -> Any:
        return self.on_answer

    def on_topic_unsubscribed(self, subscriber: Any, topics: Any) -> None:
        self.heard.append(("unsub", list(topics)))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plugin_refuses(version: int) -> None:
    """All filters: 0x87, or the code of the plugin; 0x80 for the older versions [MQTT-3.9.3-2] [MQTT5-3.9.3-2]."""
    code = 0x87 if version == 5 else 0x80
    client = BrokerHarness(Plugin(False)).client("s", version)
    assert client.subscribe(("a", 0), ("b", 1)) == [Suback(1, [code] * 2)]
    code = 0x91 if version == 5 else 0x80
    broker = BrokerHarness(Plugin(Refuse("no", 0x91)))
    client = broker.client("s", version)
    assert client.subscribe(("a", 0), ("b", 1)) == [Suback(1, [code] * 2)]
    broker.client("p").publish("a")
    assert client.messages() == [] and not client.closed


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plugin_changes_filters(version: int) -> None:
    """Another filter, another QoS, and a single refusal."""
    plugin = Plugin([("other/a", 1), ("b", "not_allowed"), ("c", 0), ("bad#", 0)])
    broker = BrokerHarness(plugin)
    client = broker.client("s", version)
    refused, invalid = (0x87, 0x8F) if version == 5 else (0x80, 0x80)
    answers = client.subscribe(("a", 2), ("b", 2), ("c", 2), ("d", 2))
    assert answers == [Suback(1, [1, refused, 0, invalid])]
    publisher = broker.client("p")
    for topic in ("a", "other/a", "b", "c", "d"):
        publisher.publish(topic, b"", 2, len(topic))
        publisher.ask(Pubrel(len(topic)))
    assert [(m.topic, m.qos) for m in client.messages()] == [("other/a", 1), ("c", 0)]


def test_a_plugin_changes_v5_options() -> None:
    """Options in place of a QoS."""

    class Five(Plugin):
        def auth_on_subscribe_m5(self, *_: Any) -> Any:
            return [("t", {"qos": 1, "rap": True, "no_local": True, "retain_handling": 2})]

    broker = BrokerHarness(Five())
    broker.client("p").publish("t", b"old", 1, 1, retain=True)
    client = broker.client("s", 5)
    assert client.subscribe(("t", 0)) == [Suback(1, [1])]
    assert client.publish("t", b"mine", 0) == []
    broker.client("p").publish("t", b"new", 1, 1, retain=True)
    assert [(m.payload, m.qos, m.retain) for m in client.messages()] == [(b"new", 1, True)]


def test_plugins_hear_of_subscriptions() -> None:
    """on_subscribe and on_topic_unsubscribed."""
    plugin = Plugin()
    client = BrokerHarness(plugin).client("s")
    client.subscribe(("a", 0), ("b", 1))
    client.unsubscribe("a")
    assert plugin.heard == [("sub", [("a", 0), ("b", 1)]), ("unsub", ["a"])]


class Five:
    """A plugin that hears what MQTT 5 clients subscribe to, and refuses one filter."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def auth_on_subscribe_m5(self, user: Any, subscriber: Any, subscriptions: Any, properties: Any) -> Any:
        return [(text, 0x87 if text == "refused" else options) for text, options in subscriptions]

    def on_subscribe_m5(self, user: Any, subscriber: Any, *told: Any) -> None:
        self.heard.append(told)


def test_plugins_hear_options_and_refusals() -> None:
    """With the options of MQTT 5, and the code of a refusal: the session has no such subscription."""
    plugin = Five()
    client = BrokerHarness(plugin).client("s", 5)
    client.subscribe(("a", 1), ("refused", 1), subscription_identifier=7)
    options = {"qos": 1, "no_local": False, "rap": False, "retain_handling": 0}
    assert plugin.heard == [([("a", options), ("refused", 0x87)], {"subscription_identifier": 7})]


@pytest.mark.parametrize("version", VERSIONS)
def test_plugins_of_old_form_hear_refusals(version: int) -> None:
    plugin = Plugin([("a", 1), ("b", "not_allowed")])
    BrokerHarness(plugin).client("s", version).subscribe(("a", 1), ("b", 1))
    assert plugin.heard == [("sub", [("a", 1), ("b", 0x87 if version == 5 else 0x80)])]


class Explains:
    """Adds properties to its answers."""

    answer: Any = Allow({"properties": {"reason_string": "here you are"}})

    def auth_on_subscribe_m5(self, *_: Any) -> Any:
        return self.answer

    on_unsubscribe_m5 = auth_on_subscribe_m5


@pytest.mark.parametrize("wanted", [1, 0])
def test_properties_of_a_plugin_are_in_the_answer(wanted: int) -> None:
    """In SUBACK and UNSUBACK, unless the client asks for no problem information [MQTT5-3.1.2-29]."""
    plugin = Explains()
    client = BrokerHarness(plugin).client("s", 5, request_problem_information=wanted)

    def said(text: str) -> Any:
        return {"reason_string": text} if wanted else None

    assert client.subscribe(("a", 0)) == [Suback(1, [0], said("here you are"))]
    assert client.unsubscribe("a") == [Unsuback(1, [0], said("here you are"))]
    plugin.answer = Refuse("no", 0x87, {"reason_string": "go away"})
    assert client.subscribe(("a", 0)) == [Suback(1, [0x87], said("go away"))]


# -- UNSUBSCRIBE


@pytest.mark.parametrize("version", VERSIONS)
def test_unsuback(version: int) -> None:
    """One answer with the request's packet id, also when nothing was deleted; v5 has a code per filter, in order.

    [MQTT-2.3.1-7] [MQTT5-2.2.1-6] [MQTT-3.10.4-4] [MQTT-3.10.4-5] [MQTT-3.10.4-6] [MQTT5-3.10.4-4] [MQTT5-3.10.4-5]
    [MQTT5-3.10.4-6] [MQTT5-3.11.3-1] [MQTT5-3.11.3-2]
    """
    broker = BrokerHarness()
    client = broker.client("s", version)
    client.subscribe(("a", 0), ("b", 0), ("c", 0))
    codes = [0, 0x11, 0, 0x11] if version == 5 else []
    assert client.unsubscribe("a", "nothing", "c", "a", packet_id=77) == [Unsuback(77, codes)]
    assert client.unsubscribe("nothing", packet_id=78) == [Unsuback(78, [0x11] if version == 5 else [])]
    publisher = broker.client("p", version)
    for topic in "abc":
        publisher.publish(topic)
    assert [m.topic for m in client.messages()] == ["b"]


@pytest.mark.parametrize("version", VERSIONS)
def test_filters_are_compared_character_by_character(version: int) -> None:
    """A filter that matches the same topics is not the same [MQTT-3.10.4-1] [MQTT5-3.10.4-1]."""
    broker = BrokerHarness()
    client = broker.client("s", version)
    client.subscribe(("a/+", 0))
    for text in ("a/#", "a/b", "A/+", "a/+/", "#", "+/+"):
        assert client.unsubscribe(text) == [Unsuback(1, [0x11] if version == 5 else [])]
    broker.client("p", version).publish("a/b")
    assert len(client.messages()) == 1
    client.unsubscribe("a/+")
    broker.client("p2", version).publish("a/b")
    assert client.messages() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_deliveries_that_had_begun_are_completed(version: int) -> None:
    """UNSUBSCRIBE stops new messages; QoS 1 and 2 messages already sent are completed, also after a reconnect.

    [MQTT-3.10.4-2] [MQTT-3.10.4-3] [MQTT5-3.10.4-2] [MQTT5-3.10.4-3]
    """
    broker = BrokerHarness()
    client = broker.persistent("s", version)
    client.subscribe(("t", 2))
    publisher = broker.client("p", version)
    publisher.publish("t", b"1", 1, 1)
    publisher.publish("t", b"2", 2, 2)
    one, two = client.messages()
    client.unsubscribe("t")
    publisher.publish("t", b"3", 1, 3)
    assert client.messages() == []
    client.vanish()
    client = broker.persistent("s", version)
    assert [(m.payload, m.dup) for m in client.messages()] == [(b"1", True), (b"2", True)]
    assert client.ask(Puback(one.packet_id)) == []
    assert client.ask(Pubrec(two.packet_id)) == [Pubrel(two.packet_id)]
    assert client.ask(Pubcomp(two.packet_id)) == []
    assert broker.keys(b"q") == []


def test_a_plugin_changes_the_filters_of_unsubscribe() -> None:
    """on_unsubscribe replaces the filters; its refusal changes nothing, because v3 has no refusal."""
    broker = BrokerHarness(Plugin(unsubscribe=["other"]))
    client = broker.client("s", 5)
    client.subscribe(("t", 0), ("other", 0))
    assert client.unsubscribe("t") == [Unsuback(1, [0])]
    publisher = broker.client("p")
    publisher.publish("t")
    publisher.publish("other")
    assert [m.topic for m in client.messages()] == ["t"]
    broker = BrokerHarness(Plugin(unsubscribe=False))
    client = broker.client("s", 5)
    client.subscribe(("t", 0))
    assert client.unsubscribe("t") == [Unsuback(1, [0])]


def added_in_turns(broker: BrokerHarness, client: Any, *sent: Any) -> list[int]:
    """Returns the number of subscriptions that session `s` gets in each turn of the loop after these packets."""
    session = broker.node.sessions.get("", "s")
    assert session is not None
    have = [len(session.subscriptions)]
    client.send(*sent)
    while broker.loop.now_s < 1 and broker.loop.turn():
        have.append(len(session.subscriptions))
        if len(have) > 100:
            break
    return [after - before for before, after in itertools.pairwise(have)]


@pytest.mark.parametrize("version", VERSIONS)
def test_many_filters_take_several_turns_of_the_loop(version: int) -> None:
    """Other clients are served meanwhile; packets behind the SUBSCRIBE are handled afterwards, in order."""
    broker = BrokerHarness()
    client = broker.persistent("s", version)
    wanted = [option(f"t/{number}", number % 3) for number in range(FILTERS_PER_TURN * 3 + 1)]
    sent = (packets.Subscribe(5, wanted), packets.Unsubscribe(6, ["t/0"]))
    added = added_in_turns(broker, client, *sent)
    assert max(added) == FILTERS_PER_TURN and sum(added) == len(wanted) - 1
    broker.settle()
    suback, unsuback = client.take()
    assert suback == Suback(5, [number % 3 for number in range(len(wanted))])
    assert unsuback.packet_id == 6


def test_a_client_that_leaves_while_its_filters_are_added() -> None:
    """There is no answer; a persistent session has a part of the filters, and gets all when the client asks again."""
    broker = BrokerHarness()
    client = broker.persistent("s")
    wanted = [option(f"t/{number}", 1) for number in range(FILTERS_PER_TURN * 3)]
    client.send(packets.Subscribe(5, wanted))
    broker.loop.turn()
    client.vanish()
    assert client.take() == []
    session = broker.node.sessions.get("", "s")
    assert session is not None and 0 < len(session.subscriptions) < len(wanted)
    again = broker.persistent("s")
    assert again.subscribe(*wanted, packet_id=6) == [Suback(6, [1] * len(wanted))]
    assert len(session.subscriptions) == len(wanted)


def test_a_node_that_loses_its_lease_while_a_plugin_decides_refuses() -> None:
    """H-04: SUBACK would not wait until the other nodes know of the subscription."""
    broker = BrokerHarness(**MAJORITY)
    client = broker.client("s", 5)
    broker.node.env.hooks.remove("plugin")
    broker.node.env.hooks.add("plugin", LateSubscribe())
    pending = PendingHooks(broker)
    for refused in (True, False):
        broker.node.policy.view_state = ViewState.WHOLE
        assert client.ask(packets.Subscribe(1, [option("t", 1)])) == []
        broker.node.policy.view_state = ViewState.MINORITY if refused else ViewState.MAJORITY
        pending.answer()
        (suback,) = client.take()
        assert suback.reasons == [ReasonCode.NOT_AUTHORIZED if refused else 1]
    session = broker.node.sessions.get("", "s")
    assert session is not None and list(session.subscriptions) == ["t"]


@pytest.mark.parametrize("policy", ["on", "majority"])
def test_a_node_that_loses_its_lease_while_it_adds_filters(policy: str) -> None:
    """With the policy `on` it needs none. Otherwise the client has to ask again."""
    options: dict[str, Any] = dict.fromkeys(MAJORITY, policy)
    broker = BrokerHarness(**options)
    client = broker.persistent("s", 5)
    wanted = [option(f"t/{number}", 1) for number in range(FILTERS_PER_TURN * 3)]
    client.send(packets.Subscribe(5, wanted))
    broker.loop.turn()
    broker.node.policy.view_state = ViewState.MINORITY
    broker.settle()
    (answer,) = client.take()
    if policy == "on":
        assert answer == Suback(5, [1] * len(wanted))
    else:
        assert answer.reason == ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR and client.closed
        assert broker.events("conn.close")[-1]["reason"] == "lease_lost"


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_are_in_the_event_log_when_they_leave(version: int) -> None:
    """A SUBACK that waits for the disk is not in the log before that, and follows the row of the subscription."""
    broker = BrokerHarness()
    client = broker.persistent("c", version)
    broker.hold_disk()
    client.subscribe(("a/#", 1), ("b", 0))
    assert broker.events("sub.add") and not broker.events("sub.ack")
    broker.free_disk()
    client.unsubscribe("b", "c")
    (added,), (removed,) = broker.events("sub.ack"), broker.events("unsub.ack")
    assert (added["client"], added["filters"], added["codes"]) == ("c", ["a/#", "b"], ["1", "0"])
    assert (removed["client"], removed["filters"], removed["codes"]) == ("c", ["b", "c"], ["0", "17"])
    assert broker.events("sub.add")[-1]["seq"] < added["seq"]
    assert validate(added) == validate(removed) == []
