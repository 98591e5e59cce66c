"""The whole policy table as clients see it: each flag, state, operation and version through the core of a broker."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.mqtt import packets
from strogoff.netsplit.policy import FLAGS, OPERATIONS, REFUSALS, Decision, Refusal, ViewState, decide

from ..harness.broker import BrokerHarness, PacketClient, connect

VERSIONS = (3, 4, 5)
KINDS = {"CONNACK": packets.Connack, "PUBACK": packets.Puback, "PUBREC": packets.Pubrec}
KINDS |= {"SUBACK": packets.Suback, "UNSUBACK": packets.Unsuback}
FILTERS = ("a", "b/#")


def perform(broker: BrokerHarness, client: PacketClient, packet: str, version: int) -> tuple[list[Any], bool]:
    """Send a packet for the first time; returns the answers, and whether the connection is closed."""
    if packet == "CONNECT":
        client = PacketClient(broker, version)
        return client.ask(connect("new", version)), client.closed
    if packet == "SUBSCRIBE":
        return client.subscribe(*((each, 1) for each in FILTERS), packet_id=9), client.closed
    if packet == "UNSUBSCRIBE":
        return client.unsubscribe(*FILTERS, packet_id=9), client.closed
    return client.publish("t", b"m", int(packet[-1]), 9), client.closed


def codes(answer: Any) -> list[int]:
    """Returns the reason codes of an answer; a v3 UNSUBACK has none."""
    return list(answer.reasons) if hasattr(answer, "reasons") else [answer.reason]


def effect(broker: BrokerHarness, client: PacketClient, watcher: PacketClient, packet: str) -> bool:
    """Whether the packet had its effect."""
    session = broker.node.sessions.get("", "c")
    assert session is not None
    if packet == "CONNECT":
        return broker.node.sessions.get("", "new") is not None
    if packet == "SUBSCRIBE":
        return set(FILTERS) <= set(session.subscriptions)
    if packet == "UNSUBSCRIBE":
        return not set(FILTERS) & set(session.subscriptions)
    return watcher.payloads() == [b"m"]


def served(version: int, refusal: Refusal) -> list[int]:
    """Returns the codes of the answer to an accepted packet."""
    if refusal.operation == "subscribe":
        return [1, 1]
    if refusal.operation == "unsubscribe":
        return [0, 0] if version == 5 else []
    return [0]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda each: each.packet.replace(" ", ""))
@pytest.mark.parametrize("state", ViewState, ids=lambda state: state.value)
@pytest.mark.parametrize("flag", FLAGS)
def test_the_answer_of_every_cell(flag: str, state: ViewState, refusal: Refusal, version: int) -> None:
    """The other three flags have the opposite value, so that no operation depends on another's flag."""
    other = "on" if decide(flag, state) is Decision.REFUSE else "off"
    flags: dict[str, Any] = {
        f"allow_{each}_during_netsplit": flag if each == refusal.operation else other for each in OPERATIONS
    }
    broker = BrokerHarness(**flags)
    watcher = broker.client("watcher")
    watcher.subscribe(("t", 2))
    client = broker.client("c", version)
    if refusal.operation == "unsubscribe":
        client.subscribe(*((each, 1) for each in FILTERS))
    broker.node.policy.view_state = state
    answers, closed = perform(broker, client, refusal.packet, version)
    refused = decide(flag, state) is Decision.REFUSE
    assert effect(broker, client, watcher, refusal.packet) is not refused
    code = refusal.v5 if version == 5 else refusal.v3
    if refusal.answer and not (refused and code is None):
        (answer,) = answers
        assert isinstance(answer, KINDS[refusal.answer])
        number = len(FILTERS) if refusal.operation in ("subscribe", "unsubscribe") else 1
        assert codes(answer) == ([code] * number if refused else served(version, refusal))
    else:
        assert answers == []
    assert closed is (refused and refusal.operation == "register")
    denied = [(row["operation"], row["reason"], row["policy"], row["state"]) for row in broker.events("policy.deny")]
    policy = f"allow_{refusal.operation}_during_netsplit={flag}"
    assert denied == ([(refusal.operation, "netsplit", policy, state.value)] if refused else [])
    check_metrics(broker, refusal, version, refused)


def check_metrics(broker: BrokerHarness, refusal: Refusal, version: int, refused: bool) -> None:
    """A refused packet counts as an error; a parked one does not, because it will be accepted."""
    counters, five = broker.node.env.counters, version == 5
    parked = refusal.packet in ("PUBLISH QoS 1", "PUBLISH QoS 2") and not five
    found = {
        "publish": counters.publish_error[five],
        "subscribe": counters.subscribe_error[five],
        "unsubscribe": counters.unsubscribe_error[five],
    }
    assert found == {each: int(refused and each == refusal.operation and not parked) for each in found}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("own", [True, False, "on", "majority", "off"])
@pytest.mark.parametrize("state", [ViewState.MAJORITY, ViewState.MINORITY], ids=lambda state: state.value)
def test_a_plugin_sets_the_flags_of_a_client(state: ViewState, own: bool | str, operation: str, version: int) -> None:
    """`allow_<operation>` of auth_on_register overrides the node's flag, which has the opposite value."""
    flag = own if isinstance(own, str) else "on" if own else "off"
    refused = decide(flag, state) is Decision.REFUSE
    node_flag = "on" if refused else "off"
    refusal = next(each for each in REFUSALS if each.operation == operation and each.answer)
    flags: dict[str, Any] = {f"allow_{each}_during_netsplit": node_flag for each in OPERATIONS}
    broker = BrokerHarness(Doorman(f"allow_{operation}", own), allow_anonymous=False, **flags)
    watcher = broker.client("watcher")
    watcher.subscribe(("t", 2))
    client = broker.client("c", version)
    if operation == "unsubscribe":
        client.subscribe(*((each, 1) for each in FILTERS))
    broker.node.policy.view_state = state
    perform(broker, client, refusal.packet, version)
    assert effect(broker, client, watcher, refusal.packet) is not refused


class Doorman:
    """A plugin that allows everything and sets one flag for every client but the watcher."""

    def __init__(self, name: str, own: bool | str) -> None:
        self._modifiers = {name: own}

    def _register(self, *args: Any) -> object:
        return True if args[1].client_id == "watcher" else self._modifiers

    auth_on_register = auth_on_register_m5 = _register

    def _yes(self, *args: object) -> bool:
        return True

    auth_on_publish = auth_on_publish_m5 = auth_on_subscribe = auth_on_subscribe_m5 = _yes
