"""Enhanced authentication of MQTT 5: exchanges of AUTH at CONNECT and later."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.failed_logins import WINDOW_MS
from strogoff.broker.plugins.hooks import Allow, Hooks, Refuse
from strogoff.mqtt.encoder import encode
from strogoff.mqtt.packets import Auth, Disconnect, Pingreq, Pingresp, Puback, Publish

from ...harness.broker import BrokerHarness, connect, publish
from ...harness.transcript import CLOSED, PendingHooks, RawClient, accepted, reason_of, refused, will

CONTINUE, AGAIN = 0x18, 0x19


class Riddle:
    """A plugin with the method `riddle`: the right answer to its question is 42."""

    def __init__(self) -> None:
        self.asked: list[tuple[str | None, str, Any]] = []
        self.more: dict[str, Any] = {}
        self.no: Any = Refuse("wrong", 0x87)

    def on_auth_m5(self, user: str | None, subscriber: Any, properties: dict[str, Any]) -> Any:
        data = properties.get("authentication_data")
        self.asked.append((user, properties["authentication_method"], data))
        if properties["authentication_method"] != "riddle":
            return Refuse("unknown method", 0x8C)
        if data is None:
            return {"reason_code": CONTINUE, "properties": {"authentication_data": b"6 * 7", **self.more}}
        if data == b"42":
            return {
                "reason_code": 0,
                "username": "wise",
                "properties": {"authentication_data": b"well done", **self.more},
            }
        return self.no

    def auth_on_publish(self, *_: Any) -> bool:
        return True

    def auth_on_subscribe(self, *_: Any) -> bool:
        return True


class Slow(Riddle):
    """The same plugin, answering later."""

    async def on_auth_m5(self, user: str | None, subscriber: Any, properties: dict[str, Any]) -> Any:
        return super().on_auth_m5(user, subscriber, properties)


def method(data: bytes | None = None, name: str = "riddle", **more: Any) -> dict[str, Any]:
    """Returns the properties of a step."""
    return {"authentication_method": name, **({} if data is None else {"authentication_data": data}), **more}


def auth(reason: int = CONTINUE, data: bytes | None = None, name: str = "riddle") -> Auth:
    return Auth(reason, method(data, name))


QUESTION = Auth(CONTINUE, method(b"6 * 7"))


def authenticated(broker: BrokerHarness, **fields: Any) -> RawClient:
    """A client that has answered the question."""
    caller = RawClient(broker, 5)
    assert caller.says(connect("c", 5, **method(), **fields)) == [QUESTION]
    (connack,) = caller.says(auth(data=b"42"))
    assert connack.reason == 0
    return caller


@pytest.mark.parametrize("behind", [b"\x30\xff\xff\x7f", encode(publish("t", bytes(300_000)), 5)])
def test_nothing_large_is_kept_before_the_client_is_accepted(behind: bytes) -> None:
    """During an exchange the header alone of a packet larger than any CONNECT ends the connection."""
    broker = BrokerHarness(Riddle(), max_connect_bytes=200)
    caller = RawClient(broker, 5)
    assert caller.says(connect("c", 5, **method())) == [QUESTION]
    refusal, closed = caller.says(behind[:4])
    assert (refusal.reason, closed) == (0x95, CLOSED)


def test_an_exchange() -> None:
    """AUTH 0x18 both ways, then CONNACK, all of them with the method.

    [MQTT5-4.12.0-2] [MQTT5-4.12.0-3] [MQTT5-4.12.0-5] [MQTT5-3.15.2-1] [MQTT5-3.2.0-1]
    """
    plugin = Riddle()
    broker = BrokerHarness(plugin, allow_anonymous=False)
    caller = RawClient(broker, 5)
    assert caller.says(connect("c", 5, username="me", **method())) == [QUESTION]
    assert len(broker.node.sessions) == 0
    assert caller.says(auth(data=b"42")) == [accepted(**method(b"well done"))]
    assert caller.says(Pingreq()) == [Pingresp()]
    assert plugin.asked == [("me", "riddle", None), ("me", "riddle", b"42")]
    session = broker.node.sessions.get("", "c")
    assert session is not None and session.username == "wise"


def test_one_step_is_enough() -> None:
    """The answer may stand in CONNECT [MQTT5-4.12.0-5]"""
    caller = RawClient(BrokerHarness(Riddle()), 5)
    assert caller.says(connect("c", 5, **method(b"42"))) == [accepted(**method(b"well done"))]


def test_a_wrong_answer() -> None:
    """CONNACK with the plugin's code, and the close [MQTT5-4.12.0-4] [MQTT5-4.13.2-1] [MQTT5-3.14.0-1]"""
    for step in ("connect", "auth"):
        caller = RawClient(BrokerHarness(Riddle()), 5)
        caller.send(connect("c", 5, **method(b"41" if step == "connect" else None)))
        if step == "auth":
            assert caller.hears() == [QUESTION]
            caller.send(auth(data=b"41"))
        assert refused(caller, 0x87)


@pytest.mark.parametrize("code", [0x8E, 0x8D, 0xA0])
def test_a_reason_code_that_connack_does_not_allow(code: int) -> None:
    """The plugin's code belongs to another packet: the answer is 0x87 [MQTT5-3.2.2-8] [MQTT5-4.12.0-4]"""
    plugin = Riddle()
    plugin.no = Refuse("odd", code)
    caller = RawClient(BrokerHarness(plugin), 5)
    caller.send(connect("c", 5, **method(b"41")))
    assert refused(caller, 0x87)


def test_an_unknown_authentication_method() -> None:
    """0x8C, whether there is no plugin for it at all or none that knows it [MQTT5-4.12.0-1]"""
    for broker in (BrokerHarness(), BrokerHarness(Riddle())):
        caller = RawClient(broker, 5)
        caller.send(connect("c", 5, **method(name="fingerprint")))
        assert refused(caller, 0x8C)


def test_only_the_plugins_of_the_listener_are_asked() -> None:
    """`auth_plugins` of a listener holds for enhanced authentication, too: another plugin lets no client in there."""
    plugin, other = Riddle(), Riddle()
    broker = BrokerHarness(plugin, allow_anonymous=False)
    broker.node.env.hooks.add("other", other)
    first = RawClient(broker, 5, auth_plugins=("other",))
    assert first.says(connect("c", 5, **method())) == [QUESTION]
    assert first.says(auth(data=b"42")) == [accepted(**method(b"well done"))]
    assert first.says(auth(AGAIN, b"42")) == [Auth(0, method(b"well done"))]
    assert (len(plugin.asked), len(other.asked)) == (0, 3)
    broker.node.env.hooks.remove("other")
    again = RawClient(broker, 5, auth_plugins=("other",))
    again.send(connect("d", 5, **method(b"42")))
    assert refused(again, 0x8C)
    assert plugin.asked == []


def test_a_guessing_client_is_blocked() -> None:
    """Refused exchanges count as failed logins, also those of a client that authenticates again.

    Then no plugin is asked about this user name from this address, at no step, and other users are let in.
    """
    plugin = Riddle()
    broker = BrokerHarness(plugin, allow_anonymous=False, max_failed_logins=3)

    def at_connect(user: str, data: bytes | None) -> RawClient:
        caller = RawClient(broker, 5)
        caller.send(connect("c", 5, username=user, **method(data)))
        return caller

    accepted_before, in_exchange = authenticated(broker, username="wise"), at_connect("wise", None)
    assert in_exchange.hears() == [QUESTION]
    refusal, closed = at_connect("wise", b"41").hears()
    assert (refusal.reason, closed) == (0x87, CLOSED)
    two_steps = at_connect("wise", None)
    two_steps.send(auth(data=b"41"))
    assert two_steps.hears()[-2:] == [refusal, CLOSED]
    assert reason_of([QUESTION, *accepted_before.says(auth(AGAIN, b"41"))]) == 0x87
    asked = len(plugin.asked)
    assert refused(at_connect("wise", b"42"), 0x9F)
    in_exchange.send(auth(data=b"42"))
    assert refused(in_exchange, 0x9F)
    assert len(plugin.asked) == asked
    assert at_connect("ann", b"42").hears() == [accepted(**method(b"well done"))]
    broker.pass_s(WINDOW_MS / 1000)
    assert at_connect("wise", b"42").hears() == [accepted(**method(b"well done"))]


def test_an_exchange_that_the_plugin_breaks_is_no_failed_login() -> None:
    """An error of the plugin says nothing about the client."""
    plugin = Riddle()
    plugin.no = object()
    broker = BrokerHarness(max_failed_logins=1)
    broker.node.env.hooks = Hooks(on_error=lambda *_: None)
    broker.node.env.hooks.add("riddle", plugin)
    for data, code in ((b"41", 0x87), (b"42", 0)):
        caller = RawClient(broker, 5)
        assert caller.says(connect("c", 5, username="me", **method(data)))[0].reason == code


def test_a_client_without_method_gets_none() -> None:
    """[MQTT5-4.12.0-6], and AUTH from such a client is a protocol error [MQTT5-4.12.0-7]"""
    plugin = Riddle()
    broker = BrokerHarness(plugin)
    caller = RawClient(broker, 5)
    assert caller.says(connect("c", 5)) == [accepted()]
    assert plugin.asked == []
    assert reason_of(caller.says(auth(AGAIN))) == 0x82


@pytest.mark.parametrize(
    "wrong", [auth(AGAIN, b"42"), auth(name="other", data=b"42"), Pingreq(), publish("t"), connect("c", 5)]
)
def test_other_packets_during_an_exchange_end_it(wrong: Any) -> None:
    """CONNACK 0x82 and the close; DISCONNECT is never sent before CONNACK.

    [MQTT5-3.1.2-30] [MQTT5-4.12.0-5] [MQTT5-3.14.0-1] [MQTT5-4.13.1-1]
    """
    broker = BrokerHarness(Riddle())
    watcher = broker.client("w")
    watcher.subscribe(("#", 0))
    caller = RawClient(broker, 5)
    assert caller.says(connect("c", 5, **method())) == [QUESTION]
    caller.send(wrong, auth(data=b"42"))
    assert refused(caller, 0x82)
    assert watcher.messages() == []


def test_the_client_gives_up() -> None:
    """DISCONNECT within an exchange closes the connection; its will was never kept."""
    broker = BrokerHarness(Riddle())
    watcher = broker.client("w")
    watcher.subscribe(("will", 0))
    caller = RawClient(broker, 5)
    assert caller.says(connect("c", 5, will=will(), **method())) == [QUESTION]
    assert caller.says(Disconnect(4)) == [CLOSED]
    assert watcher.messages() == [] and len(broker.node.sessions) == 1


def test_silence_ends_an_exchange() -> None:
    """Each step has the time of `mqtt_connect_timeout` (P8)."""
    broker = BrokerHarness(Riddle(), mqtt_connect_timeout_ms=5000)
    caller = RawClient(broker, 5)
    broker.pass_s(4)
    assert caller.says(connect("c", 5, **method())) == [QUESTION]
    broker.pass_s(4)
    assert caller.says(auth()) == [QUESTION]
    broker.pass_s(4.9)
    assert caller.hears() == []
    broker.pass_s(0.2)
    assert caller.hears() == [CLOSED]


def test_the_time_of_a_slow_plugin_is_not_counted() -> None:
    """The timeout does not run while the broker waits for the plugin."""
    plugin = Slow()
    broker = BrokerHarness(plugin, mqtt_connect_timeout_ms=1000)
    questions = PendingHooks(broker)
    caller = RawClient(broker, 5)
    assert caller.says(connect("c", 5, **method())) == []
    broker.pass_s(3)
    questions.answer()
    assert caller.says(auth(data=b"42"), Pingreq()) == [QUESTION]
    broker.pass_s(3)
    assert caller.hears() == []
    questions.answer()
    assert caller.hears() == [accepted(**method(b"well done")), Pingresp()]
    broker.pass_s(3)
    assert caller.hears() == []


# -- later


def test_authentication_again() -> None:
    """AUTH 0x19 begins it, the connection serves meanwhile, AUTH 0x00 ends it.

    [MQTT5-4.12.1-1] [MQTT5-4.12.0-5] [MQTT5-3.15.2-1]
    """
    plugin = Riddle()
    broker = BrokerHarness(plugin)
    caller = authenticated(broker)
    for _ in range(2):
        assert caller.says(auth(AGAIN), Pingreq()) == [QUESTION, Pingresp()]
        assert caller.publish("t") == []
        broker.pass_s(60)
        assert caller.says(auth(data=b"42")) == [Auth(0, method(b"well done"))]
    assert plugin.asked[-1] == ("wise", "riddle", b"42")


def test_permissions_of_the_former_user_end() -> None:
    """If the plugin gives the client another user name, the answers that are kept for the former one do not count."""

    class Renaming(Riddle):
        cacheable_hooks = frozenset({"auth_on_publish"})

        def auth_on_publish(self, user: str | None, *_: Any) -> Any:
            return Allow(cacheable=True) if user != "banned" else False

        def on_auth_m5(self, user: str | None, subscriber: Any, properties: dict[str, Any]) -> Any:
            return {"reason_code": 0, "username": "banned" if properties.get("authentication_data") else "good"}

    broker = BrokerHarness(Renaming())
    client = RawClient(broker, 5)
    assert client.says(connect("c", 5, **method())) == [accepted(**method())]
    assert client.says(publish("t", b"", 1, 1)) == [Puback(1, 0x10)]
    assert client.says(auth(AGAIN, b"x")) == [Auth(0, method())]
    assert client.says(publish("t", b"", 1, 2)) == [Puback(2, 0x87)]


def test_the_session_has_the_user_of_the_last_authentication() -> None:
    """`session show` has it, also after a restart, and `on_deliver` is asked about this user."""
    users: list[str | None] = []

    class Renaming(Riddle):
        def on_auth_m5(self, user: str | None, subscriber: Any, properties: dict[str, Any]) -> Any:
            return {"reason_code": 0, "username": (properties.get("authentication_data") or b"first").decode()}

        def on_deliver_m5(self, user: str | None, *_: Any) -> bool:
            users.append(user)
            return True

    broker = BrokerHarness(Renaming())
    client = RawClient(broker, 5)
    assert client.says(connect("c", 5, False, 1000, **method())) == [accepted(**method())]
    client.subscribe(("t", 0))
    assert client.says(auth(AGAIN, b"second")) == [Auth(0, method())]
    client.publish("t")
    assert users == ["second"]
    broker.restart()
    session = broker.node.sessions.get("", "c")
    assert session is not None and session.username == "second"


def test_a_wrong_answer_later() -> None:
    """DISCONNECT with the code, and the close; the will is sent [MQTT5-4.12.1-2] [MQTT5-4.12.0-4]"""
    broker = BrokerHarness(Riddle())
    watcher = broker.client("w")
    watcher.subscribe(("will", 0))
    caller = authenticated(broker, will=will())
    assert caller.says(auth(AGAIN)) == [QUESTION]
    assert reason_of(caller.says(auth(data=b"41"))) == 0x87
    assert watcher.payloads() == [b"gone"]


def test_a_reason_code_that_disconnect_does_not_allow() -> None:
    """0x86 is for CONNACK only [MQTT5-3.14.2-1] [MQTT5-4.12.1-2]"""
    plugin = Riddle()
    plugin.no = Refuse("wrong", 0x86)
    caller = authenticated(BrokerHarness(plugin))
    assert reason_of(caller.says(auth(AGAIN, b"41"))) == 0x87


@pytest.mark.parametrize(
    "wrong", [auth(AGAIN, name="other"), auth(CONTINUE), Auth(AGAIN, {"authentication_data": b""})]
)
def test_a_wrong_start_of_a_second_authentication(wrong: Any) -> None:
    """Another method than that of CONNECT, or a step of an exchange that was never begun [MQTT5-4.12.1-1]
    [MQTT5-4.13.1-1]
    """
    caller = authenticated(BrokerHarness(Riddle()))
    if "authentication_method" not in wrong.properties:
        wrong = b"\xf0\x05\x19\x03\x16\x00\x00"
    assert reason_of(caller.says(wrong)) == 0x82


@pytest.mark.parametrize("code", [0x00, 0x01, 0x80])
def test_codes_that_a_client_may_not_send_in_auth(code: int) -> None:
    """[MQTT5-3.15.2-1]"""
    caller = authenticated(BrokerHarness(Riddle()))
    frame = bytearray(encode(auth(AGAIN), 5))
    frame[2] = code
    assert reason_of(caller.says(bytes(frame))) in (0x81, 0x82)


def test_properties_of_auth_in_a_small_packet() -> None:
    """User properties, then the reason string, are left out of a packet that the client could not take.

    [MQTT5-3.15.2-2] [MQTT5-3.15.2-3] [MQTT5-3.2.2-19] [MQTT5-3.2.2-20]
    """
    plugin = Riddle()
    plugin.more = {"reason_string": "r" * 20, "user_property": [("name", "v" * 20)]}
    plain, full = encode(QUESTION, 5), encode(Auth(CONTINUE, method(b"6 * 7", **plugin.more)), 5)
    for limit, kept in ((len(full), {"reason_string", "user_property"}), (len(full) - 1, {"reason_string"})):
        caller = RawClient(BrokerHarness(plugin), 5)
        (question,) = caller.says(connect("c", 5, maximum_packet_size=limit, **method()))
        assert set(question.properties) - set(method(b"")) == kept
    caller = RawClient(BrokerHarness(plugin), 5)
    assert caller.says(connect("c", 5, maximum_packet_size=len(plain) + 10, **method())) == [QUESTION]
    assert caller.says(auth(data=b"42")) == [accepted(**method(b"well done"))]


def test_problem_information_is_not_asked_for() -> None:
    """Then AUTH has neither reason string nor user properties [MQTT5-3.1.2-29]"""
    plugin = Riddle()
    plugin.more = {"reason_string": "because", "user_property": [("a", "b")]}
    caller = RawClient(BrokerHarness(plugin), 5)
    assert caller.says(connect("c", 5, request_problem_information=0, **method())) == [QUESTION]


def test_a_publish_between_the_steps_of_a_second_authentication() -> None:
    """It is served as before [MQTT5-4.12.1-1]."""
    broker = BrokerHarness(Riddle())
    caller = authenticated(broker)
    caller.subscribe(("t", 0))
    caller.says(auth(AGAIN))
    assert caller.publish("t", b"x") == [Publish("t", b"x")]
