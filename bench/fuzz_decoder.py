"""Fuzz the decoder: `python -m bench.fuzz_decoder --seconds 600 --seed 1` from the root of the repository.

It checks three claims on random and on mutated packets. A decoder returns packets or raises `WireError`, and nothing
else. The split of the bytes into chunks does not change the result. Encoding and decoding a packet returns the same
packet, also for packets that were decoded from random bytes. If a claim fails, the exit status is 1, and the program
prints the input as hex and its seed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from strogoff.mqtt import packets as p
from strogoff.mqtt import reasons
from strogoff.mqtt.decoder import Decoder
from strogoff.mqtt.encoder import encode
from strogoff.mqtt.errors import WireError
from strogoff.mqtt.properties import TABLE, repeatable

TEXTS = ("", "a", "sensor/1", "ü€😀", "\ufeffbom", "x" * 200, "$SYS/x", "a b", "\x01")
NAMES = ("a", "a/b", "/", "sensor/é/😀", "$SYS/x", "t" * 130, "a//b", "$share", "x" * 300)
FILTERS = (*NAMES, "#", "+", "a/+/b", "+/#", "$share/g/a/#", "$share/g//", "/+", "a/#")


class Generator:
    """Makes random legal packets of one protocol version from one side."""

    def __init__(self, rng: random.Random, version: int, sender: str) -> None:
        self.rng, self.version, self.sender = rng, version, sender

    def properties(self, packet: str) -> p.Properties | None:
        """Returns None or a few legal properties of the packet."""
        if self.version < 5 or self.rng.random() < 0.4:
            return None
        found: p.Properties = {}
        for line in TABLE:
            if packet in line.packets and self.rng.random() < 0.3:
                count = self.rng.randint(1, 3) if repeatable(line.name, packet) else 0
                values = [self.value(line.name, line.lowest, line.kind.highest) for _ in range(count or 1)]
                found[line.name] = values if count else values[0]
        if "authentication_data" in found:
            found.setdefault("authentication_method", "m")
        if packet == "Publish" and self.sender == "client":
            found.pop("subscription_identifier", None)
        if packet == "Disconnect" and self.sender == "server":
            found.pop("session_expiry_interval", None)
        return found or None

    def value(self, name: str, lowest: int, highest: int) -> Any:
        """Returns a legal value of a property."""
        if highest:
            return self.rng.choice((lowest, highest, self.rng.randint(lowest, highest)))
        if name == "user_property":
            return (self.rng.choice(TEXTS), self.rng.choice(TEXTS))
        if name in ("correlation_data", "authentication_data"):
            return self.rng.randbytes(self.rng.choice((0, 1, 20, 300)))
        return self.rng.choice(NAMES if name == "response_topic" else TEXTS)

    def packet(self) -> p.Packet:
        """Returns a random packet that the sender may send after CONNECT."""
        common: list[Callable[[], p.Packet]] = [self.publish, self.publish, self.answer]
        own: list[Callable[[], p.Packet]]
        if self.sender == "client":
            own = [self.subscribe, self.unsubscribe, p.Pingreq, self.disconnect]
        else:
            own = [self.connack, self.suback, self.unsuback, p.Pingresp]
            own += [self.disconnect] if self.version == 5 else []
        if self.version == 5:
            own.append(self.auth)
        return self.rng.choice(common + own)()

    def packet_id(self) -> int:
        """Returns a packet id, 1 to 65,535."""
        return self.rng.choice((1, 255, 256, 65_535, self.rng.randint(1, 65_535)))

    def connect(self) -> p.Connect:
        """A CONNECT of the generator's version."""
        rng = self.rng
        will = None
        if rng.random() < 0.5:
            qos, retain = rng.randint(0, 2), rng.random() < 0.5
            will = p.Will(
                rng.choice(NAMES), rng.randbytes(rng.choice((0, 9, 400))), qos, retain, self.properties("Will")
            )
        username = rng.choice((None, *TEXTS))
        password = rng.choice((None, b"", b"secret")) if username is not None or self.version == 5 else None
        bridge = self.version < 5 and rng.random() < 0.2
        clean, keepalive_s = rng.random() < 0.5, rng.randint(0, 65_535)
        properties = self.properties("Connect")
        return p.Connect(
            rng.choice(TEXTS), self.version, clean, keepalive_s, username, password, will, properties, bridge
        )

    def connack(self) -> p.Packet:
        """A CONNACK, accepting or refusing."""
        present = self.version > 3 and self.rng.random() < 0.3
        codes = sorted(reasons.ALLOWED["Connack"]) if self.version == 5 else range(6)
        return p.Connack(present, 0 if present else self.rng.choice(codes), self.properties("Connack"))

    def publish(self) -> p.Packet:
        """A PUBLISH of any QoS, sometimes large, sometimes with an alias instead of a topic."""
        rng = self.rng
        qos = rng.randint(0, 2)
        properties = self.properties("Publish")
        topic = rng.choice(NAMES)
        if properties and "topic_alias" in properties and rng.random() < 0.5:
            topic = ""
        payload = rng.randbytes(rng.choice((0, 1, 100, 126, 128, 500, 17_000)))
        dup, packet_id = qos > 0 and rng.random() < 0.3, self.packet_id() if qos else 0
        return p.Publish(topic, payload, qos, rng.random() < 0.3, dup, packet_id, properties)

    def answer(self) -> p.Packet:
        """PUBACK, PUBREC, PUBREL or PUBCOMP."""
        kind = self.rng.choice((p.Puback, p.Puback, p.Pubrec, p.Pubrel, p.Pubcomp))
        name = kind.__name__
        reason = self.rng.choice(sorted(reasons.ALLOWED[name])) if self.version == 5 else 0
        return kind(self.packet_id(), reason, self.properties(name))

    def subscribe(self) -> p.Packet:
        """A SUBSCRIBE with one to four filters."""
        rng = self.rng
        wanted = []
        for _ in range(rng.randint(1, 4)):
            one = p.SubscribeOptions(rng.choice(FILTERS), rng.randint(0, 2))
            if self.version == 5:
                one.no_local = rng.random() < 0.5 and not one.filter.startswith("$share/")
                one.retain_as_published, one.retain_handling = rng.random() < 0.5, rng.randint(0, 2)
            wanted.append(one)
        return p.Subscribe(self.packet_id(), wanted, self.properties("Subscribe"))

    def suback(self) -> p.Packet:
        """A SUBACK with one to four reason codes."""
        codes = sorted(reasons.ALLOWED["Suback"] if self.version == 5 else reasons.V3_SUBACK)
        chosen = self.rng.choices(codes, k=self.rng.randint(1, 4))
        return p.Suback(self.packet_id(), chosen, self.properties("Suback"))

    def unsubscribe(self) -> p.Packet:
        """An UNSUBSCRIBE with one to four filters."""
        filters = self.rng.choices(FILTERS, k=self.rng.randint(1, 4))
        return p.Unsubscribe(self.packet_id(), filters, self.properties("Unsubscribe"))

    def unsuback(self) -> p.Packet:
        """An UNSUBACK with one to four reason codes, none before 5.0."""
        count = self.rng.randint(1, 4) if self.version == 5 else 0
        codes = self.rng.choices(sorted(reasons.ALLOWED["Unsuback"]), k=count)
        return p.Unsuback(self.packet_id(), codes, self.properties("Unsuback"))

    def disconnect(self) -> p.Packet:
        """A DISCONNECT with a reason code that its sender may use."""
        if self.version < 5:
            return p.Disconnect()
        codes = reasons.FROM_CLIENT if self.sender == "client" else reasons.FROM_SERVER
        return p.Disconnect(self.rng.choice(sorted(codes["Disconnect"])), self.properties("Disconnect"))

    def auth(self) -> p.Packet:
        """An AUTH with its method."""
        codes = reasons.FROM_CLIENT if self.sender == "client" else reasons.FROM_SERVER
        properties = {"authentication_method": "m"} | (self.properties("Auth") or {})
        return p.Auth(self.rng.choice(sorted(codes["Auth"])), properties)


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Returns the bytes with random changes, deletions, repetitions, insertions or a cut; sometimes random bytes."""
    if rng.random() < 0.1:
        return rng.randbytes(rng.randint(0, 60))
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(out) + 1) if rng.random() < 0.5 else min(len(out), rng.randrange(24))
        to = min(len(out), at + rng.choice((1, 2, 3, 10, 200)))
        kind = rng.randrange(6)
        if kind == 0 and at < len(out):
            out[at] = rng.randrange(256)
        elif kind == 1 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del out[at:to]
        elif kind == 3:
            out[at:at] = out[at:to]
        elif kind == 4:
            out[at:at] = rng.randbytes(rng.randint(1, 4))
        else:
            del out[at:]
    return bytes(out)


def chunks(rng: random.Random, data: bytes) -> list[bytes]:
    """Split the bytes at random: into single bytes, or into a few large pieces."""
    if len(data) < 400 and rng.random() < 0.3:
        return [data[at : at + 1] for at in range(len(data))]
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randint(0, 6)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def feed_all(decoder: Decoder, piece: bytes) -> list[p.Packet]:
    """Feed the bytes, and call the decoder again until it has no more packets. Returns all packets."""
    found = decoder.feed(piece)
    while decoder.more:
        found += decoder.feed(b"")
    return found


Outcome = tuple[list[p.Packet], tuple[type[WireError], int, str] | None]


def decode(settings: dict[str, Any], pieces: list[bytes]) -> Outcome:
    """Decode the pieces with a new decoder. Returns the packets, and class, reason and text of the error."""
    decoder = Decoder(**settings)
    found = [packet for piece in pieces for packet in feed_all(decoder, piece)]
    error = decoder.error
    return found, None if error is None else (type(error), int(error.reason), error.detail)


def again_decoded(settings: dict[str, Any], packets: list[p.Packet]) -> Outcome:
    """Encode the packets and decode them again."""
    version = settings["version"]
    if packets and isinstance(packets[0], p.Connect):
        version = packets[0].version
    same = {"role": settings["role"], "version": settings["version"]}
    return decode(same, [b"".join(encode(packet, version) for packet in packets)])


def one_case(seed: int, case: int) -> tuple[int, bytes, str]:
    """Run one case. Returns the number of decoded packets, the bytes, and the violation ("" for none)."""
    rng = random.Random(f"{seed}/{case}")
    version, role = rng.choice((3, 4, 5)), rng.choice(("server", "client"))
    generator = Generator(rng, version, "client" if role == "server" else "server")
    sent: list[p.Packet] = [generator.packet() for _ in range(rng.randint(1, 6))]
    settings: dict[str, Any] = {"role": role, "version": version, "topic_depth": rng.choice((0, 0, 0, 3))}
    if role == "server" and rng.random() < 0.4:
        sent.insert(0, generator.connect())
        settings["version"] = 0
    data = b"".join(encode(packet, version) for packet in sent)
    try:
        whole = decode(settings | {"topic_depth": 0}, [data])
        if whole != (sent, None):
            return len(sent), data, f"{settings}: sent {sent}, decoded {whole}"
        settings["max_packet_size"] = rng.choice((268_435_460, 268_435_460, 300))
        data = mutate(rng, data)
        whole = decode(settings, [data])
        parts = decode(settings, chunks(rng, data))
        if whole != parts:
            return len(sent), data, f"{settings}: whole {whole}, in parts {parts}"
        again = again_decoded(settings, whole[0])
        if again != (whole[0], None):
            return len(sent), data, f"{settings}: decoded {whole[0]}, encoded and decoded again {again}"
    except Exception as error:
        return len(sent), data, f"{settings}: {type(error).__name__}: {error}"
    return len(sent) + len(whole[0]) * 2, data, ""


def main() -> int:
    """Run until the time is over or a case fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    start = time.monotonic()
    decoded = case = 0
    while (spent := time.monotonic() - start) < options.seconds:
        count, data, wrong = one_case(options.seed, case)
        if wrong:
            print(f"FAILED seed {options.seed} case {case}: {wrong}\ninput: {data.hex()}")
            return 1
        decoded += count
        case += 1
    print(f"ok: seed {options.seed}, {case} cases, {decoded} packets, {decoded / spent:.0f} packets/s, {spent:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
