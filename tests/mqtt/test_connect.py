"""The body of CONNECT: section 3.1 of both standards."""

import pytest

from strogoff.mqtt.connect import encode_connect, parse_connect, parse_protocol
from strogoff.mqtt.errors import WireError
from strogoff.mqtt.packets import Connect, Will

V3 = "0006 4d5149736470 03"
V4 = "0004 4d515454 04"
V5 = "0004 4d515454 05"


def parse(raw: str) -> Connect:
    """The CONNECT of a body in hex."""
    data = bytes.fromhex(raw)
    version, bridge, pos = parse_protocol(data, 0, len(data))
    return parse_connect(data, pos, len(data), version, bridge)


def refused(raw: str) -> int:
    """The reason with which a body in hex is refused."""
    with pytest.raises(WireError) as caught:
        parse(raw)
    return int(caught.value.reason)


GOOD = [
    (f"{V3} 02 003c 0001 63", Connect("c", 3, True, 60)),
    (f"{V4} 00 0000 0000", Connect("", 4, False, 0)),
    (f"{V4} 02 ffff 0003 efbbbf", Connect("\ufeff", 4, True, 65_535)),  # [MQTT-1.5.3-3]
    (f"{V4} c2 000a 0001 63 0001 75 0002 ff00", Connect("c", 4, True, 10, "u", b"\xff\0")),
    (f"{V4} 82 000a 0001 63 0000", Connect("c", 4, True, 10, "")),
    (f"{V4} 36 000a 0001 63 0001 77 0002 6869", Connect("c", 4, True, 10, will=Will("w", b"hi", 2, True))),
    (f"{V4} 04 000a 0001 63 0001 77 0000", Connect("c", 4, False, 10, will=Will("w", b""))),
    # [MQTT-3.1.3-1] [MQTT5-3.1.3-1] client identifier, will topic, will message, user name, password
    (
        f"{V4} ce 000a 0001 63 0001 77 0001 6d 0001 75 0001 70",
        Connect("c", 4, True, 10, "u", b"p", Will("w", b"m", 1)),
    ),
    (f"{V5} 02 003c 00 0001 63", Connect("c", 5, True, 60)),
    (f"{V5} 42 003c 00 0001 63 0001 70", Connect("c", 5, True, 60, None, b"p")),  # 3.1.2.9: legal in 5.0
    (
        f"{V5} 06 003c 05 11 00000e10 0001 63 05 18 0000000a 0001 77 0001 6d",
        Connect(
            "c", 5, True, 60, None, None, Will("w", b"m", 0, False, {"will_delay_interval": 10}),
            {"session_expiry_interval": 3600},
        ),
    ),
    ("0006 4d5149736470 83 02 003c 0001 63", Connect("c", 3, True, 60, bridge=True)),
    ("0004 4d515454 84 02 003c 0001 63", Connect("c", 4, True, 60, bridge=True)),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "packet"), GOOD)
def test_both_ways(raw: str, packet: Connect) -> None:
    """[MQTT-3.1.3-1] [MQTT-3.1.3-3] [MQTT5-3.1.3-1] [MQTT5-3.1.3-3] Body and packet stand for each other."""
    assert parse(raw) == packet
    assert encode_connect(packet) == bytes.fromhex(raw)


@pytest.mark.parametrize(
    "raw",
    [
        "0004 4d515454 03 02 003c 0001 63",
        "0006 4d5149736470 04 02 003c 0001 63",
        "0004 4d515454 06 02 003c 00 0001 63",
        "0004 4d515454 00",
        "0004 4d515454 85 02 003c 00 0001 63",
        "0004 6d717474 04 02 003c 0001 63",
        "0000 04",
        "0003 ff00ff 04",
    ],
)
def test_unsupported_protocol(raw: str) -> None:
    """[MQTT-3.1.2-1] [MQTT-3.1.2-2] [MQTT5-3.1.2-1] [MQTT5-3.1.2-2] Reason 0x84, which is return code 1."""
    assert refused(raw) == 0x84


BAD = [
    (f"{V4} 03 003c 0001 63", "reserved flag", "[MQTT-3.1.2-3]"),
    (f"{V5} 03 003c 00 0001 63", "reserved flag", "[MQTT5-3.1.2-3]"),
    (f"{V4} 1e 003c 0001 63 0001 77 0000", "will QoS 3", "[MQTT-3.1.2-14]"),
    (f"{V5} 1e 003c 00 0001 63 00 0001 77 0000", "will QoS 3", "[MQTT5-3.1.2-12]"),
    (f"{V3} 1e 003c 0001 63 0001 77 0000", "will QoS 3", "MQTT 3.1"),
    (f"{V4} 0a 003c 0001 63", "will QoS without will", "[MQTT-3.1.2-13] [MQTT-3.1.2-11]"),
    (f"{V5} 0a 003c 00 0001 63", "will QoS without will", "[MQTT5-3.1.2-11]"),
    (f"{V4} 22 003c 0001 63", "will retain without will", "[MQTT-3.1.2-15]"),
    (f"{V5} 22 003c 00 0001 63", "will retain without will", "[MQTT5-3.1.2-13]"),
    (f"{V4} 42 003c 0001 63 0001 70", "password without user name", "[MQTT-3.1.2-22]"),
    (f"{V3} 42 003c 0001 63 0001 70", "password without user name", "MQTT 3.1"),
    (f"{V4} 06 003c 0001 63", "will fields missing", "[MQTT-3.1.2-9]"),
    (f"{V5} 06 003c 00 0001 63", "will fields missing", "[MQTT5-3.1.2-9]"),
    (f"{V4} 06 003c 0001 63 0001 77", "will message missing", "[MQTT-3.1.2-9]"),
    (f"{V4} 02 003c 0001 63 0001 77 0000", "will fields without flag", "[MQTT-3.1.2-11]"),
    (f"{V4} 02 003c 0001 63 0001 75", "user name without flag", "[MQTT-3.1.2-18]"),
    (f"{V5} 02 003c 00 0001 63 0001 75", "user name without flag", "[MQTT5-3.1.2-16]"),
    (f"{V4} 82 003c 0001 63", "user name missing", "[MQTT-3.1.2-19]"),
    (f"{V5} 82 003c 00 0001 63", "user name missing", "[MQTT5-3.1.2-17]"),
    (f"{V4} 82 003c 0001 63 0001 75 0001 70", "password without flag", "[MQTT-3.1.2-20]"),
    (f"{V5} 82 003c 00 0001 63 0001 75 0001 70", "password without flag", "[MQTT5-3.1.2-18]"),
    (f"{V4} c2 003c 0001 63 0001 75", "password missing", "[MQTT-3.1.2-21]"),
    (f"{V5} c2 003c 00 0001 63 0001 75", "password missing", "[MQTT5-3.1.2-19]"),
    (f"{V4} 02 003c", "client identifier missing", "[MQTT-3.1.3-3]"),
    (f"{V5} 02 003c 00", "client identifier missing", "[MQTT5-3.1.3-3]"),
    (f"{V4} 02 003c 0001 ff", "client identifier not UTF-8", "[MQTT-3.1.3-4]"),
    (f"{V5} 02 003c 00 0001 ff", "client identifier not UTF-8", "[MQTT5-3.1.3-4]"),
    (f"{V4} 02 003c 0003 610062", "U+0000 in the client identifier", "[MQTT-1.5.3-2]"),
    (f"{V4} 06 003c 0001 63 0001 ff 0000", "will topic not UTF-8", "[MQTT-3.1.3-10]"),
    (f"{V5} 06 003c 00 0001 63 00 0001 ff 0000", "will topic not UTF-8", "[MQTT5-3.1.3-11]"),
    (f"{V4} 06 003c 0001 63 0001 23 0000", "wildcard in the will topic", "[MQTT-4.7.1-1]"),
    (f"{V5} 06 003c 00 0001 63 00 0001 2b 0000", "wildcard in the will topic", "[MQTT5-4.7.0-1]"),
    (f"{V4} 06 003c 0001 63 0000 0000", "empty will topic", "[MQTT-4.7.3-1]"),
    (f"{V4} 82 003c 0001 63 0001 ff", "user name not UTF-8", "[MQTT-3.1.3-11]"),
    (f"{V5} 82 003c 00 0001 63 0001 ff", "user name not UTF-8", "[MQTT5-3.1.3-12]"),
    (f"{V5} 02 003c 02 23 0001 0001 63", "a property of PUBLISH", "2.2.2.2"),
    (f"{V5} 06 003c 00 0001 63 05 11 0000000a 0001 77 0000", "a property of CONNECT in the will", "2.2.2.2"),
    (V4, "no flags", "3.1.2.3"),
    (f"{V4} 02 00", "half a keep alive", "3.1.2.10"),
]


@pytest.mark.parametrize(("raw", "what", "rule"), BAD, ids=[f"{row[1]} {row[2]}" for row in BAD])
def test_malformed(raw: str, what: str, rule: str) -> None:
    """[MQTT-3.1.4-1] [MQTT5-3.1.4-1] A CONNECT that does not conform is refused; the table names the rule."""
    assert refused(raw) == 0x81


def test_cut_anywhere() -> None:
    """[MQTT-3.1.4-1] [MQTT5-3.1.4-1] No body parses when it is cut off or when a byte is left over."""
    for raw, packet in GOOD:
        data = bytes.fromhex(raw)
        shortened = [data[:size] for size in range(len(data))]
        for wrong in (*shortened, data + b"\0"):
            if packet.version > 3 or packet.username is None:
                with pytest.raises(WireError):
                    parse(wrong.hex())


def test_leniency_of_3_1() -> None:
    """MQTT 3.1: the length takes precedence over the user name flag; will bits without a will mean nothing."""
    assert parse(f"{V3} c2 003c 0001 63") == Connect("c", 3, True, 60)
    assert parse(f"{V3} c2 003c 0001 63 0001 75") == Connect("c", 3, True, 60, "u")
    assert parse(f"{V3} 3b 003c 0001 63") == Connect("c", 3, True, 60)


@pytest.mark.parametrize(
    "packet",
    [
        Connect("c", 6),
        Connect("c", 5, bridge=True),
        Connect("c", 4, properties={"receive_maximum": 1}),
        Connect("c", 4, will=Will("w", b"", properties={"will_delay_interval": 1})),
        Connect("c", 4, password=b"p"),
        Connect("c", 4, keepalive_s=65_536),
        Connect("c\0", 4),
        Connect("c", 4, will=Will("w/#", b"")),
        Connect("c", 4, will=Will("", b"")),
        Connect("c", 4, will=Will("w", b"", 3)),
        Connect("c", 4, will=Will("w", b"x" * 65_536)),
        Connect("x" * 65_536, 4),
    ],
)
def test_unencodable(packet: Connect) -> None:
    """[MQTT-3.1.2-14] [MQTT-3.1.2-22] A value that the version cannot express is refused before it is sent."""
    with pytest.raises(ValueError, match=r"\w"):
        encode_connect(packet)
