"""The durable queue against a list: messages, answers, connections, kills and clean starts at random.

The model knows the messages acknowledged to the publisher and those that the subscriber has answered for good. It
checks: every acknowledged message arrives, in order, until it is answered; QoS 2 reaches the application once; an
answered entry is never sent again; the disk holds the bodies and entries of the unanswered messages and nothing else.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from strogoff.broker.queues.records import RELEASED, decode_entry
from strogoff.mqtt.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel

from ...harness.broker import BrokerHarness, PacketClient

BODY = b"." * 300
"""Long enough for a body that queues share."""


class DurableQueueMachine(RuleBasedStateMachine):
    """Two persistent sessions on one topic, so that bodies are shared; the model watches the first."""

    queue_type = "fifo"

    @initialize(window=st.integers(1, 4), memory=st.integers(1, 4), seed=st.integers(0, 1000))
    def begin(self, window: int, memory: int, seed: int) -> None:
        self.broker = BrokerHarness(
            max_inflight_messages=window,
            memory_window=memory,
            max_online_messages=-1,
            max_offline_messages=-1,
            retry_interval_s=0,
            queue_type=self.queue_type,
            seed=seed,
        )
        for name in ("s", "other"):
            client = self.broker.persistent(name)
            client.subscribe(("t", 2))
            client.vanish()
        self.window = window
        self.subscriber: PacketClient | None = None
        self.publisher = self.broker.client("p")
        self.count = 0
        self.owed: list[int] = []  # accepted and not answered for good, in order
        self.qos: dict[int, int] = {}
        self.open: dict[int, int] = {}  # packet id -> number, sent on this connection and not answered
        self.released: set[int] = set()  # packet ids whose PUBREL came on this connection, PUBCOMP is due
        self.completing: dict[int, int] = {}  # packet id -> number, from the first PUBREL on
        self.held: dict[int, int] = {}  # the receiver's QoS 2 state: packet id -> number
        self.arrived: list[int] = []  # handed to the application, in order

    # -- received packets

    def _look(self) -> None:
        if self.subscriber is None:
            return
        self.broker.settle()
        for packet in self.subscriber.take():
            if isinstance(packet, Publish):
                self._message(packet)
            elif isinstance(packet, Pubrel):
                if packet.packet_id in self.held:
                    self.completing[packet.packet_id] = self.held.pop(packet.packet_id)
                self.released.add(packet.packet_id)

    def _message(self, packet: Publish) -> None:
        number = int(packet.payload.split(b"|")[0])
        assert number in self.owed, "an answered message was sent again"
        assert packet.qos == self.qos[number]
        assert packet.packet_id not in self.open and packet.packet_id not in self.released
        self.open[packet.packet_id] = number
        if packet.qos == 2:
            if packet.packet_id in self.held:
                assert self.held[packet.packet_id] == number, "the packet id has another message"
                return
            self.held[packet.packet_id] = number
        if number in self.arrived:
            assert packet.qos == 1 and packet.dup
        else:
            self.arrived.append(number)
        assert len(self.open) + len(self.released) <= self.window

    # -- actions

    @rule(qos=st.integers(1, 2), count=st.integers(1, 6), long=st.booleans())
    def publish(self, qos: int, count: int, long: bool) -> None:
        sent: list[Any] = []
        for _ in range(count):
            self.count += 1
            self.owed.append(self.count)
            self.qos[self.count] = qos
            payload = b"%d|" % self.count + (BODY if long else b"")
            sent.append(Publish("t", payload, qos, packet_id=self.count))
        answers = self.publisher.ask(*sent)
        kind = Puback if qos == 1 else Pubrec
        assert answers == [kind(packet.packet_id) for packet in sent]
        if qos == 2:
            self.publisher.ask(*[Pubrel(packet.packet_id) for packet in sent])
        self._look()

    @precondition(lambda self: self.subscriber is not None and self.open)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        assert self.subscriber is not None
        packet_id = data.draw(st.sampled_from(sorted(self.open)))
        number = self.open.pop(packet_id)
        if self.qos[number] == 1:
            self.owed.remove(number)
            self.subscriber.send(Puback(packet_id))
        else:
            self.subscriber.send(Pubrec(packet_id))
        self._look()

    @precondition(lambda self: self.subscriber is not None and self.released)
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        assert self.subscriber is not None
        packet_id = data.draw(st.sampled_from(sorted(self.released)))
        self.released.remove(packet_id)
        number = self.completing[packet_id]
        if number in self.owed:
            self.owed.remove(number)
        self.subscriber.send(Pubcomp(packet_id))
        self._look()

    @precondition(lambda self: self.subscriber is None)
    @rule()
    def attach(self) -> None:
        self.subscriber = self.broker.persistent("s")
        self._look()

    @precondition(lambda self: self.subscriber is not None)
    @rule()
    def detach(self) -> None:
        assert self.subscriber is not None
        self.subscriber.vanish()
        self._gone()

    @rule(power=st.booleans())
    def restart(self, power: bool) -> None:
        self.broker.restart(power)
        self.publisher = self.broker.client("p")
        self._gone()

    @rule()
    def clean_start(self) -> None:
        self.broker.client("s").vanish()
        client = self.broker.persistent("s")
        client.subscribe(("t", 2))
        client.vanish()
        self._gone()
        self.owed.clear()
        self.held.clear()
        self.completing.clear()

    @precondition(lambda self: self.count > 20)
    @rule()
    def drop_the_other(self) -> None:
        self.broker.client("other").vanish()
        client = self.broker.persistent("other")
        client.subscribe(("t", 2))
        client.vanish()

    def _gone(self) -> None:
        self.subscriber = None
        self.open.clear()
        self.released.clear()

    # -- invariants

    def _check_order(self) -> None:
        assert [number for number in self.arrived if self.qos[number] == 1] == sorted(
            number for number in self.arrived if self.qos[number] == 1
        )
        assert [number for number in self.arrived if self.qos[number] == 2] == sorted(
            number for number in self.arrived if self.qos[number] == 2
        )

    @invariant()
    def in_order_and_complete(self) -> None:
        if not hasattr(self, "broker"):
            return
        self._look()
        self._check_order()
        assert len(self.arrived) == len(set(self.arrived)), "the application got a message twice"
        if self.subscriber is not None and not self.open and not self.released:
            assert self.owed == [], "nothing is in flight, but a message is unanswered"
        session = self.broker.node.sessions.get("", "s")
        assert session is not None
        assert session.queue.size + len(session.queue.inflight) == len(self.owed)

    @invariant()
    def bodies_agree_with_entries(self) -> None:
        if not hasattr(self, "broker"):
            return
        self.broker.pass_s(0.1)
        content = self.broker.disk.content()
        counts = {key[1:]: int.from_bytes(value, "big") for key, value in content.items() if key[:1] == b"c"}
        kept = {key[1:] for key in content if key[:1] == b"m"}
        needed: dict[bytes, int] = {}
        for key, value in content.items():
            if key[:1] == b"q":
                record = decode_entry(key, value)
                if record.mid and record.state != RELEASED:
                    needed[record.mid] = needed.get(record.mid, 0) + 1
        assert counts == needed and kept == set(needed)


class LifoMachine(DurableQueueMachine):
    """The same with `queue_type = lifo`, where only the order is another."""

    queue_type = "lifo"

    def _check_order(self) -> None:
        return


TestFifo = DurableQueueMachine.TestCase
TestFifo.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLifo = LifoMachine.TestCase
TestLifo.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
