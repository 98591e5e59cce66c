"""`vmq-admin`: finds the node's local door and hands it the words of the command line.

It knows no commands, except for `--help`: what a node can do is the node's to say.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import msgspec

from ..configs import ConfigError, load
from .render import FORMATS, alerts, render
from .wire import CutOff, from_lines

TIMEOUT_S = 600.0
"""How long an answer may take; a node that hangs is noticed sooner, by its listeners."""
_USAGE = """Usage: vmq-admin [-c|--conf FILE] [--data-dir DIR] COMMAND [key=value ...] [--flag ...]
                 [--format=human|json|csv]

The node is the one of this configuration file or data directory; without them that of ./etc/vernemq.conf if it is
there, of $STROGOFF_DATA_DIR, of ./data. `vmq-admin COMMAND --help` tells more about a command.

Commands:
"""
_OPTIONS = {"-c": "conf", "--conf": "conf", "--data-dir": "data_dir"}


class _Wrong(Exception):
    """What keeps vmq-admin from getting an answer."""


class _UnixConnection(HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self._path)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; 0, or 1 if the command could not be carried out."""
    try:
        options, words, form = _split(sys.argv[1:] if argv is None else argv)
        if not words or words[0] in ("-h", "--help", "help"):
            from .catalogue import COMMANDS
            from .words import overview

            print(f"{_USAGE}{overview(COMMANDS)}")
            return 0 if words else 1
        name, path = _place(options)
        lines = _ask(name, path, words)
        parts, status = from_lines(lines)
    except _Wrong as error:
        print(error, file=sys.stderr)
        return 1
    except CutOff:
        print(f"Node '{name}' stopped before it had answered.", file=sys.stderr)
        return 1
    return _print(render(parts, form), "" if form == "json" else "\n".join(alerts(parts)), status)


def _print(text: str, wrong: str, status: int) -> int:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # whoever reads has enough, such as `| head`; Python must not complain of it at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if wrong:
        print(wrong, file=sys.stderr)
    return status


def _split(argv: Sequence[str]) -> tuple[dict[str, str], list[str], str]:
    """vmq-admin's own options, which stand before the command, the command's words, and the format, from anywhere."""
    options: dict[str, str] = {}
    words: list[str] = []
    form = "human"
    todo = list(argv)
    while todo:
        word = todo.pop(0)
        name, equals, value = word.partition("=")
        if name == "--format" or (not words and name in _OPTIONS):
            if not equals:
                if not todo:
                    raise _Wrong(f"{name} needs a value.")
                value = todo.pop(0)
            if name == "--format":
                form = value
            else:
                options[_OPTIONS[name]] = value
        elif not words and word.startswith("-") and word not in ("-h", "--help"):
            raise _Wrong(f"Unknown option {word}; `vmq-admin --help` explains.")
        else:
            words.append(word)
    if form not in FORMATS:
        raise _Wrong(f"--format: {form!r} is none of {', '.join(FORMATS)}.")
    return options, words, form


def _place(options: dict[str, str]) -> tuple[str, Path]:
    """Name and socket of the node that is meant."""
    usual = Path("etc/vernemq.conf")
    conf = Path(options["conf"]) if "conf" in options else usual if usual.exists() else None
    directory = options.get("data_dir")
    if directory is None and "conf" not in options:
        directory = os.environ.get("STROGOFF_DATA_DIR")
    overrides = {"platform_data_dir": directory} if directory is not None else {}
    try:
        settings = load(conf, os.environ, overrides)
    except ConfigError as error:
        raise _Wrong(str(error)) from None
    return str(settings["nodename"]), Path(str(settings["node.admin_socket"]))


def _ask(name: str, path: Path, words: list[str]) -> list[bytes]:
    """The lines of the node's answer."""
    connection = _UnixConnection(str(path))
    down = f"Node '{name}' not responding to pings."
    try:
        connection.request("POST", "/command", msgspec.json.encode({"words": words}))
        response = connection.getresponse()
        body = response.read()
    except FileNotFoundError:
        raise _Wrong(f"{down} There is no {path}: it does not run, or has another data directory.") from None
    except PermissionError:
        raise _Wrong(f"You may not open {path}: be the user that runs node '{name}', or root.") from None
    except ConnectionRefusedError:
        raise _Wrong(f"{down} Nobody listens at {path}: it was killed.") from None
    except TimeoutError:
        raise _Wrong(f"{down} It did not answer within {TIMEOUT_S:.0f} s.") from None
    except (OSError, HTTPException) as error:
        raise _Wrong(f"{down} {path}: {error}") from None
    finally:
        connection.close()
    if response.status != 200:
        raise _Wrong(f"Node '{name}' did not understand: {body.decode(errors='replace').strip()}")
    return body.splitlines()


if __name__ == "__main__":
    sys.exit(main())
