"""A CONNECT that began before the latest one of its client changes nothing (H-37)."""

from __future__ import annotations

import msgspec
import pytest

from strogoff.broker.queues.records import decode_session
from strogoff.broker.sessions.latest_connect import MARGIN_MS, OUTDATED, is_outdated
from strogoff.cluster.identity import slot_of
from strogoff.mqtt import packets
from strogoff.storage import keys

from ...harness.broker import BrokerHarness, PacketClient, connect
from ...harness.late_plugin import LateOnce
from ...harness.transcript import PendingHooks

VERSIONS = (3, 4, 5)
KEY = keys.client_key(slot_of("", "x"), "", "x")


def expiry(version: int) -> int | None:
    return 600 if version == 5 else None


class Late:
    """A broker with one CONNECT of client `x`, whose plugin has not answered after `waited_s`."""

    def __init__(self, version: int = 5, clean: bool = True, waited_s: float = 3.0) -> None:
        self.broker = BrokerHarness(LateOnce(), allow_anonymous=False)
        self.hooks = PendingHooks(self.broker)
        self.first = PacketClient(self.broker, version)
        self.first.send(connect("x", version, clean, expiry(version), will=packets.Will("will", b"first", 1)))
        self.broker.pass_s(waited_s)
        assert len(self.hooks) == 1 and self.first.take() == []

    def answer(self) -> list[packets.Connack]:
        """Let the plugin answer. Returns what the client of the first CONNECT gets."""
        self.hooks.answer()
        self.broker.pass_s(1)
        return self.first.take()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("clean", [False, True])
def test_an_older_connect_is_refused_and_the_newer_connection_goes_on(version: int, clean: bool) -> None:
    late = Late(version, clean)
    watcher = late.broker.client("watcher")
    watcher.subscribe(("will", 1))
    x, _ = late.broker.connect("x", version, clean, expiry(version), will=packets.Will("will", b"second", 1))
    x.subscribe(("t", 1))
    (connack,) = late.answer()
    assert connack.reason == (0x88 if version == 5 else 3) and late.first.closed
    assert connack.properties == ({"reason_string": OUTDATED} if version == 5 else None)
    assert (x.closed, x.take(), watcher.payloads()) == (False, [], [])
    late.broker.client("pub").publish("t", b"later", 1)
    assert [each.payload for each in x.drain()] == [b"later"]
    (row,) = late.broker.events("conn.refuse")
    assert (row["client"], row["reason"]) == ("x", OUTDATED)


def _wait(_broker: BrokerHarness) -> None:
    """The session stays in memory."""


def _forget(broker: BrokerHarness) -> None:
    """The session leaves memory."""
    broker.commit_late_writes()
    session = broker.node.sessions.known("", "x")
    assert session is not None and session.releasable
    broker.node.sessions.release(session)


@pytest.mark.parametrize("meanwhile", [_wait, _forget])
def test_a_session_is_not_discarded_by_an_older_clean_start(meanwhile: object) -> None:
    late = Late()
    x, _ = late.broker.connect("x", 5, True, 600)
    x.subscribe(("t", 1))
    x.leave()
    meanwhile(late.broker)  # type: ignore[operator]
    answers = late.broker.client("pub").publish("t", b"acknowledged", 1)
    assert [type(each) for each in answers] == [packets.Puback]
    assert [each.reason for each in late.answer()] == [0x88]
    back, connack = late.broker.connect("x", 5, False, 600)
    assert connack.session_present and [each.payload for each in back.drain()] == [b"acknowledged"]


def test_the_disk_has_when_the_latest_connect_began() -> None:
    broker = BrokerHarness()
    broker.client("x", 5, False, 600).leave()
    began = broker.node.env.now
    broker.pass_s(5)
    broker.restart()
    session = broker.node.sessions.get("", "x")
    assert session is not None and session.latest.began == began and session.version == 5
    assert broker.node.sessions.is_outdated(KEY, 6_000) and not broker.node.sessions.is_outdated(KEY, 5_000)


def test_a_record_of_a_former_version_names_no_connect() -> None:
    broker = BrokerHarness()
    broker.client("x", 5, False, 600).leave()
    value = broker.node.env.store.get(keys.session_key(KEY))
    assert value is not None
    record = decode_session(b"", value)
    fields = msgspec.msgpack.decode(value)
    assert record.connect_began == fields.pop() == broker.node.env.now
    assert decode_session(b"", msgspec.msgpack.encode(fields)).connect_began == 0
    assert not is_outdated(broker.node.env.now, 60_000, 0)


def test_the_only_connection_of_a_client_is_accepted_however_late_the_plugin_answers() -> None:
    late = Late(waited_s=50)
    assert [each.reason for each in late.answer()] == [0]


def test_a_late_answer_is_accepted_after_an_earlier_connection() -> None:
    broker = BrokerHarness()
    broker.client("x", 5, False, 600).leave()
    broker.pass_s(1)
    broker.node.env.options.allow_anonymous = False
    broker.node.env.hooks.remove("plugin")
    broker.node.env.hooks.add("late", LateOnce())
    hooks = PendingHooks(broker)
    x = PacketClient(broker, 5)
    x.send(connect("x", 5, False, 600))
    broker.pass_s(20)
    hooks.answer()
    assert [(each.reason, each.session_present) for each in x.take()] == [(0, True)]


def test_two_connects_within_the_margin_count_in_the_order_of_their_answers() -> None:
    late = Late(waited_s=MARGIN_MS / 1000)
    x = late.broker.client("x", 5, True, 600)
    assert [each.reason for each in late.answer()] == [0] and x.closed


def test_nothing_is_known_of_a_session_that_has_ended() -> None:
    late = Late()
    late.broker.client("x", 5, True).leave()
    assert [each.reason for each in late.answer()] == [0]


def test_without_cluster_time_no_connect_is_refused() -> None:
    late = Late()
    x = late.broker.client("x", 5, True, 600)
    late.broker.node.env.clock.known = False
    assert [each.reason for each in late.answer()] == [0] and x.closed
    session = late.broker.node.sessions.get("", "x")
    assert session is not None and session.latest.began == 0


@pytest.mark.parametrize(
    ("waited_ms", "began", "outdated"),
    [
        (0, 100_000, False),
        (MARGIN_MS, 100_000, False),
        (MARGIN_MS + 1, 100_000, True),
        (60_000, 40_501, True),
        (60_000, 40_500, False),
        (60_000, 100_001, False),  # another clock has said so
        (60_000, 0, False),  # not known
    ],
)
def test_a_connect_is_outdated_if_it_began_clearly_before_the_latest_one(
    waited_ms: int, began: int, outdated: bool
) -> None:
    assert is_outdated(100_000, waited_ms, began) is outdated
