"""`vmq-admin`: find the node, send it the words of the command line, and print the result.

The node parses the command. This program reads the list of commands only for `--help`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ..configs import ConfigError
from .client import HttpClient, NodeClient, UnixSocketClient, Unreachable
from .local_node import local_client, local_settings
from .render import FORMATS, alerts, escape_unprintable, render
from .wire import TruncatedResult, from_lines

API_KEY = "STROGOFF_API_KEY"
"""Environment variable instead of `--api-key`, because all users of a machine can read its command lines."""
_USAGE = """Usage: vmq-admin [-c|--conf FILE] [--data-dir DIR] COMMAND [key=value ...] [--flag ...]
                 [--format=human|json|csv]
       vmq-admin --url http[s]://HOST:PORT [--api-key KEY] [--cafile FILE] COMMAND ...

Without --url the node is the one on this machine with this configuration FILE (default: ./etc/vernemq.conf, if it
exists) and this data directory (default: $STROGOFF_DATA_DIR unless -c is given, else platform_data_dir of the file,
else ./data). With --url it is any node, through one of its HTTP listeners. The API key must have the scope mgmt;
$STROGOFF_API_KEY may hold it instead of --api-key. `vmq-admin COMMAND --help` explains a command.

Commands:
"""
_OPTIONS = {
    "-c": "conf",
    "--conf": "conf",
    "--data-dir": "data_dir",
    "--url": "url",
    "--api-key": "api_key",
    "--cafile": "cafile",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line. Returns 0, 1 if the command failed, or 130 after Ctrl-C."""
    try:
        options, words, form = _split(_texts(sys.argv[1:] if argv is None else argv))
        if not words or words[0] in ("-h", "--help", "help"):
            from .grammar import overview
            from .registry import COMMANDS

            _write(f"{_USAGE}{overview(COMMANDS)}\n")
            return 0 if words else 1
        client = _client_for(options)
        parts, status = from_lines(client.run(words), _show(form))
    except Unreachable as error:
        print(error, file=sys.stderr)
        return 1
    except TruncatedResult:
        print(f"{client.name} stopped before its result was complete.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted. The node finishes the command.", file=sys.stderr)
        return 130
    return _print(render(parts, form), "" if form == "json" else "\n".join(alerts(parts)), status)


def _show(form: str) -> Callable[[str], None] | None:
    """The function that prints a line of progress. JSON output is one list, so it has these lines at its end."""
    return None if form == "json" else lambda line: _write(escape_unprintable(line) + "\n")


def _print(text: str, wrong: str, status: int) -> int:
    _write(text)
    if wrong:
        print(wrong, file=sys.stderr)
    return status


def _write(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    try:
        # letters that the terminal's encoding lacks become \u...: a client id may have any
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        # the reader has closed the pipe, as `| head` does; without this Python would report an error at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _texts(argv: Sequence[str]) -> Sequence[str]:
    """Returns the words. Raises `Unreachable` if one of them cannot be sent as UTF-8."""
    for word in argv:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise Unreachable(f"{word!a} is not UTF-8.") from None
    return argv


def _split(argv: Sequence[str]) -> tuple[dict[str, str], list[str], str]:
    """Returns vmq-admin's own options, which precede the command, the words of the command, and the output format.

    `--format` may stand anywhere.
    """
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
                    raise Unreachable(f"{name} needs a value.")
                value = todo.pop(0)
            if name == "--format":
                form = value
            else:
                options[_OPTIONS[name]] = value
        elif not words and word.startswith("-") and word not in ("-h", "--help"):
            raise Unreachable(f"Unknown option {word}; `vmq-admin --help` explains.")
        else:
            words.append(word)
    if form not in FORMATS:
        raise Unreachable(f"--format: {form!r} is none of {', '.join(FORMATS)}.")
    return options, words, form


def _client_for(options: dict[str, str]) -> NodeClient:
    """A client for the node that the options name. Raises `Unreachable` for options that exclude each other."""
    if "url" not in options:
        alone = [f"--{name.replace('_', '-')}" for name in ("api_key", "cafile") if name in options]
        if alone:
            raise Unreachable(f"{alone[0]} needs --url.")
        return _local(options)
    if "conf" in options or "data_dir" in options:
        raise Unreachable("--url names the node. It excludes --conf and --data-dir.")
    api_key = options.get("api_key", os.environ.get(API_KEY, ""))
    return HttpClient(options["url"], api_key, options.get("cafile", ""))


def _local(options: dict[str, str]) -> UnixSocketClient:
    conf = Path(options["conf"]) if "conf" in options else None
    try:
        settings = local_settings(conf, options.get("data_dir"))
    except ConfigError as error:
        raise Unreachable(str(error)) from None
    return local_client(settings)


if __name__ == "__main__":
    sys.exit(main())
