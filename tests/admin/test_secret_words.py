"""Keys and passwords in command lines are hidden."""

from __future__ import annotations

import pytest

from strogoff.admin.secret_words import redacted


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("api-key delete topsecret", "api-key delete (hidden)"),
        ("api-key delete topsecret=", "api-key delete (hidden)"),
        ("api-key add --key=topsecret scope=mgmt", "api-key add --key=(hidden) scope=mgmt"),
        (
            "api-key add KEY=topsecret expires=2030-01-01T00:00:00",
            "api-key add KEY=(hidden) expires=2030-01-01T00:00:00",
        ),
        ("api-key add kye=topsecret", "api-key add (hidden)"),
        ("api-key add --key topsecret", "api-key add (hidden) (hidden)"),
        ("api_key topsecret delete", "api_key (hidden) delete"),
        ("api-key show scope=mgmt", "api-key show scope=mgmt"),
        ("listener start port=1 --keypasswd=topsecret --ssl", "listener start port=1 --keypasswd=(hidden) --ssl"),
        ("listener start --ssl --keypasswd topsecret", "listener start --ssl --keypasswd (hidden)"),
        ("listener start keypasswd=topsecret", "listener start keypasswd=(hidden)"),
        ("listener start --key-passwd=topsecret", "listener start --key-passwd=(hidden)"),
        ("listener start --Key_Password topsecret", "listener start --Key_Password (hidden)"),
        ("listener start --client-secret=topsecret", "listener start --client-secret=(hidden)"),
        ("cluster join --api-key=topsecret", "cluster join --api-key=(hidden)"),
        ("cluster join key=topsecret", "cluster join key=(hidden)"),
        ("set listener.ssl.mine.keypasswd=topsecret --all", "set listener.ssl.mine.keypasswd=(hidden) --all"),
        ("set listener.ssl.mine.keypasswd topsecret", "set listener.ssl.mine.keypasswd (hidden)"),
        ("set Distributed_Cookie=topsecret", "set Distributed_Cookie=(hidden)"),
    ],
)
def test_secrets_are_hidden(words: str, line: str) -> None:
    assert redacted(words.split()) == line


@pytest.mark.parametrize(
    "line",
    [
        "config show --key=listener",
        "config reset -k listener",
        "set vmq_passwd.password_reload_interval=5",
        "listener start --keyfile=key.pem --ssl",
        "session disconnect client-id=secret",
    ],
)
def test_everything_else_is_shown(line: str) -> None:
    assert redacted(line.split()) == line


def test_a_word_stays_on_its_line() -> None:
    """A client id cannot begin a line of its own in the log, nor can the name of an argument."""
    assert redacted(["session", "disconnect", "client-id=a\n[ERROR] b"]) == "session disconnect client-id=a\\n[ERROR] b"
    assert redacted(["x", "passw\n=b"]) == "x passw\\n=(hidden)"
    assert redacted([]) == ""
