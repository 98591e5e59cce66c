"""The data types of section 1.5 of both standards."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.mqtt import wire
from strogoff.mqtt.errors import MalformedPacket


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (16_383, "ff7f"),
        (16_384, "808001"),
        (2_097_151, "ffff7f"),
        (2_097_152, "80808001"),
        (268_435_455, "ffffff7f"),
    ],
)
def test_varint_table(value: int, raw: str) -> None:
    """[MQTT5-1.5.5-1] Table 1-1: the fewest bytes for each range."""
    data = bytes.fromhex(raw)
    assert wire.encode_varint(value) == data
    assert wire.read_varint(data, 0, len(data), "n") == (value, len(data))


@pytest.mark.parametrize("raw", ["8000", "808000", "ffffff00", "80", "ffffff", "ffffffff7f", "ffffffff", ""])
def test_bad_varints(raw: str) -> None:
    """[MQTT5-1.5.5-1] Superfluous bytes, missing bytes and a fifth byte are malformed."""
    data = bytes.fromhex(raw)
    with pytest.raises(MalformedPacket):
        wire.read_varint(data, 0, len(data), "n")


@given(st.integers(0, wire.MAX_VARINT), st.binary(max_size=3), st.binary(max_size=3))
def test_varint_round_trip(value: int, before: bytes, after: bytes) -> None:
    """A varint is found again between other bytes."""
    raw = wire.encode_varint(value)
    data = before + raw + after
    assert wire.read_varint(data, len(before), len(data), "n") == (value, len(before) + len(raw))


@pytest.mark.parametrize("value", [-1, 268_435_456])
def test_varint_out_of_range(value: int) -> None:
    """Section 1.5.5: at most 268,435,455."""
    with pytest.raises(ValueError, match="variable byte integer"):
        wire.encode_varint(value)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ("0003 eda080", "U+D800"),  # [MQTT-1.5.3-1] [MQTT5-1.5.4-1]
        ("0003 edbfbf", "U+DFFF"),  # [MQTT-1.5.3-1] [MQTT5-1.5.4-1]
        ("0006 eda081 edb080", "a surrogate pair"),
        ("0002 c080", "U+0000 in two bytes"),
        ("0002 c1bf", "overlong"),
        ("0003 e08080", "overlong"),
        ("0004 f4908080", "above U+10FFFF"),
        ("0001 ff", "no UTF-8 byte"),
        ("0001 80", "a continuation byte alone"),
        ("0002 e282", "a cut sequence"),
        ("0001 00", "U+0000"),  # [MQTT-1.5.3-2] [MQTT5-1.5.4-2]
        ("0003 610062", "U+0000 inside"),  # [MQTT-1.5.3-2] [MQTT5-1.5.4-2]
        ("0002 61", "one byte missing"),
        ("00", "half a length"),
        ("", "no length"),
    ],
)
def test_bad_strings(raw: str, why: str) -> None:
    """[MQTT-1.5.3-1] [MQTT-1.5.3-2] [MQTT5-1.5.4-1] [MQTT5-1.5.4-2] Malformed, and never read beyond the end."""
    data = bytes.fromhex(raw)
    with pytest.raises(MalformedPacket):
        wire.read_utf8(data + b"zzzz", 0, len(data), "text")


def test_byte_order_mark_stays() -> None:
    """[MQTT-1.5.3-3] [MQTT5-1.5.4-3] EF BB BF is U+FEFF wherever it stands, and is not stripped."""
    data = bytes.fromhex("0007 efbbbf 61 efbbbf")
    assert wire.read_utf8(data, 0, len(data), "text") == ("\ufeffa\ufeff", 9)
    assert wire.encode_utf8("\ufeffa\ufeff", "text") == data


def test_control_characters_and_non_characters_are_let_through() -> None:
    """Section 1.5.4 leaves the refusal of U+0001 to U+001F, U+007F to U+009F and non-characters open."""
    for text in ("\x01", "\x1f", "\x7f", "\x9f", "\ufffe", "\U0010ffff"):
        data = wire.encode_utf8(text, "text")
        assert wire.read_utf8(data, 0, len(data), "text")[0] == text


@given(st.text().filter(lambda text: "\0" not in text))
def test_string_round_trip(text: str) -> None:
    """Every text without U+0000 comes back as it was."""
    data = wire.encode_utf8(text, "text")
    assert wire.read_utf8(data, 0, len(data), "text") == (text, len(data))


def test_longest_string() -> None:
    """Section 1.5.4: 65,535 bytes, counted in UTF-8."""
    longest = "é" * 32_767 + "x"
    data = wire.encode_utf8(longest, "text")
    assert wire.read_utf8(data, 0, len(data), "text") == (longest, 65_537)
    with pytest.raises(ValueError, match="65536 bytes"):
        wire.encode_utf8("é" * 32_768, "text")


@pytest.mark.parametrize("text", ["\0", "a\0", "\ud800", "x\udfff", 5, None])
def test_unencodable_strings(text: object) -> None:
    """[MQTT-1.5.3-1] [MQTT-1.5.3-2] [MQTT5-1.5.4-1] [MQTT5-1.5.4-2] They are refused before they reach the wire."""
    with pytest.raises(ValueError, match="text"):
        wire.encode_utf8(text, "text")  # type: ignore[arg-type]


def test_integers() -> None:
    """Sections 1.5.2 and 1.5.3: big endian."""
    data = bytes.fromhex("01 0203 04050607")
    assert wire.read_u8(data, 0, 7, "n") == (1, 1)
    assert wire.read_u16(data, 1, 7, "n") == (0x0203, 3)
    assert wire.read_u32(data, 3, 7, "n") == (0x04050607, 7)
    assert wire.encode_u8(1, "n") + wire.encode_u16(0x0203, "n") + wire.encode_u32(0x04050607, "n") == data


@pytest.mark.parametrize(("reader", "size"), [(wire.read_u8, 1), (wire.read_u16, 2), (wire.read_u32, 4)])
def test_integers_stop_at_the_end(reader: Callable[[bytes, int, int, str], object], size: int) -> None:
    """A field that does not fit before `end` is malformed even when more bytes follow."""
    with pytest.raises(MalformedPacket):
        reader(b"12345678", 0, size - 1, "n")


@pytest.mark.parametrize("value", [-1, 256, "x", 1.0])
def test_integers_out_of_range(value: object) -> None:
    """A number out of range is refused, whatever its type."""
    with pytest.raises(ValueError, match="n must be"):
        wire.encode_u8(value, "n")  # type: ignore[arg-type]


def test_binary() -> None:
    """Section 1.5.6: zero to 65,535 bytes of anything."""
    for value in (b"", b"\0\xff", b"x" * 65_535):
        data = wire.encode_binary(value, "data")
        assert wire.read_binary(data, 0, len(data), "data") == (value, len(data))
        with pytest.raises(MalformedPacket):
            wire.read_binary(data, 0, len(data) - 1, "data")
    with pytest.raises(ValueError, match="65536"):
        wire.encode_binary(b"x" * 65_536, "data")
    with pytest.raises(ValueError, match="must be bytes"):
        wire.encode_binary("text", "data")  # type: ignore[arg-type]
