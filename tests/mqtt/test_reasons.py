"""Reason codes and return codes against the tables of the standards."""

import pytest

from strogoff.mqtt.reasons import (
    ALLOWED,
    FROM_CLIENT,
    FROM_SERVER,
    V3_SUBACK,
    ConnectReturn,
    ReasonCode,
    connect_return_for,
)

# Table 2-6 of MQTT 5.0: code -> the packets that it may stand in.
TABLE = """
00 Connack Puback Pubrec Pubrel Pubcomp Suback Unsuback Disconnect Auth
01 Suback
02 Suback
04 Disconnect
10 Puback Pubrec
11 Unsuback
18 Auth
19 Auth
80 Connack Puback Pubrec Suback Unsuback Disconnect
81 Connack Disconnect
82 Connack Disconnect
83 Connack Puback Pubrec Suback Unsuback Disconnect
84 Connack
85 Connack
86 Connack
87 Connack Puback Pubrec Suback Unsuback Disconnect
88 Connack
89 Connack Disconnect
8A Connack
8B Disconnect
8C Connack Disconnect
8D Disconnect
8E Disconnect
8F Suback Unsuback Disconnect
90 Connack Puback Pubrec Disconnect
91 Puback Pubrec Suback Unsuback
92 Pubrel Pubcomp
93 Disconnect
94 Disconnect
95 Connack Disconnect
96 Disconnect
97 Connack Puback Pubrec Suback Disconnect
98 Disconnect
99 Connack Puback Pubrec Disconnect
9A Connack Disconnect
9B Connack Disconnect
9C Connack Disconnect
9D Connack Disconnect
9E Suback Disconnect
9F Connack Disconnect
A0 Disconnect
A1 Suback Disconnect
A2 Suback Disconnect
"""
ROWS = [(int(row.split()[0], 16), set(row.split()[1:])) for row in TABLE.strip().splitlines()]


@pytest.mark.parametrize(("code", "packets"), ROWS, ids=lambda value: f"{value:02X}" if isinstance(value, int) else "")
def test_table(code: int, packets: set[str]) -> None:
    """Every code of section 2.4 exists, and stands in exactly the packets of the table."""
    assert ReasonCode(code) == code
    assert {name for name, codes in ALLOWED.items() if code in codes} == packets


def test_no_code_beyond_the_table() -> None:
    """The enumeration has no other values."""
    assert {int(code) for code in ReasonCode} == {code for code, _ in ROWS}


def test_names_of_zero() -> None:
    """One number, three names."""
    for name in ("SUCCESS", "NORMAL_DISCONNECTION", "GRANTED_QOS_0"):
        assert ReasonCode[name] is ReasonCode(0)
    assert str(ReasonCode(0).name) == "SUCCESS"


def test_senders() -> None:
    """Sections 3.14.2.1 and 3.15.2.1: some codes belong to one side."""
    assert 0x04 in FROM_CLIENT["Disconnect"] and 0x04 not in FROM_SERVER["Disconnect"]
    assert 0x8E in FROM_SERVER["Disconnect"] and 0x8E not in FROM_CLIENT["Disconnect"]
    assert FROM_CLIENT["Disconnect"] | FROM_SERVER["Disconnect"] == ALLOWED["Disconnect"]
    assert sorted(FROM_CLIENT["Auth"]) == [0x18, 0x19]
    assert sorted(FROM_SERVER["Auth"]) == [0x00, 0x18]


def test_v3_suback() -> None:
    """[MQTT-3.9.3-2]"""
    assert {0, 1, 2, 0x80} == V3_SUBACK


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (0x00, ConnectReturn.ACCEPTED),
        (0x84, ConnectReturn.UNACCEPTABLE_PROTOCOL_VERSION),  # [MQTT-3.1.2-2]
        (0x85, ConnectReturn.IDENTIFIER_REJECTED),  # [MQTT-3.1.3-9]
        (0x86, ConnectReturn.BAD_USER_NAME_OR_PASSWORD),
        (0x87, ConnectReturn.NOT_AUTHORIZED),
        (0x8A, ConnectReturn.NOT_AUTHORIZED),
        (0x9B, ConnectReturn.NOT_AUTHORIZED),
        (0x80, ConnectReturn.SERVER_UNAVAILABLE),
        (0x88, ConnectReturn.SERVER_UNAVAILABLE),
        (0x9C, ConnectReturn.SERVER_UNAVAILABLE),
    ],
)
def test_connect_return_for(reason: int, expected: ConnectReturn) -> None:
    """A v3 client gets the nearest of its six codes."""
    assert connect_return_for(reason) is expected


def test_every_refusal_has_a_return_code() -> None:
    """No failure of a CONNACK ever looks like success to a v3 client."""
    for reason in ALLOWED["Connack"]:
        assert (connect_return_for(reason) == 0) == (reason == 0)
