"""Each type of values: accepted texts, the results, and descriptions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.configs.schema import schema
from strogoff.configs.values import WrongValueError, allowed_values, expected_text, parse_value


@pytest.mark.parametrize(
    ("kind", "allowed", "text", "value"),
    [
        ("flag", "", "on", True),
        ("flag", "", "off", False),
        ("integer", "0..", "17", 17),
        ("integer", "-1..", "-1", -1),
        ("integer", "0.. infinity", "infinity", None),
        ("integer", "1.. undefined", "undefined", None),
        ("integer", "", "-5", -5),
        ("string", "", "any text", "any text"),
        ("enum", "off majority on", "majority", "majority"),
        ("character", "", ":", ":"),
        ("bytesize", "", "4096", 4096),
        ("bytesize", "", "4KB", 4096),
        ("bytesize", "", "30mb", 30 * 1024 * 1024),
        ("bytesize", "", "2GB", 2 * 1024**3),
        ("bytesize", "infinity", "infinity", None),
        ("percent", "", "70", 70),
        ("percent", "", "70%", 70),
        ("lifetime", "never", "never", None),
        ("lifetime", "client", "client", None),
        ("lifetime", "", "30s", 30),
        ("lifetime", "", "1h", 3600),
        ("lifetime", "", "2d", 172800),
        ("lifetime", "", "1w", 604800),
        ("lifetime", "", "1m", 4 * 604800),
        ("lifetime", "", "1y", 48 * 604800),
        ("duration", "off", "off", None),
        ("duration", "", "50ms", 0.05),
        ("duration", "", "1h30m", 5400),
        ("address", "", "127.0.0.1:1883", ("127.0.0.1", 1883)),
        ("address", "", "[::1]:1883", ("::1", 1883)),
        ("address", "", "::1:1883", ("::1", 1883)),
        ("address", "", "0.0.0.0:0", ("0.0.0.0", 0)),
        ("address", "local", "local:/tmp/mqtt.sock:0", ("local:/tmp/mqtt.sock", 0)),
        ("tls", "", "tlsv1.2,tlsv1.3", ("tlsv1.2", "tlsv1.3")),
        ("tls", "one", "'tlsv1.3'", ("tlsv1.3",)),
        ("versions", "", "5, 3,4", (3, 4, 5)),
        ("sizes", "", "4096,16384,32768", (4096, 16384, 32768)),
        ("names", "", "vmq_acl, my_plugin", ("vmq_acl", "my_plugin")),
        ("hosts", "", "10.0.0.1;::1", ("10.0.0.1", "::1")),
        ("clients", "", "a, b c,", ("a", "b c")),
        ("clients", "", "", ()),
        ("filters", "", "a/+/b, #,+,/,$SYS/#", ("a/+/b", "#", "+", "/", "$SYS/#")),
        ("terms", "", "[a, b]", ("a", "b")),
        ("terms", "", "", ()),
        ("modules", "", "[a, b]", ("a", "b")),
        ("modules", "", "a, b", ("a", "b")),
        ("modules", "", "a", ("a",)),
        ("modules", "", "", ()),
        ("class", "", "a.b:C", "a.b:C"),
        ("nodename", "", "VerneMQ@host", "VerneMQ@host"),
    ],
)
def test_right_values(kind: str, allowed: str, text: str, value: object) -> None:
    found = parse_value(kind, allowed, text)
    assert found == value
    assert type(found) is type(value) or kind == "duration"


@pytest.mark.parametrize(
    ("kind", "allowed", "text"),
    [
        ("flag", "", "ON"),
        ("flag", "", "true"),
        ("integer", "0..", "-1"),
        ("integer", "0..10", "11"),
        ("integer", "", "1_000"),
        ("integer", "", "٣"),
        ("integer", "", "9" * 5000),
        ("integer", "0..", "infinity"),
        ("enum", "fifo lifo", "FIFO"),
        ("character", "", "::"),
        ("bytesize", "", "4 KB"),
        ("bytesize", "", "4TB"),
        ("bytesize", "", "-1"),
        ("percent", "", "101"),
        ("lifetime", "never", "5"),
        ("lifetime", "never", "5min"),
        ("lifetime", "", "never"),
        ("duration", "", "10"),
        ("address", "", "1883"),
        ("address", "", "localhost:1883"),
        ("address", "", "127.0.0.1:70000"),
        ("address", "", "127.0.0.1:"),
        ("address", "", "[::1:1883"),
        ("address", "", "[127.0.0.1]:1883"),
        ("address", "", "local:/tmp/x:0"),
        ("address", "local", "local:/tmp/x"),
        ("address", "local", "local:x:0"),
        ("tls", "", "tlsv1.4"),
        ("tls", "", "tlsv1.2,tlsv1.2"),
        ("tls", "one", "tlsv1.2,tlsv1.3"),
        ("versions", "", "3,4,6"),
        ("sizes", "", "1,2"),
        ("names", "", "a,a"),
        ("names", "", "a,,b"),
        ("hosts", "", "proxy.example"),
        ("filters", "", "a,b/#/c"),
        ("filters", "", "a+"),
        ("filters", "", "a/b#"),
        ("filters", "", "$share/g/t"),
        ("terms", "", "a, b"),
        ("modules", "", "a b"),
        ("modules", "", "[a, b"),
        ("class", "", "module"),
        ("nodename", "", "host"),
    ],
)
def test_wrong_values(kind: str, allowed: str, text: str) -> None:
    with pytest.raises(WrongValueError) as caught:
        parse_value(kind, allowed, text)
    assert caught.value.expected == expected_text(kind, allowed)


@pytest.mark.parametrize(
    ("kind", "allowed", "text", "near"),
    [
        ("flag", "", "true", "on"),
        ("flag", "", "No", "off"),
        ("enum", "off majority on", "1", "on"),
        ("enum", "off majority on", "majorty", "majority"),
        ("enum", "fifo lifo", "1", ""),
        ("integer", "0.. infinity", "infinite", "infinity"),
        ("tls", "", "TLSv1.2", "tlsv1.2"),
    ],
)
def test_the_nearest_right_value_is_suggested(kind: str, allowed: str, text: str, near: str) -> None:
    with pytest.raises(WrongValueError) as caught:
        parse_value(kind, allowed, text)
    assert caught.value.suggestion == near


def test_ranges_and_words_are_described() -> None:
    assert expected_text("integer", "0..65535") == "an integer from 0 to 65535"
    assert expected_text("integer", "1.. infinity") == "an integer, 1 or more, or infinity"
    assert expected_text("enum", "https") == "https"
    assert expected_text("tls", "one") == "one of tlsv1, tlsv1.1, tlsv1.2, tlsv1.3"
    assert allowed_values("-1.. infinity").low == -1


@given(st.sampled_from(sorted({(key.type, key.allowed) for key in schema().keys.values()})), st.text(max_size=30))
def test_any_text_is_a_value_or_wrong(kind: tuple[str, str], text: str) -> None:
    try:
        parse_value(*kind, text)
    except WrongValueError as error:
        assert error.expected
