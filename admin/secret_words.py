"""Hides keys and passwords in a command line: for the log, and for answers to a command line that is wrong."""

from __future__ import annotations

from collections.abc import Sequence

from ..configs.secret_keys import is_secret
from .render import escape_unprintable

HIDDEN = "(hidden)"
_PLAIN_WORDS = ("create", "add", "delete", "show", "--help", "-h")
_PLAIN_ARGUMENTS = ("scope", "expires")


def redacted(words: Sequence[str]) -> str:
    """The command line as one line for the log, with secrets hidden."""
    return " ".join(shown(words))


def shown(words: Sequence[str]) -> list[str]:
    """The words of a command line without unprintable characters, and with secrets hidden.

    Of `api-key` everything is hidden that may be a key, because an operator may leave out `key=`. Of other commands the
    value of each argument and flag is hidden whose name is that of a secret, also if it is spelled wrong.
    """
    if words and _letters(words[0]) == "apikey":
        return [escape_unprintable(words[0]), *map(_word_of_api_key, words[1:])]
    found: list[str] = []
    before = ""
    for word in words:
        name, equals, _ = word.partition("=")
        if equals and _names_a_secret(words[0], name):
            found.append(f"{escape_unprintable(name)}={HIDDEN}")
        elif before and "=" not in before and _names_a_secret(words[0], before):
            found.append(HIDDEN)
        else:
            found.append(escape_unprintable(word))
        before = word
    return found


def _word_of_api_key(word: str) -> str:
    name, equals, _ = word.partition("=")
    if word in _PLAIN_WORDS or (equals and _letters(name) in _PLAIN_ARGUMENTS):
        return escape_unprintable(word)
    return f"{name}={HIDDEN}" if equals and _letters(name) == "key" else HIDDEN


def _names_a_secret(command: str, name: str) -> bool:
    if is_secret(name.lower()):
        return True
    if command == "set":
        return False  # its names are keys of the configuration, and `is_secret` knows these
    letters = _letters(name)
    # the flag `--key` of `config` names a key of the configuration
    return "passw" in letters or "secret" in letters or (letters in ("key", "apikey") and command != "config")


def _letters(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()
