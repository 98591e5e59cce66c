"""The flags from vernemq.conf to the answers for clients, with `trade_consistency` of old files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from strogoff import configs
from strogoff.broker.options import Options, from_settings
from strogoff.mqtt import packets
from strogoff.mqtt.packets import Puback, Suback, Unsuback
from strogoff.netsplit.policy import FLAGS, OPERATIONS, ViewState, decide

from ..harness.broker import BrokerHarness, connect
from ..harness.broker import PacketClient as Caller


def stage_of(tmp_path: Path, text: str) -> tuple[BrokerHarness, list[str]]:
    """Returns a node configured by this text, and the warnings about it."""
    path = tmp_path / "vernemq.conf"
    path.write_text(f"allow_anonymous = on\nsystree_enabled = off\n{text}\n", encoding="utf-8")
    loaded = configs.load(path)
    options: dict[str, Any] = msgspec.structs.asdict(from_settings(loaded))
    return BrokerHarness(**options), list(loaded.notices)


@pytest.mark.parametrize("state", [ViewState.MAJORITY, ViewState.MINORITY], ids=lambda state: state.value)
def test_trade_consistency_is_three_flags(tmp_path: Path, state: ViewState) -> None:
    """It is deprecated, and accepted with one warning: publish, subscribe and unsubscribe are accepted, registration is
    not.
    """
    broker, notices = stage_of(tmp_path, "trade_consistency = on")
    (notice,) = notices
    assert "trade_consistency is deprecated" in notice
    client = broker.client("c", 5)
    broker.node.policy.view_state = state
    assert client.subscribe(("t", 1)) == [Suback(1, [1])]
    assert Puback(2) in client.publish("t", b"m", 1, 2)
    assert client.unsubscribe("t") == [Unsuback(1, [0])]
    newcomer = Caller(broker, 5)
    (answer,) = newcomer.ask(connect("new", 5))
    assert isinstance(answer, packets.Connack) and answer.reason == 0x88 and newcomer.closed


def test_an_explicit_flag_overrides_trade_consistency(tmp_path: Path) -> None:
    broker, _ = stage_of(tmp_path, "allow_publish_during_netsplit = majority\ntrade_consistency = on")
    client = broker.client("c", 5)
    broker.node.policy.view_state = ViewState.MAJORITY
    assert client.publish("t", b"m", 1, 1) == [Puback(1, 0x10)]
    broker.node.policy.view_state = ViewState.MINORITY
    assert client.publish("t", b"m", 1, 2) == [Puback(2, 0x83)]
    assert client.subscribe(("t", 1)) == [Suback(1, [1])]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("flag", FLAGS)
def test_every_flag_takes_every_value_of_the_table(tmp_path: Path, flag: str, operation: str) -> None:
    key = f"allow_{operation}_during_netsplit"
    broker, notices = stage_of(tmp_path, f"{key} = {flag}")
    assert getattr(broker.node.env.options, key) == flag and notices == []
    assert decide(flag, ViewState.WHOLE)


def test_the_default_equals_vernemqs() -> None:
    assert [getattr(Options(), f"allow_{each}_during_netsplit") for each in OPERATIONS] == ["off"] * 4
