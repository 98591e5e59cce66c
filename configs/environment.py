"""DOCKER_VERNEMQ_* variables: the configuration of a container, as in VerneMQ's image.

`DOCKER_VERNEMQ_X__Y=v` is `x.y = v`. `..._LISTENER__TYPE__NAME=true` opens a listener on the next port from 1884 on,
`..._LISTENER__TYPE__NAME__PORT=n` on port n. The address of the container is DOCKER_IP_ADDRESS. If it is set, the
default listeners of the image are added, unless a variable sets them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from .orchestrators import KUBERNETES, NOT_KEYS, discovery, without_effect
from .schema import schema

PREFIX = "DOCKER_VERNEMQ_"
DEFAULT_LISTENERS = (
    ("listener.tcp.default", 1883),
    ("listener.ws.default", 8080),
    ("listener.http.metrics", 8888),
    ("listener.vmq.clustering", 44053),
)
START = "########## Start ##########"
END = "########## End ##########"

_ADDRESS = "DOCKER_IP_ADDRESS"
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


def from_environment(environ: Mapping[str, str]) -> Environment:
    """Parse the variables. Only those that begin with DOCKER_ count."""
    values: dict[str, tuple[str, str]] = {}
    users: dict[str, str] = {}
    ip_address = environ.get(_ADDRESS, "")
    host = f"[{ip_address}]" if ":" in ip_address else ip_address
    for variable in sorted(environ):
        name = variable.removeprefix(PREFIX)
        if name == variable or name == "ACCEPT_EULA" or variable in NOT_KEYS:
            continue
        text = environ[variable].strip()
        if name.startswith(_USER):
            users[name.removeprefix(_USER).lower()] = environ[variable]
        elif name == "NODENAME":
            values["nodename"] = (text if "@" in text else f"VerneMQ@{text}", variable)
        else:
            values[name.lower().replace("__", ".")] = (text, variable)
    _listener_ports(values, host or "0.0.0.0")
    if host:
        for key, port in DEFAULT_LISTENERS:
            values.setdefault(key, (f"{host}:{port}", _ADDRESS))
    problem = None
    try:
        values.update(discovery(environ))
    except ValueError as error:
        problem = (KUBERNETES, str(error))
    return Environment(values, users, without_effect(environ), problem)


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
        return local.replace("###IPADDRESS###", environ.get(_ADDRESS, "0.0.0.0"))
    lines = [f"{key} = {_quoted(text)}" for key, (text, _) in from_environment(environ).values.items()]
    kept = _BLOCK.sub("", conf)
    if kept and not kept.endswith("\n"):
        kept += "\n"
    return kept + "\n".join([START, *lines, END, ""])


def _quoted(text: str) -> str:
    return f"'{text}'" if "#" in text and "'" not in text else text
