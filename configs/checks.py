"""Checks across lines: addresses that two listeners use, TLS files, and the plugins of listeners."""

from __future__ import annotations

import os
from collections.abc import Iterator
from ipaddress import ip_address

from .listeners import ListenerSettings, resolve_listeners
from .lookup import Lookup
from .problems import Problem
from .schema import ACTIVE, Key, schema
from .values import Value

LEVEL = "eventlog.level"
MIN_IN_SYNC = "queue_min_in_sync"
PATIENCE = "queue_follower_patience"
LEAST_PATIENCE_MS = 200
"""A node measures one commit about every 200 ms. It cannot tell whether shorter commits take half of the time."""

ROTATION = "eventlog.rotation.size"
LARGEST_LOG = 64 << 20
"""Bytes of the largest file of the event log before it is compressed. Nobody can read a part of a compressed file."""

_CERTIFICATE = (
    "-----BEGIN CERTIFICATE-----",
    "-----BEGIN TRUSTED CERTIFICATE-----",
    "-----BEGIN X509 CERTIFICATE-----",
)
_PRIVATE_KEY = ("PRIVATE KEY-----",)
_REVOCATION_LIST = ("-----BEGIN X509 CRL-----",)


def check(settings: Lookup) -> list[Problem]:
    """All problems between settings."""
    listeners = resolve_listeners(settings)
    problems = list(_addresses(settings, listeners))
    minimum = settings[MIN_IN_SYNC]
    if wrong := too_few_copies(minimum, settings["queue_replicas"]):
        problems.append(_problem(settings, MIN_IN_SYNC, wrong, "at most queue_replicas", str(minimum)))
    if wrong := too_impatient(settings[PATIENCE]):
        problems.append(
            _problem(settings, PATIENCE, wrong, f"0, or {LEAST_PATIENCE_MS} to 1500", str(settings[PATIENCE]))
        )
    if settings[ROTATION] > LARGEST_LOG:
        wrong = "a reader of the event log reads each compressed file as a whole"
        problems.append(_problem(settings, ROTATION, wrong, "at most 64MB", str(settings[ROTATION])))
    for listener in listeners:
        problems += _plugins(settings, listener)
        if listener.type in ("http", "https") and listener.proxy_protocol:
            key = _key(settings, listener, "proxy_protocol")
            problems.append(_problem(settings, key, "HTTP listeners do not read PROXY headers", "off", "on"))
        if listener.uses_tls:
            problems += _tls(settings, listener)
    return list(dict.fromkeys(problems))


def too_few_copies(minimum: Value, replicas: Value) -> str:
    """Why no slot can ever have as many copies as `queue_min_in_sync` asks for; "" if it can."""
    return f"slots get no more copies than queue_replicas = {replicas}" if int(minimum) > int(replicas) else ""


def too_impatient(patience_ms: Value) -> str:
    """Why a node cannot tell whether its commits take longer than `queue_follower_patience`; "" if it can."""
    return "a node does not notice that shorter commits are slow" if 0 < int(patience_ms) < LEAST_PATIENCE_MS else ""


def in_months(key: Key, text: str) -> str:
    """A warning for an age in m, because whoever means minutes gets months; "" for another value."""
    age = key.parse(text) if key.type == "lifetime" and text.endswith("m") else None
    if age is None:
        return ""
    said = f"m is a month of 4 weeks, so this is {age // 86400} days; minutes have to be written as seconds"
    return f"{key.name} = {text}: {said}"


def from_or_to_off(level: Value, configured: Value) -> str:
    """Why `eventlog.level` cannot be changed while the node runs; "" if it can."""
    if "off" in (level, configured):
        return "a log begins and ends with its process: set off, or another level than off, in vernemq.conf and restart"
    return ""


def _addresses(settings: Lookup, listeners: list[ListenerSettings]) -> Iterator[Problem]:
    for number, listener in enumerate(listeners):
        first = next((each for each in listeners[:number] if _overlap(each, listener)), None)
        if first is not None:
            same = first.address == listener.address
            said = f"{first.key} has {'the same address' if same else f'this port at {first.address}'}"
            yield _problem(settings, listener.key, said, "", listener.address)


def _overlap(one: ListenerSettings, other: ListenerSettings) -> bool:
    """Whether only one of the two can be opened. 0.0.0.0 stands for each IPv4 address, and [::] for each
    IPv6 address. A node opens only one of its listeners for other nodes, so two of these never compete."""
    if {one.type, other.type} <= {"vmq", "vmqs"}:
        return False
    if one.unix_path or other.unix_path or one.port != other.port:
        return one.unix_path is not None and one.unix_path == other.unix_path
    first, second = ip_address(one.host), ip_address(other.host)
    all_of_them = first.version == second.version and (first.is_unspecified or second.is_unspecified)
    return one.port != 0 and (first == second or all_of_them)


def _plugins(settings: Lookup, listener: ListenerSettings) -> Iterator[Problem]:
    """A listener may name only enabled plugins."""
    enabled = {name: None for name in ("vmq_passwd", "vmq_acl") if settings[f"plugins.{name}"]}
    for key in settings:
        setting = settings.explicit(key)
        if setting is not None and setting.key.type in ("flag", "class") and key.startswith("plugins."):
            name = key.split(".")[-1]
            if setting.value is not False:
                enabled[name] = None
    for option, names in (("auth_plugins", listener.auth_plugins), ("authz_plugins", listener.authz_plugins)):
        for name in names or ():
            if name not in enabled:
                expected = f"one of {', '.join(sorted(enabled))}" if enabled else "an enabled plugin, and there is none"
                yield _problem(settings, f"{listener.key}.{option}", "no such plugin is enabled", expected, name)


def _tls(settings: Lookup, listener: ListenerSettings) -> Iterator[Problem]:
    by_psk = listener.psk_support and schema().keys["listener.ssl.psk_support"].effect == ACTIVE
    needs_certificate = not by_psk
    needs_ca = listener.require_certificate
    files = (
        ("certfile", listener.certfile, _CERTIFICATE, needs_certificate, "a TLS listener needs a certificate"),
        ("keyfile", listener.keyfile, _PRIVATE_KEY, needs_certificate, "a TLS listener needs a private key"),
        ("cafile", listener.cafile, _CERTIFICATE, needs_ca, "require_certificate = on needs CA certificates"),
        ("crlfile", listener.crlfile, _REVOCATION_LIST, False, ""),
        ("pskfile", listener.pskfile if by_psk else "", ("",), False, ""),
    )
    for option, path, marks, needed, why in files:
        if path:
            wrong = _file_problem(path, marks)
            if wrong:
                yield _problem(settings, _key(settings, listener, option), wrong, "", path)
        elif needed:
            own = f"{listener.key}.{option}"
            yield _problem(settings, own, why, f"{own} or listener.{listener.type}.{option}", "", at=listener.key)


def _file_problem(path: str, marks: tuple[str, ...]) -> str:
    """The reason why a file is no PEM file with one of these marks; empty if it is one."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            return "this is no regular file"  # a read of a pipe or a device might never return
        with open(path, encoding="ascii", errors="replace") as file:
            content = file.read(1 << 24)
    except OSError as error:
        return f"the file cannot be read: {(error.strerror or str(error)).lower()}"
    except ValueError:
        return "this is no valid path"
    if any(mark in content for mark in marks):
        return ""
    wanted = {_CERTIFICATE: "certificate", _PRIVATE_KEY: "private key", _REVOCATION_LIST: "revocation list"}
    return f"the file holds no {wanted[marks]} in PEM form"


def _key(settings: Lookup, listener: ListenerSettings, option: str) -> str:
    """The key that sets an option of the listener."""
    own = f"{listener.key}.{option}"
    return own if settings.explicit(own) is not None else f"listener.{listener.type}.{option}"


def _problem(settings: Lookup, key: str, message: str, expected: str, found: str, at: str = "") -> Problem:
    """A problem at the line that sets `at`, or at the line of the key."""
    setting = settings.explicit(at or key)
    file, line = (setting.line.file, setting.line.line) if setting is not None else ("default", 0)
    return Problem(file, line, key, message, expected, found)
