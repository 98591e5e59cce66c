"""Listeners and the effective value of each of their options.

The first level that sets an option counts: the listener, its type, the top level, the default. A level with -1 does not
count for options where -1 means "as the level above".
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

import msgspec

from .lookup import Lookup
from .schema import ListenerOption, schema
from .values import Value

_TOP_LEVEL = ("max_connections", "max_connection_lifetime", "mountpoint")
_INHERIT = ("max_connections", "tls_handshake_timeout")
_HANDSHAKE_TIMEOUT_MS = 5000
SHORTEST_COOKIE = 16
"""Fewer characters of `distributed_cookie` give a warning. Whoever records a handshake can try them all."""


class ListenerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A listener with all of its options. Options that its type lacks have their defaults.

    `host` is an IP address without brackets. `port` 0 means any free port. A unix socket has a `unix_path` instead of
    host and port. None means "no limit" for `max_connections`, `tls_handshake_timeout_s` and `max_ws_frame_size`, and
    "the global chain" for both lists of plugins. 0 s of `max_connection_lifetime_s` is no limit. Sizes are bytes.
    """

    type: str
    name: str
    host: str
    port: int
    unix_path: str | None = None
    max_connections: int | None = 10000
    max_connection_lifetime_s: int = 0
    mountpoint: str = ""
    allowed_protocol_versions: tuple[int, ...] = (3, 4, 5, 131)
    allow_anonymous_override: bool = False
    auth_plugins: tuple[str, ...] | None = None
    authz_plugins: tuple[str, ...] | None = None
    proxy_protocol: bool = False
    proxy_protocol_use_cn_as_username: bool = True
    proxy_xff_support: bool = False
    proxy_xff_trusted_intermediate: tuple[str, ...] = ()
    proxy_xff_use_cn_as_username: bool = False
    proxy_xff_cn_header: str = "x-ssl-client-cn"
    forward_connection_opts: bool = False
    buffer_sizes: tuple[int, ...] | None = None
    tcp_listen_options: tuple[tuple[str, Any], ...] = ()
    max_ws_frame_size: int | None = 268435456
    http_modules: tuple[str, ...] = ()
    max_request_line_length: int = 8000
    max_header_value_length: int = 4096
    cafile: str = ""
    certfile: str = ""
    keyfile: str = ""
    keypasswd: str = ""
    crlfile: str = ""
    depth: int = 1
    require_certificate: bool = False
    use_identity_as_username: bool = False
    tls_versions: tuple[str, ...] = ("tlsv1.2",)
    ciphers: str = ""
    eccs: tuple[str, ...] = ()
    tls_handshake_timeout_s: float | None = 5.0
    psk_support: bool = False
    psk_identity_hint: str = "VMQ_PSK"
    pskfile: str = "./etc/vmq.psk"
    pskfile_separator: str = ":"

    @property
    def key(self) -> str:
        """The key of the listener: `listener.TYPE.NAME`."""
        return f"listener.{self.type}.{self.name}"

    @property
    def address(self) -> str:
        """The address as in the file."""
        if self.unix_path is not None:
            return f"local:{self.unix_path}:0"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def uses_tls(self) -> bool:
        """Whether the listener uses TLS."""
        return self.type in ("ssl", "wss", "vmqs", "https")

    @property
    def names_users(self) -> bool:
        """Whether the client's certificate alone has its user name."""
        return self.uses_tls and self.require_certificate and self.use_identity_as_username


def _timeout_s(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else (_HANDSHAKE_TIMEOUT_MS if milliseconds == -1 else milliseconds) / 1000


def _mountpoint(text: str | None) -> str:
    return "" if text is None or text == "off" else text.removesuffix("/")


def _same(value: Value) -> Value:
    return value


_FIELDS: dict[str, tuple[str, Callable[[Value], Value]]] = {
    "max_connection_lifetime": ("max_connection_lifetime_s", _same),
    "tls_handshake_timeout": ("tls_handshake_timeout_s", _timeout_s),
    "tls_version": ("tls_versions", _same),
    "mountpoint": ("mountpoint", _mountpoint),
}
"""Options whose field has another name or type."""


def resolve_listeners(settings: Lookup) -> list[ListenerSettings]:
    """The listeners that have an address, in the order of the file."""
    found = []
    for name in settings:
        parts = name.split(".")
        setting = settings.explicit(name)
        if setting is None or setting.key.type != "address" or len(parts) != 3:
            continue
        host, port = setting.value
        unix_path = host.removeprefix("local:") if host.startswith("local:/") else None
        options = _options(settings, parts[1], parts[2])
        place = {"host": "", "port": 0, "unix_path": unix_path} if unix_path else {"host": host, "port": port}
        found.append(ListenerSettings(type=parts[1], name=parts[2], **place, **options))
    return found


def _options(settings: Lookup, type_: str, name: str) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "tcp_listen_options": tuple(o if isinstance(o, tuple) else (o, True) for o in settings["tcp_listen_options"]),
        "max_ws_frame_size": settings["max_ws_frame_size"],
    }
    for option in schema().options:
        levels = [(key, one) for for_type, key, one in option.keys if for_type == type_]
        field, convert = _FIELDS.get(option.option, (option.option, _same))
        if levels and field in ListenerSettings.__struct_fields__:
            fields[field] = convert(_inherited(settings, option, name, levels))
    if type_ in ("http", "https") and not fields["http_modules"]:
        fields["http_modules"] = settings["http_modules"]
    return fields


def _inherited(settings: Lookup, option: ListenerOption, name: str, levels: list[tuple[str, bool]]) -> Value:
    """The value of the nearest level; `levels` are the keys of one type, those for one listener marked True."""
    own = [key.replace("$name", name) for key, one in levels if one]
    common = [key for key, one in levels if not one]
    for key in own + common:
        setting = settings.explicit(key)
        if setting is not None and not (option.option in _INHERIT and setting.value == -1):
            return setting.value
    if option.option in _TOP_LEVEL:
        return settings[f"listener.{option.option}"]
    return settings[levels[0][0].replace("$name", name)]


def open_to_strangers(settings: Lookup, listener: ListenerSettings) -> bool:
    """Whether other machines can reach a cluster listener while the cookie is publicly known."""
    known = settings["distributed_cookie"] in ("", schema().keys["distributed_cookie"].default)
    return known and not settings["cluster.allow_default_cookie"] and _in_clear(listener)


def open_to_guesses(settings: Lookup, listener: ListenerSettings) -> bool:
    """Whether other machines can reach a cluster listener while the cookie is short enough to be guessed."""
    cookie = settings["distributed_cookie"]
    known = cookie in ("", schema().keys["distributed_cookie"].default)
    return not known and len(cookie) < SHORTEST_COOKIE and _in_clear(listener)


def _in_clear(listener: ListenerSettings) -> bool:
    """Whether other machines can reach a cluster listener without certificates."""
    return listener.type == "vmq" and (not listener.host or not ip_address(listener.host).is_loopback)


def unopened(settings: Lookup) -> list[str]:
    """The keys `listener.TYPE.NAME` of listeners with options but without address. They are not opened."""
    found: dict[str, None] = {}
    for name in settings:
        setting = settings.explicit(name)
        opened_by = ".".join(name.split(".")[:3])
        one = setting is not None and setting.key.name.startswith("listener.") and ".$name." in setting.key.name
        if one and settings.explicit(opened_by) is None:
            found[opened_by] = None
    return list(found)
