"""The password file: the hash of VerneMQ and mosquitto, malformed lines, and changes of the file."""

from __future__ import annotations

import shutil
import subprocess
from hashlib import sha512
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.broker.plugins import passwords
from strogoff.broker.plugins.hooks import NEXT, Allow, Answer, Hooks, Refuse, Subscriber
from strogoff.broker.plugins.passwords import (
    PasswordPlugin,
    check_name,
    hashed,
    parse_passwords,
    upgraded,
    with_user,
    without_user,
)
from strogoff.broker.plugins.reloader import LineError, Stamp

SALT = b"twelve bytes"
PEER = ("127.0.0.1", 4711)
ME = Subscriber("", "c")
NAMES = st.text(min_size=1).filter(lambda name: not name.startswith("#") and not set(name) & set(":\r\n\0"))


def plugin(text: str) -> PasswordPlugin:
    made = PasswordPlugin()
    assert made.reloader.take("vmq.passwd", Stamp(1, 1, 1), text), made.reloader.problem
    return made


def ask(made: PasswordPlugin, user: str | None, password: bytes | str | None) -> Answer:
    return made.auth_on_register(PEER, ME, user, password, True)


def test_the_hash_is_sha512_of_password_and_salt_in_base64() -> None:
    # printf 'secrettwelve bytes' | openssl dgst -sha512 -binary | base64 -w0
    assert hashed(b"secret", SALT) == (
        "$6$dHdlbHZlIGJ5dGVz$oVMYq+bpyGSukllfY8G/BwgLqTIAw9BrXgAOPSc8vg1V/thNI/ExEbZhTQHqP/DIk0w9bWIDUve2ZYQQLGvYUw=="
    )


@pytest.mark.skipif(shutil.which("mosquitto_passwd") is None, reason="mosquitto_passwd is not installed")
@pytest.mark.parametrize("password", ["secret", "pässwörd $:#", "x" * 200])
def test_a_file_made_by_mosquitto_passwd(tmp_path: Path, password: str) -> None:
    path = tmp_path / "passwd"
    for user in ("ann", "bob"):
        create = ["-c"] if user == "ann" else []
        subprocess.run(["mosquitto_passwd", "-H", "sha512", *create, "-b", path, user, password], check=True)
    made = plugin(path.read_text())
    assert ask(made, "bob", password.encode()) == Allow()
    assert ask(made, "bob", password.encode() + b"x") == Refuse("invalid_credentials")


def test_the_plugin_decides_for_its_users_only() -> None:
    made = plugin(f"# staff\n\nann:{hashed(b'secret', SALT)}\r\nbob:{hashed(b'', SALT)}\n")
    assert ask(made, "ann", b"secret") == Allow()
    assert ask(made, "ann", "secret") == Allow()
    assert ask(made, "ann", b"Secret") == Refuse("invalid_credentials")
    assert ask(made, "bob", b"") == Allow()
    for user, password in (("carl", b"secret"), (None, b"secret"), ("ann", None), (None, None)):
        assert ask(made, user, password) is NEXT


def test_both_forms_of_the_hook() -> None:
    h = Hooks()
    h.add("vmq_passwd", plugin(f"ann:{hashed(b'secret', SALT)}"))
    assert h.ask("auth_on_register", PEER, ME, "ann", b"secret", True) == Allow()
    assert h.ask("auth_on_register_m5", PEER, ME, "ann", b"wrong", True, {}) == Refuse("invalid_credentials")
    assert h.ask("auth_on_register_m5", PEER, ME, "eve", b"wrong", True, {}) == Refuse("plugin_chain_exhausted")


def test_a_plain_password_with_dollar_signs_is_not_shown() -> None:
    """It looks like a hash of the kind `uper`."""
    with pytest.raises(LineError, match="hashes of this kind are not supported") as error:
        parse_passwords("dave:$uper$ecret")
    assert "uper" not in str(error.value)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("ann", "not of the form name:hash"),
        (":$6$a$b", "not of the form name:hash"),
        ("ann:secret", "no hash after the name; `vmq-passwd -U FILE`"),
        ("ann:$7$101$salt$hash", r"kind \$7\$ are not supported, only \$6\$"),
        ("ann:$6$salt", "not of the form name:"),
        ("ann:$6$c2FsdA==$!!!!", "not base64"),
        ("ann:$6$c2FsdÄ==$aGFzaA==", "not base64"),
        ("ann:$6$c2FsdA==$aGFzaA==", "the hash has 4 bytes"),
    ],
)
def test_a_line_that_is_none_is_named_and_the_old_users_stay(line: str, text: str) -> None:
    made = plugin(f"ann:{hashed(b'secret', SALT)}")
    with pytest.raises(LineError, match=text):
        parse_passwords(line)
    assert not made.reloader.take("/etc/vmq.passwd", Stamp(2, 2, 2), f"\nbob:{hashed(b'x', SALT)}\n{line}\n")
    assert made.reloader.problem.startswith("/etc/vmq.passwd:3: ")
    assert ask(made, "ann", b"secret") == Allow()
    assert ask(made, "bob", b"x") is NEXT


@given(NAMES, st.binary(), st.binary(min_size=1, max_size=20))
def test_every_name_and_password_survives_the_file(name: str, password: bytes, salt: bytes) -> None:
    check_name(name)
    text = with_user("# first\n", name, hashed(password, salt))
    if name.strip():
        assert parse_passwords(text)[name].fits(password)


@pytest.mark.parametrize("name", ["", "#ann", "a:b", "a\nb", "a\0"])
def test_names_that_the_file_cannot_contain(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be a user name"):
        check_name(name)


def test_changing_a_file_leaves_the_other_lines_alone() -> None:
    text = "# staff\nann:old\n\nbobby:x\nann:older"
    assert with_user(text, "ann", "new") == "# staff\nann:new\n\nbobby:x\n"
    assert with_user(text, "bob", "new") == "# staff\nann:old\n\nbobby:x\nann:older\nbob:new\n"
    assert with_user("", "bob", "new") == "bob:new\n"
    assert without_user(text, "ann") == ("# staff\n\nbobby:x\n", True)
    assert without_user("ann:x\n", "an") == ("ann:x\n", False)
    assert without_user("ann:x\n", "ann") == ("", True)


def test_upgrade_hashes_plain_passwords_only() -> None:
    done = f"ann:{hashed(b'secret', SALT)}"
    text, changed = upgraded(f"# staff\n{done}\nbob:se:cret\r\n\ncarl:$7$x", lambda password: hashed(password, SALT))
    assert changed == 2
    assert text.split("\n")[:2] == ["# staff", done]
    users = parse_passwords(text)
    assert users["bob"].fits(b"se:cret")
    assert users["carl"].fits(b"$7$x")
    with pytest.raises(LineError, match="line 2: not of the form name:password"):
        upgraded("bob:x\nann\n", lambda password: "")
    with pytest.raises(LineError, match="not of the form name:"):
        upgraded("bob:$6$half\n", lambda password: "")


def test_an_unknown_user_takes_as_much_time_as_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time does not reveal which user names exist: both cases compare a hash of the same length."""
    made = plugin(f"ann:{hashed(b'secret', SALT)}")
    worked: list[int] = []
    real = sha512

    def counted(data: bytes) -> object:
        worked.append(len(data))
        return real(data)

    monkeypatch.setattr(passwords, "sha512", counted)
    assert ask(made, "ann", b"wrong") == Refuse("invalid_credentials")
    assert ask(made, "bob", b"wrong") is NEXT
    assert worked == [len(b"wrong") + len(SALT)] * 2
    assert ask(made, "bob", b"") is NEXT and ask(made, "bob", bytes(64)) is NEXT
