"""CONNECT and plugins: which plugins are asked, which values they may change, and that their limits hold."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.plugins.hooks import NEXT, Refuse
from strogoff.mqtt.packets import Disconnect, Pingreq, Pingresp, Puback, Publish, Suback, Will
from strogoff.netsplit.policy import ViewState

from ...harness.broker import BrokerHarness, connect, publish
from ...harness.transcript import CLOSED, PendingHooks, RawClient, accepted, reason_of, refused, will

VERSIONS = (3, 4, 5)
BRIDGE_STATE = "$SYS/broker/connection/bridge/state"
"""A bridge of mosquitto has a will to this topic, unless its configuration says otherwise."""


class Guard:
    """A plugin that answers CONNECT with what the test says, and allows the rest."""

    def __init__(self, answer: Any = True, will_answer: Any = True) -> None:
        self.answer = answer
        self.will_answer = will_answer
        self.asked: list[tuple[Any, ...]] = []

    def auth_on_register(
        self, peer: Any, subscriber: Any, user: Any, password: Any, clean: bool, options: Any = None
    ) -> Any:
        self.asked.append((tuple(subscriber), user, password, clean, options))
        return self.answer

    def auth_on_publish(self, *args: Any) -> Any:
        return self.will_answer if args[3] in ("will", BRIDGE_STATE) else True

    def auth_on_subscribe(self, *_: Any) -> bool:
        return True


class Guard5(Guard):
    """The same for MQTT 5, which has more modifiers."""

    def auth_on_register_m5(
        self, peer: Any, subscriber: Any, user: Any, password: Any, clean: bool, properties: Any, options: Any = None
    ) -> Any:
        return self.auth_on_register(peer, subscriber, user, password, clean, options)

    def auth_on_publish_m5(self, *args: Any) -> Any:
        return self.auth_on_publish(*args[:-1])


class SlowGuard(Guard):
    """The same, answering later."""

    async def auth_on_register(self, *args: Any) -> Any:
        return super().auth_on_register(*args)

    async def auth_on_publish(self, *args: Any) -> Any:
        return super().auth_on_publish(*args)


def guarded(answer: Any = True, **options: Any) -> BrokerHarness:
    """A broker on which a plugin gives this answer to every CONNECT."""
    return BrokerHarness(Guard5(answer), allow_anonymous=False, **options)


# -- which plugins are asked


@pytest.mark.parametrize("version", VERSIONS)
def test_the_arguments_of_a_plugin(version: int) -> None:
    """Mountpoint, client id, user, password and Clean Session, of anonymous clients too."""
    plugin = Guard()
    broker = BrokerHarness(plugin, allow_anonymous=False)
    RawClient(broker, version, mountpoint="m").says(connect("c", version, username="u", password=b"p"))
    RawClient(broker, version).says(connect("c", version, False))
    assert plugin.asked == [(("m", "c"), "u", b"p", True, None), (("", "c"), None, None, False, None)]
    assert broker.node.sessions.get("m", "c") is not None


@pytest.mark.parametrize("version", VERSIONS)
def test_anonymous_clients(version: int) -> None:
    """With `allow_anonymous`, or the listener's override, no plugin is asked."""
    plugin = Guard(False)
    broker = BrokerHarness(plugin, allow_anonymous=False)
    assert RawClient(broker, version, allow_anonymous_override=True).says(connect("c", version)) == [accepted()]
    caller = RawClient(broker, version)
    caller.send(connect("c", version))
    assert refused(caller, 0x86 if version == 5 else 5)
    assert RawClient(BrokerHarness(plugin), version).says(connect("c", version)) == [accepted()]
    assert len(plugin.asked) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_listener_with_its_own_chain(version: int) -> None:
    """`auth_plugins` names the plugins and their order; if no plugin of the chain accepts, the client is refused."""
    yes, no, unsure = Guard(True), Guard(Refuse("invalid_credentials")), Guard(NEXT)
    broker = BrokerHarness(unsure, allow_anonymous=False)
    for name, plugin in (("yes", yes), ("no", no)):
        broker.node.env.hooks.add(name, plugin)
    for chain, code in ((("plugin", "yes"), 0), (("plugin", "no", "yes"), 4), (("plugin",), 5), (("no",), 4), ((), 0)):
        caller = RawClient(broker, version, auth_plugins=chain)
        heard = caller.says(connect("c", version))
        wanted = {0: 0, 4: 0x86, 5: 0x86}[code] if version == 5 else code
        assert (heard[0].reason, heard[1:]) == (wanted, [] if code == 0 else [CLOSED]), chain


def test_connection_options() -> None:
    """Plugins are told of the listener where it forwards them."""
    plugin = Guard()
    broker = BrokerHarness(plugin, allow_anonymous=False)
    RawClient(broker, forward_connection_opts=True).says(connect("c"))
    options = plugin.asked[0][-1]
    assert options == {"listener_addr": "127.0.0.1", "listener_port": 1883, "listener_type": "tcp"}


# -- which values a plugin may change


@pytest.mark.parametrize("version", VERSIONS)
def test_another_name(version: int) -> None:
    """Mountpoint, client id and user are the plugin's from then on; takeover goes by the new client id."""
    broker = guarded({"subscriber_id": ("m", "real"), "username": "boss"})
    first = RawClient(broker, version)
    assert first.says(connect("a", version)) == [accepted()]
    session = broker.node.sessions.get("m", "real")
    assert session is not None and session.username == "boss"
    assert RawClient(broker, version).says(connect("b", version)) == [accepted()]
    assert first.hears()[-1] == CLOSED
    assert len(broker.node.sessions) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_clean_session_of_a_plugin(version: int) -> None:
    """The plugin's value overrides the client's."""
    name = "clean_start" if version == 5 else "clean_session"
    broker = guarded({name: True})
    expiry = 100 if version == 5 else None
    for _ in range(2):
        caller = RawClient(broker, version)
        assert caller.says(connect("c", version, False, expiry)) == [accepted()]
        caller.vanish()


@pytest.mark.parametrize(("asked", "given"), [(None, 60), (1000, 60), (1000, 0)])
def test_session_expiry_of_a_plugin(asked: int | None, given: int) -> None:
    """v5 gets the interval that is in force."""
    broker = guarded({"session_expiry_interval": given})
    caller = RawClient(broker, 5)
    assert caller.says(connect("c", 5, False, asked)) == [accepted(session_expiry_interval=given)]
    caller.vanish()
    broker.pass_s(59)
    assert len(broker.node.sessions) == (given > 0)
    broker.pass_s(2)
    assert len(broker.node.sessions) == 0


@pytest.mark.parametrize(("said", "lives_s"), [(1000, 60), (30, 30)])
def test_disconnect_asks_for_no_more_than_the_plugin_gave(said: int, lives_s: int) -> None:
    """The plugin has decided how long the session of this client may last; the client may make it shorter."""
    broker = guarded({"session_expiry_interval": 60})
    caller = RawClient(broker, 5)
    caller.says(connect("c", 5, False, 1000))
    caller.says(Disconnect(0, {"session_expiry_interval": said}))
    broker.pass_s(lives_s - 1)
    assert len(broker.node.sessions) == 1
    broker.pass_s(2)
    assert len(broker.node.sessions) == 0


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("later", ["stay", "kill"])
def test_queue_limits_of_a_plugin(version: int, later: str) -> None:
    """They hold for this session, and still do after a restart (P7; VerneMQ forgets them)."""
    plugin = Guard5({"max_offline_messages": 2, "queue_type": "lifo", "upgrade_qos": True})
    broker = BrokerHarness(plugin, allow_anonymous=False)
    subscriber = broker.persistent("s", version)
    subscriber.subscribe(("t", 2))
    subscriber.vanish()
    plugin.answer = True
    if later == "kill":
        broker.restart()
    publisher = broker.client("p")
    for number in range(4):
        publisher.publish("t", b"%d" % number, 1, number + 1)
    assert broker.drops() == [("s", "t", "queue_full")] * 2
    plugin.answer = {"queue_type": "fifo"}
    got = broker.persistent("s", version).drain()
    assert [(m.payload, m.qos) for m in got] == [(b"2", 2), (b"3", 2)]


@pytest.mark.parametrize(
    ("version", "change", "fields", "window"),
    [
        (4, {"max_inflight_messages": 2}, {}, 2),
        (3, {"max_inflight_messages": 3}, {}, 3),
        (5, {"fc_receive_max_client": 2}, {}, 2),
        (5, {"fc_receive_max_client": 5}, {"receive_maximum": 3}, 3),
        (5, {"fc_receive_max_client": 0}, {"receive_maximum": 4}, 4),
        (5, {}, {"receive_maximum": 1}, 1),
    ],
)
def test_the_window_of_a_plugin(version: int, change: dict[str, Any], fields: dict[str, Any], window: int) -> None:
    """It never exceeds the Receive Maximum of the client [MQTT5-3.3.4-9]"""
    broker = guarded(change)
    subscriber = broker.client("s", version, **fields)
    subscriber.subscribe(("t", 1))
    publisher = broker.client("p", 5)
    for number in range(6):
        publisher.publish("t", b"%d" % number, 1, number + 1)
    assert len(subscriber.messages()) == window


@pytest.mark.parametrize(
    ("change", "announced"), [({"fc_receive_max_broker": 2}, 2), ({"fc_receive_max_broker": 0}, 9), ({}, 9)]
)
def test_the_receive_maximum_of_a_plugin(change: dict[str, Any], announced: int) -> None:
    """The value is announced and enforced: one more unfinished PUBLISH ends the connection with 0x93."""
    broker = guarded(change, receive_max_broker=9)
    caller = RawClient(broker, 5)
    assert caller.says(connect("c", 5)) == [accepted(receive_maximum=announced)]
    for number in range(announced):
        assert len(caller.says(publish("t", b"", 2, number + 1))) == 1
    assert reason_of(caller.says(publish("t", b"", 2, 100))) == 0x93


@pytest.mark.parametrize("limit", [50, 0])
def test_the_message_size_of_a_plugin(limit: int) -> None:
    """The value is announced and enforced; 0 allows every size."""
    broker = guarded({"max_message_size": limit}, max_message_size=1000)
    caller = RawClient(broker, 5)
    assert caller.says(connect("c", 5)) == [accepted(maximum_packet_size=52) if limit else accepted()]
    heard = caller.says(publish("t", bytes(2000), 1, 1))
    assert heard == [Puback(1, 0x10)] if not limit else reason_of(heard) == 0x95


def test_the_aliases_of_a_plugin() -> None:
    """Announced, and no higher one is taken."""
    broker = guarded({"topic_alias_max": 2}, topic_alias_max_client=10)
    caller = RawClient(broker, 5)
    assert caller.says(connect("c", 5)) == [accepted(topic_alias_maximum=2)]
    assert caller.says(publish("t", b"", 1, 1, topic_alias=2)) == [Puback(1, 0x10)]
    assert reason_of(caller.says(publish("t", b"", 1, 1, topic_alias=3))) == 0x94


@pytest.mark.parametrize(("client", "plugin", "most"), [(0, 40, 40), (60, 40, 40), (40, 60, 40), (40, 0, 40)])
def test_the_packet_size_of_a_plugin(client: int, plugin: int, most: int) -> None:
    """Nothing larger goes to the client [MQTT5-3.1.2-24]"""
    broker = guarded({"max_packet_size": plugin})
    limits: dict[str, Any] = {"maximum_packet_size": client} if client else {}
    subscriber = broker.client("s", 5, **limits)
    subscriber.subscribe(("t", 0))
    overhead = 6
    for size in (most - overhead, most - overhead + 1):
        broker.client("p", 5).publish("t", bytes(size))
    assert [len(m.payload) for m in subscriber.messages()] == [most - overhead]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_lifetime_of_a_plugin(version: int) -> None:
    """`max_connection_lifetime` of the plugin comes before the listener's."""
    broker = guarded({"max_connection_lifetime": 10})
    caller = RawClient(broker, version, max_connection_lifetime_s=5)
    caller.says(connect("c", version))
    broker.pass_s(9)
    assert caller.says(Pingreq()) == [Pingresp()]
    broker.pass_s(2)
    heard = caller.hears()
    assert heard[-1] == CLOSED and reason_of(heard) == (0xA0 if version == 5 else None)


@pytest.mark.parametrize(("own", "serves"), [(True, True), ("on", True), ("off", False), (False, False)])
def test_a_split_with_flags_of_a_plugin(own: Any, serves: bool) -> None:
    """The client's own `allow_register` counts."""
    broker = guarded({"allow_register": own}, allow_register_during_netsplit="off" if serves else "on")
    broker.node.policy.view_state = ViewState.MINORITY
    caller = RawClient(broker)
    caller.send(connect("c"))
    assert caller.hears() == [accepted()] if serves else refused(caller, 3)


# -- properties of CONNACK


def test_properties_of_a_plugin() -> None:
    """They are sent in CONNACK; response information only to a client that asked for it [MQTT5-3.1.2-28]"""
    given: dict[str, Any] = {
        "response_information": "answers/",
        "maximum_qos": 1,
        "user_property": [("a", "b"), ("a", "c")],
    }
    broker = guarded({"properties": given})
    assert RawClient(broker, 5).says(connect("c", 5, request_response_information=1)) == [accepted(**given)]
    given = {name: value for name, value in given.items() if name != "response_information"}
    assert RawClient(broker, 5).says(connect("c", 5, request_response_information=0)) == [accepted(**given)]
    assert RawClient(broker, 5).says(connect("c", 5)) == [accepted(**given)]


def test_a_plugin_does_not_speak_for_the_broker() -> None:
    """A plugin cannot set CONNACK properties that would be wrong: these have modifiers of their own."""
    lies = {"receive_maximum": 5, "maximum_packet_size": 10, "topic_alias_maximum": 9, "session_expiry_interval": 7}
    broker = guarded({"properties": {**lies, "assigned_client_identifier": "x", "authentication_method": "y"}})
    assert RawClient(broker, 5).says(connect("c", 5)) == [accepted()]


def test_a_keep_alive_of_a_plugin() -> None:
    """The broker applies the keep alive that it announces [MQTT5-3.2.2-21] [MQTT5-3.2.2-22]"""
    broker = guarded({"properties": {"server_keep_alive": 10}})
    caller = RawClient(broker, 5)
    assert caller.says(connect("c", 5, keepalive_s=100)) == [accepted(server_keep_alive=10)]
    broker.pass_s(14.9)
    assert caller.hears() == []
    broker.pass_s(0.2)
    assert reason_of(caller.hears()) == 0x8D


def test_connack_in_a_small_packet() -> None:
    """User properties, then the reason string, are left out where the client could not take them.

    [MQTT5-3.2.2-19] [MQTT5-3.2.2-20]
    """
    more = {"reason_string": "r" * 30, "user_property": [("n", "v" * 30)]}
    for answer, code in (({"properties": more}, 0), (Refuse("no", 0x87, more), 0x87)):
        broker = guarded(answer)
        for limit, kept in ((100, {"reason_string", "user_property"}), (50, {"reason_string"}), (20, set())):
            connack = RawClient(broker, 5).says(connect("c", 5, maximum_packet_size=limit))[0]
            assert (connack.reason, set(connack.properties or ())) == (code, kept)


def test_a_plugin_whose_properties_make_no_sense() -> None:
    """The plugin is at fault: CONNECT is refused, and the connection does not hang (P9)."""
    errors: list[str] = []
    sense: dict[str, Any] = {"properties": {"user_property": [("a", "b")]}}
    plugin = Guard5(sense)
    broker = BrokerHarness(plugin, allow_anonymous=False)
    broker.node.env.hooks._on_error = lambda plugin, hook, error: errors.append(hook)
    wrongs = ({"no_such": 1}, {"server_keep_alive": "long"}, {"content_type": "not for CONNACK"})
    for answer in (*({"properties": wrong} for wrong in wrongs), Refuse("no", 0x8E), Refuse("no", 0x87, {"x": 1})):
        plugin.answer = answer
        caller = RawClient(broker, 5)
        caller.send(connect("c", 5))
        assert refused(caller, 0x86)
    assert errors == ["auth_on_register_m5"] * 5
    plugin.answer = sense
    assert RawClient(broker, 5).says(connect("c", 5)) == [accepted(**sense["properties"])]


# -- the will


@pytest.mark.parametrize("version", VERSIONS)
def test_a_will_that_is_not_allowed(version: int) -> None:
    """CONNECT is refused with 5 or 0x87, and there is no session [MQTT5-3.1.4-2]"""
    broker = BrokerHarness(Guard(True, False), allow_anonymous=False)
    caller = RawClient(broker, version)
    caller.send(connect("c", version, will=will()))
    assert refused(caller, 0x87 if version == 5 else 5)
    assert len(broker.node.sessions) == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_will_that_is_changed(version: int) -> None:
    """Topic, payload, QoS and retain are the plugin's."""
    change = {"topic": "other", "payload": b"new", "qos": 0, "retain": True}
    broker = BrokerHarness(Guard(True, change), allow_anonymous=False)
    watcher = broker.client("w")
    watcher.subscribe(("#", 1))
    broker.client("c", version, will=will(qos=1)).vanish()
    assert watcher.messages() == [Publish("other", b"new")]
    assert broker.client("late").subscribe(("#", 1))[1] == Publish("other", b"new", retain=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_will_to_a_topic_of_the_broker_is_left_out(version: int) -> None:
    """A bridge of mosquitto has such a will: it is accepted, and the will counts as a PUBLISH that failed."""
    broker = BrokerHarness()
    watcher = broker.client("w", version)
    watcher.subscribe(("$SYS/#", 1))
    state = Will(BRIDGE_STATE, b"0", 1, retain=True)
    broker.client("bridge", version, will=state).vanish()
    assert watcher.messages() == []
    assert broker.client("late").subscribe(("$SYS/#", 1)) == [Suback(1, [1])]
    assert broker.events("will.arm", "will.fire") == []
    assert broker.node.env.counters.publish_error == [version != 5, version == 5]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("topic", ["bridge/state", "$bridges/state"])
def test_a_plugin_gives_the_will_of_a_bridge_another_topic(version: int, topic: str) -> None:
    """It may have `$`, as a topic that a plugin gives a PUBLISH."""
    broker = BrokerHarness(Guard(True, {"topic": topic}), allow_anonymous=False)
    watcher = broker.client("w")
    watcher.subscribe((topic, 1))
    broker.client("c", version, will=Will(BRIDGE_STATE, b"0")).vanish()
    assert watcher.payloads() == [b"0"]


@pytest.mark.parametrize("version", VERSIONS)
def test_two_slow_questions(version: int) -> None:
    """Registration, then the will; packets behind CONNECT wait for both."""
    plugin = SlowGuard()
    broker = BrokerHarness(plugin, allow_anonymous=False)
    questions = PendingHooks(broker)
    caller = RawClient(broker, version)
    behind = [Pingreq(), publish("t", b"", 1, 1), Pingreq()]
    assert caller.says(connect("c", version, will=will()), *behind) == []
    questions.answer()
    assert caller.hears() == [] and len(questions) == 1
    questions.answer()
    assert caller.hears() == [accepted(), Pingresp()] and len(questions) == 1
    questions.answer()
    assert caller.hears() == [Puback(1, 0x10 if version == 5 else 0), Pingresp()]
