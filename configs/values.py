"""Parses the text of a value to its Python value, with one function for each type, and describes each type.

Durations and ages are seconds, sizes are bytes, flags are booleans, lists are tuples. A word for "no limit" or "no
value" (`infinity`, `never`, `client`, `off`, `auto`, `unlimited`, `undefined`) is None.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

import msgspec

from .terms import parse_terms

Value = Any
"""int, bool, float, str, tuple or None, depending on the type of the key."""

_INTEGER = re.compile(r"-?[0-9]{1,18}")
_SIZE = re.compile(r"([0-9]{1,15})(?:([KMG])?B)?", re.IGNORECASE)
_LIFETIME = re.compile(r"([0-9]{1,9})([shdwmy])")
_DURATION = re.compile(r"(?:[0-9]{1,9}(?:ms|[smhdwf]))+")
_CLASS = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_NODENAME = re.compile(r"[^@\s]+@[^@\s]+")
_PLUGIN = re.compile(r"[A-Za-z0-9_-]+")

_LIFETIME_S = {"s": 1, "h": 3600, "d": 86400, "w": 604800, "m": 4 * 604800, "y": 48 * 604800}
_DURATION_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "f": 1209600}
_SIZE_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
TLS_VERSIONS = ("tlsv1", "tlsv1.1", "tlsv1.2", "tlsv1.3")
PROTOCOL_VERSIONS = (3, 4, 5, 131, 132)
_ONE_TLS = f"one of {', '.join(TLS_VERSIONS)}"


class WrongValueError(Exception):
    """The text is no value of the type. `expected` is a phrase; `suggestion` is the nearest right value, or empty."""

    def __init__(self, expected: str, suggestion: str = "") -> None:
        super().__init__(expected)
        self.expected = expected
        self.suggestion = suggestion


class Allowed(msgspec.Struct, frozen=True):
    """The content of the column `allowed` of the tables: a range of numbers and some words."""

    low: int | None
    high: int | None
    words: tuple[str, ...]


@lru_cache(maxsize=256)
def allowed_values(text: str) -> Allowed:
    """Parse `0..100 infinity`: at most one range, possibly with open ends, and any words."""
    low = high = None
    words = []
    for part in text.split():
        start, dots, end = part.partition("..")
        if dots and not start.strip("-0123456789"):
            low, high = int(start), int(end) if end else None
        else:
            words.append(part)
    return Allowed(low, high, tuple(words))


def parse_value(kind: str, allowed_text: str, text: str) -> Value:
    """The value of a text. Raises `WrongValueError` with the expected values."""
    allowed = allowed_values(allowed_text)
    if kind not in ("enum", "address", "tls") and text in allowed.words:
        return None
    try:
        return _PARSERS[kind](text, allowed)
    except ValueError:
        raise WrongValueError(expected_text(kind, allowed_text), _near(kind, allowed, text)) from None


def expected_text(kind: str, allowed_text: str) -> str:
    """The description of a type, for errors and the reference."""
    allowed = allowed_values(allowed_text)
    if kind == "enum":
        return f"one of {', '.join(allowed.words)}" if len(allowed.words) > 1 else allowed.words[0]
    if kind == "address":
        return f"{_PHRASES[kind]}, or local:/PATH:0" if "local" in allowed.words else _PHRASES[kind]
    if kind == "tls":
        return _ONE_TLS if "one" in allowed.words else _PHRASES[kind]
    phrase = _PHRASES[kind]
    if allowed.high is not None:
        phrase += f" from {allowed.low} to {allowed.high}"
    elif allowed.low is not None:
        phrase += f", {allowed.low} or more"
    return ", or ".join([phrase, *allowed.words])


def _near(kind: str, allowed: Allowed, text: str) -> str:
    lowered = text.lower()
    words = ("on", "off") if kind == "flag" else TLS_VERSIONS if kind == "tls" else allowed.words
    if kind == "flag" or set(words) >= {"on", "off"}:
        plain = {"true": "on", "yes": "on", "1": "on", "false": "off", "no": "off", "0": "off"}.get(lowered)
        if plain is not None:
            return plain
    near = get_close_matches(lowered[:200], words, 1, 0.6) if "," not in text else []
    return near[0] if near else ""


def _flag(text: str, allowed: Allowed) -> bool:
    if text not in ("on", "off"):
        raise ValueError
    return text == "on"


def _integer(text: str, allowed: Allowed) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise ValueError
    number = int(text)
    if (allowed.low is not None and number < allowed.low) or (allowed.high is not None and number > allowed.high):
        raise ValueError
    return number


def _string(text: str, allowed: Allowed) -> str:
    return text


def _enum(text: str, allowed: Allowed) -> str:
    if text not in allowed.words:
        raise ValueError
    return text


def _character(text: str, allowed: Allowed) -> str:
    if len(text) != 1:
        raise ValueError
    return text


def _bytesize(text: str, allowed: Allowed) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError
    return int(match[1]) * _SIZE_BYTES[(match[2] or "").upper()]


def _percent(text: str, allowed: Allowed) -> int:
    number = _integer(text.removesuffix("%"), allowed)
    if not 0 <= number <= 100:
        raise ValueError
    return number


def _lifetime(text: str, allowed: Allowed) -> int:
    match = _LIFETIME.fullmatch(text)
    if match is None:
        raise ValueError
    return int(match[1]) * _LIFETIME_S[match[2]]


def _duration(text: str, allowed: Allowed) -> float:
    if _DURATION.fullmatch(text) is None:
        raise ValueError
    return sum(int(number) * _DURATION_S[unit] for number, unit in re.findall(r"([0-9]+)(ms|[smhdwf])", text))


def _address(text: str, allowed: Allowed) -> tuple[str, int]:
    """(host, port), or ("local:/PATH", 0) for a unix socket."""
    host, colon, port_text = text.rpartition(":")
    if "local" in allowed.words and host.startswith("local:/") and port_text == "0":
        return host, 0
    if host.startswith("[") and host.endswith("]"):
        host = str(ipaddress.IPv6Address(host[1:-1]))
    elif host:
        host = str(ipaddress.ip_address(host))
    port = _integer(port_text, Allowed(0, 65535, ()))
    if not colon or not host:
        raise ValueError
    return host, port


def _tls(text: str, allowed: Allowed) -> tuple[str, ...]:
    names = tuple(part.strip().strip("'") for part in text.split(","))
    repeated = len(set(names)) < len(names)
    if repeated or any(name not in TLS_VERSIONS for name in names) or ("one" in allowed.words and len(names) > 1):
        raise ValueError
    return names


def _versions(text: str, allowed: Allowed) -> tuple[int, ...]:
    numbers = tuple(_integer(part.strip(), allowed) for part in text.split(","))
    if any(number not in PROTOCOL_VERSIONS for number in numbers):
        raise ValueError
    return tuple(sorted(set(numbers)))


def _sizes(text: str, allowed: Allowed) -> tuple[int, ...]:
    numbers = tuple(_integer(part.strip(), Allowed(1, None, ())) for part in text.split(","))
    if len(numbers) != 3:
        raise ValueError
    return numbers


def _names(text: str, allowed: Allowed) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.strip("[]").split(","))
    if any(_PLUGIN.fullmatch(name) is None for name in names) or len(set(names)) < len(names):
        raise ValueError
    return names


def _hosts(text: str, allowed: Allowed) -> tuple[str, ...]:
    return tuple(str(ipaddress.ip_address(part.strip())) for part in text.split(";") if part.strip())


def _clients(text: str, allowed: Allowed) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _filters(text: str, allowed: Allowed) -> tuple[str, ...]:
    """Topic filters without `$share`: wildcards are whole levels, and `#` is the last one."""
    filters = _clients(text, allowed)
    for levels in (each.split("/") for each in filters):
        if levels[0] == "$share" or "#" in levels[:-1]:
            raise ValueError
        if any(len(level) > 1 and ("+" in level or "#" in level) for level in levels):
            raise ValueError
    return filters


def _terms(text: str, allowed: Allowed) -> tuple[Any, ...]:
    return parse_terms(text) if text else ()


def _modules(text: str, allowed: Allowed) -> tuple[Any, ...]:
    """An Erlang list; the documentation of VerneMQ also writes it without its brackets."""
    return _terms(text if not text or text.startswith("[") else f"[{text}]", allowed)


def _python_class(text: str, allowed: Allowed) -> str:
    if _CLASS.fullmatch(text) is None:
        raise ValueError
    return text


def _nodename(text: str, allowed: Allowed) -> str:
    if _NODENAME.fullmatch(text) is None:
        raise ValueError
    return text


_PARSERS: dict[str, Callable[[str, Allowed], Value]] = {
    "flag": _flag, "integer": _integer, "string": _string, "file": _string, "directory": _string, "enum": _enum,
    "character": _character, "bytesize": _bytesize, "percent": _percent, "lifetime": _lifetime,
    "duration": _duration, "address": _address, "tls": _tls, "versions": _versions, "sizes": _sizes,
    "clients": _clients, "filters": _filters, "names": _names, "hosts": _hosts, "terms": _terms,
    "modules": _modules, "class": _python_class, "nodename": _nodename,
}  # fmt: skip

_PHRASES = {
    "flag": "on or off",
    "integer": "an integer",
    "string": "text",
    "file": "the path of a file",
    "directory": "the path of a directory",
    "character": "exactly one character",
    "bytesize": "a size in bytes, or with KB, MB or GB",
    "percent": "a percentage from 0 to 100",
    "lifetime": "a number with s, h, d, w, m (4 weeks) or y (48 weeks), such as 1w",
    "duration": "a duration such as 50ms, 10s or 5m",
    "address": "IP:PORT, such as 127.0.0.1:1883 or [::1]:1883",
    "tls": f"one or more of {', '.join(TLS_VERSIONS)}, separated by commas",
    "versions": f"one or more of {', '.join(map(str, PROTOCOL_VERSIONS))}, separated by commas",
    "sizes": "three sizes in bytes: send buffer, receive buffer, user-level buffer, separated by commas",
    "names": "different names of plugins, separated by commas",
    "hosts": "IP addresses, separated by semicolons",
    "clients": "client ids, separated by commas",
    "filters": "topic filters, separated by commas",
    "terms": "an Erlang list, such as [one, {two, 2}]",
    "modules": "names of modules, separated by commas, with or without brackets around them",
    "class": "MODULE:CLASS, such as my_package.auth:Plugin",
    "nodename": "NAME@HOST",
}
