"""DOCKER_VERNEMQ_* variables: the configuration of a container, as in VerneMQ's image.

`DOCKER_VERNEMQ_X__Y=v` is `x.y = v`. `..._LISTENER__TYPE__NAME=true` opens a listener on the next port from 1884 on,
`..._LISTENER__TYPE__NAME__PORT=n` on port n. The address of the container is DOCKER_IP_ADDRESS. If it is set, the
default listeners of the image are added, unless a variable sets them. They override the same keys in files, and make
room for another listener that has their port.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from .orchestrators import ADDRESS, KUBERNETES, NOT_KEYS, OWN_ADDRESS, discovery, without_effect
from .schema import schema
from .syntax import unquoted

PREFIX = "DOCKER_VERNEMQ_"
DEFAULT_LISTENERS = (
    ("listener.tcp.default", 1883),
    ("listener.ws.default", 8080),
    ("listener.http.metrics", 8888),
    ("listener.vmq.clustering", 44053),
)
START = "########## Start ##########"
END = "########## End ##########"

_ALL = ("0.0.0.0", "[::]")
_USER = "USER_"
_FIRST_PORT = 1884
_BLOCK = re.compile(rf"^{START}$.*?(?:^{END}$\n?|\Z)", re.MULTILINE | re.DOTALL)


class Environment(msgspec.Struct, frozen=True):
    """Parsed variables: key -> (text, name of the variable), and user -> password for the password file."""

    values: dict[str, tuple[str, str]]
    users: dict[str, str]
    warnings: list[str] = []
    problem: tuple[str, str] | None = None
    """A variable has an impossible value. The text is a sentence about it."""


def from_environment(environ: Mapping[str, str], files: Mapping[str, str] = {}) -> Environment:
    """Parse the variables. Only those that begin with DOCKER_ count. `files` has key -> text of the lines of files."""
    values: dict[str, tuple[str, str]] = {}
    users: dict[str, str] = {}
    ip_address = environ.get(ADDRESS, "")
    host = f"[{ip_address}]" if ":" in ip_address else ip_address
    for variable in sorted(environ):
        name = variable.removeprefix(PREFIX)
        if name == variable or name == "ACCEPT_EULA" or variable in NOT_KEYS:
            continue
        text = environ[variable].strip()
        literal = unquoted(text)
        text = text if literal is None else literal
        if name.startswith(_USER):
            users[name.removeprefix(_USER).lower()] = environ[variable]
        elif name == "NODENAME":
            values["nodename"] = (text if "@" in text else f"VerneMQ@{text}", variable)
        else:
            values[name.lower().replace("__", ".")] = (text, variable)
    _listener_ports(values, host or "0.0.0.0")
    warnings = without_effect(environ)
    if host:
        warnings += _add_default_listeners(values, files, host, environ.get(OWN_ADDRESS, ""))
    problem = None
    try:
        values.update(discovery(environ))
    except ValueError as error:
        problem = (KUBERNETES, str(error))
    return Environment(values, users, warnings, problem)


def _add_default_listeners(
    values: dict[str, tuple[str, str]], files: Mapping[str, str], host: str, own: str
) -> list[str]:
    """Add the listeners of the image to `values`. A sentence for each of them that differs from what one may expect."""
    said = []
    defaults = dict(DEFAULT_LISTENERS)
    named = {key: text for key, (text, _) in values.items() if _is_listener(key)}
    named |= {key: text for key, text in files.items() if _is_listener(key) and key not in defaults | named}
    for key, port in DEFAULT_LISTENERS:
        if key in values:
            continue
        beside = {other: text.rpartition(":")[0] for other, text in named.items() if text.endswith(f":{port}")}
        taken = {each for each in beside.values() if each in _ALL or each.startswith("[") == host.startswith("[")}
        place = own if taken and own and host == "0.0.0.0" else host
        if taken & {*_ALL, place} or (taken and place in _ALL):
            said.append(f"{key} of the image is not opened: {', '.join(beside)} has its port {port}")
            continue
        if place != host:
            said.append(f"{key} listens on {place}:{port} alone: {', '.join(beside)} has this port at another address")
        if files.get(key, f"{place}:{port}") != f"{place}:{port}":
            variable = PREFIX + key.upper().replace(".", "__")
            said.append(f"{key} = {files[key]} in a file has no effect in a container: {variable} sets this listener")
        values[key] = (f"{place}:{port}", ADDRESS)
    return said


def _listener_ports(values: dict[str, tuple[str, str]], host: str) -> None:
    """Replaces `true` by an address with the next port and `.port = n` by an address with that port."""
    next_port = _FIRST_PORT
    for key in list(values):
        text, variable = values[key]
        if key.endswith(".port") and _is_listener(key.removesuffix(".port")):
            del values[key]
            values[key.removesuffix(".port")] = (f"{host}:{text}", variable)
        elif text == "true" and _is_listener(key) and f"{key}.port" not in values:
            values[key] = (f"{host}:{next_port}", variable)
            next_port += 1


def _is_listener(key: str) -> bool:
    definition = schema().find(key)
    return definition is not None and definition.type == "address"


def conf_text(conf: str, local: str | None, environ: Mapping[str, str]) -> str:
    """The text of the vernemq.conf of a container.

    `local` is the text of vernemq.conf.local. If it exists, it replaces everything, including the variables, and
    ###IPADDRESS### in it becomes the address of the container. Else the lines of the variables are added at the end of
    `conf` between two marks, instead of the lines of an earlier start.
    """
    if local is not None:
        return local.replace("###IPADDRESS###", environ.get(ADDRESS, "0.0.0.0"))
    lines = [f"{key} = {_quoted(text)}" for key, (text, _) in from_environment(environ).values.items()]
    kept = _BLOCK.sub("", conf)
    if kept and not kept.endswith("\n"):
        kept += "\n"
    return kept + "\n".join([START, *lines, END, ""])


def _quoted(text: str) -> str:
    return f"'{text}'" if "#" in text and "'" not in text else text
