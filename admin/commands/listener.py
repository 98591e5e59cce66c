"""`listener`: show, start, stop and delete listeners of a running node."""

from __future__ import annotations

from ...broker.clustering.settings import for_nodes
from ...broker.listeners.listener import ListenerRow
from ...broker.listeners.sockets import ListenError
from ...broker.plugins.hooks import PluginError
from ...cluster.membership.discovery import parse_address
from ...configs import ConfigError, ListenerSettings, Settings, load
from ..context import Context
from ..grammar import NO_EFFECT, Argument, Call, Command, Flag, number
from ..http_listeners import TYPES as HTTP_TYPES
from ..result import DONE, Cell, CommandError, Part, Table

_ADDRESS = Argument("address", "IP address, or local:/PATH for a unix socket")
_PORT = Argument("port", "port; 0 with a unix socket", number)
_BASIC = ("type", "status", "address", "port", "mountpoint", "max_conns", "active_conns", "all_conns")
_TLS = {
    "tls_version": "tls_versions",
    "certfile": "certfile",
    "cafile": "cafile",
    "keyfile": "keyfile",
    "require_certificate": "require_certificate",
    "use_identity_as_username": "use_identity_as_username",
    "psk_support": "psk_support",
    "pskfile": "pskfile",
}
_MQTT = {
    "allowed_protocol_versions": "allowed_protocol_versions",
    "allow_anonymous_override": "allow_anonymous_override",
}
"""Column -> field of the settings."""
_SWITCHES = {
    "proxy_protocol": "expect a PROXY header",
    "proxy_protocol_use_cn_as_username": "take the user name from the certificate name in the PROXY header",
    "proxy_xff_support": "trust X-Forwarded-For of trusted proxies",
    "proxy_xff_use_cn_as_username": "take the user name from a header of the trusted proxy",
    "require_certificate": "demand a certificate from clients",
    "use_identity_as_username": "take the user name from the common name of the certificate",
    "forward_connection_opts": "give authentication plugins the address and the certificate of the client",
    "allow_anonymous_override": "accept clients of this listener without authentication",
}
_VALUES = {
    "mountpoint": "the mountpoint of its clients",
    "max_connections": "most connections, or infinity",
    "nr_of_acceptors": NO_EFFECT,
    "tls_handshake_timeout": "milliseconds",
    "proxy_xff_trusted_intermediate": "addresses of trusted proxies, separated by semicolons",
    "proxy_xff_cn_header": "the header with the user name",
    "allowed_protocol_versions": "such as 3,4,5",
    "http_modules": "the modules of an HTTP listener, separated by commas",
    "cafile": "CA certificates, PEM",
    "certfile": "certificate, PEM",
    "keyfile": "private key, PEM",
    "keypasswd": "password of the key",
    "ciphers": "in the notation of OpenSSL",
    "crlfile": "revocation list, PEM",
    "tls_version": "such as tlsv1.2,tlsv1.3",
    "auth_plugins": "the plugins that authenticate, separated by commas",
    "authz_plugins": "the plugins that authorise, separated by commas",
}
_SHORT = {"mountpoint": "m"}
_COMMON = ("tcp_listen_options", "max_ws_frame_size", "http_modules")
"""Keys of all listeners that do not begin with `listener.`."""


async def _show(context: Context, call: Call) -> list[Part]:
    extra = {**(_TLS if call.has("tls") else {}), **(_MQTT if call.has("mqtt") else {})}
    table = Table((*_BASIC, *extra), [])
    for row in [*context.server.listeners.show(), *context.http.show()]:
        settings = _settings_of(context, row)
        more = [_shown(getattr(settings, field)) for field in extra.values()]
        table.rows.append((*(_basic(row, name) for name in _BASIC), *more))
    for place, settings in enumerate(for_nodes(context.server.settings)):
        more = [_shown(getattr(settings, field)) for field in extra.values()]
        table.rows.append((*_between_nodes(context, settings, place == 0), *more))
    return [table]


def _between_nodes(context: Context, settings: ListenerSettings, used: bool) -> tuple[Cell, ...]:
    """The basic cells of a listener for other nodes. Its connections are not counted."""
    port, cluster = settings.port, context.cluster
    if used and cluster is not None and not port:  # any free port: the other nodes know which one
        port = next((parse_address(row.address)[1] for row in cluster.rows() if row.node == cluster.name), 0)
    status = "running" if used else "not used"
    return (settings.type, status, settings.host, port, settings.mountpoint, "infinity", None, None)


def _settings_of(context: Context, row: ListenerRow) -> ListenerSettings:
    source = context.http if row.type in HTTP_TYPES else context.server.listeners
    return source.find(row.key).settings


def _basic(row: ListenerRow, name: str) -> Cell:
    value: Cell = getattr(row, name)
    return "infinity" if name == "max_conns" and value is None else value


def _shown(value: object) -> Cell:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return value if isinstance(value, str | int) else str(value)


async def _start(context: Context, call: Call) -> list[Part]:
    settings = _wanted(context.server.settings, call)
    for chain in (settings.auth_plugins, settings.authz_plugins):
        try:
            context.server.hooks.check_chain(chain or ())
        except PluginError as error:
            raise CommandError(str(error)) from None
    listeners = context.http if settings.type in HTTP_TYPES else context.server.listeners
    await listeners.add(settings)
    return [DONE]


def _wanted(known: Settings, call: Call) -> ListenerSettings:
    """The listener that the flags describe. Other options come from the configuration. Raises `CommandError`."""
    tls, websocket, http = call.has("ssl"), call.has("websocket"), call.has("http")
    if websocket and http:
        raise CommandError("--websocket and --http exclude each other.")
    type_ = {(False, False): "tcp", (True, False): "ws", (False, True): "http"}[websocket, http]
    if tls:
        type_ = {"tcp": "ssl", "ws": "wss", "http": "https"}[type_]
    address, port = call.arguments["address"], call.arguments["port"]
    name = "".join(char if char.isalnum() else "_" for char in f"{address}_{port}")
    key = f"listener.{type_}.{name}"
    lines = _common(known)
    lines[key] = f"[{address}]:{port}" if ":" in address and not address.startswith("local:") else f"{address}:{port}"
    for flag, value in call.flags:
        if flag not in ("ssl", "websocket", "http"):
            lines[f"{key}.{flag}"] = value if value is not None else "on"
    try:
        return next(each for each in load(None, {}, lines).listeners() if each.key == key)
    except ConfigError as error:
        said = [
            f"{problem.message}{f', expected {problem.expected}' if problem.expected else ''}"
            for problem in error.problems
        ]
        names = [problem.key.removeprefix(key).lstrip(".") or "address" for problem in error.problems]
        raise CommandError("\n".join(f"{name}: {text}." for name, text in zip(names, said, strict=True))) from None


def _common(known: Settings) -> dict[str, str]:
    """The configured options of all listeners or all of a type, and the plugins that a listener may name."""
    found = {}
    for name in known:
        setting = known.explicit(name)
        assert setting is not None
        listeners = name.startswith("listener.") and "$name" not in setting.key.name
        if listeners or name.startswith("plugins.") or name in _COMMON:
            found[name] = setting.value if isinstance(setting.value, str) else setting.line.text
    return found


async def _stop(context: Context, call: Call) -> list[Part]:
    address, mqtt = _which(context, call)
    if mqtt:
        await context.server.listeners.stop(address, call.has("kill_sessions"))
    else:
        await context.http.stop(address)
    return [DONE]


async def _restart(context: Context, call: Call) -> list[Part]:
    address, mqtt = _which(context, call)
    await (context.server.listeners.restart(address) if mqtt else context.http.restart(address))
    return [DONE]


async def _delete(context: Context, call: Call) -> list[Part]:
    address, mqtt = _which(context, call)
    await (context.server.listeners.delete(address) if mqtt else context.http.delete(address))
    return [DONE]


def _which(context: Context, call: Call) -> tuple[str, bool]:
    """The address of a listener, and whether the listener is one for MQTT. Raises `ListenError` if there is none."""
    address, port = call.arguments["address"], call.arguments["port"]
    ipv6 = ":" in address and not address.startswith(("[", "local:"))
    written = f"[{address}]:{port}" if ipv6 else f"{address}:{port}"
    try:
        context.http.find(written)
    except ListenError:
        context.server.listeners.find(written)
        return written, True
    return written, False


COMMANDS = (
    Command(
        "listener show",
        "Show all listeners.",
        _show,
        flags=(Flag("tls", "also their TLS settings", "t"), Flag("mqtt", "also their MQTT settings", "m")),
    ),
    Command(
        "listener start",
        "Open a listener until the node stops. A permanent listener belongs into vernemq.conf.",
        _start,
        arguments=(_ADDRESS, _PORT),
        flags=(
            Flag("ssl", "with TLS"),
            Flag("websocket", "for MQTT over WebSocket", "ws"),
            Flag("http", "for HTTP"),
            *(Flag(name, text) for name, text in _SWITCHES.items()),
            *(Flag(name, text, _SHORT.get(name, ""), "VALUE") for name, text in _VALUES.items()),
        ),
    ),
    Command(
        "listener stop",
        "Stop a listener: its port closes, MQTT connections stay.",
        _stop,
        arguments=(_ADDRESS, _PORT),
        flags=(Flag("kill_sessions", "also close its connections", "k"),),
    ),
    Command("listener restart", "Start a stopped listener.", _restart, arguments=(_ADDRESS, _PORT)),
    Command("listener delete", "Stop a listener and remove it.", _delete, arguments=(_ADDRESS, _PORT)),
)
