"""What `strogoff config check` says of a file with which a node would not start."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from strogoff.broker.plugins.passwords import hashed
from strogoff.broker.process.start_checks import what_stops
from strogoff.cli import main
from strogoff.configs import load

from ...harness.listeners import Authority

RULES = "topic #\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with an ACL file and a password file at their usual places."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "vmq.acl").write_text(RULES)
    (tmp_path / "etc" / "vmq.passwd").write_text(f"alice:{hashed(b'secret', b'salt')}\n")
    monkeypatch.chdir(tmp_path)


def said_of(**settings: str) -> tuple[list[str], list[str]]:
    """Returns the problems and the warnings."""
    warnings: list[str] = []
    wanted = {name.replace("__", "."): value for name, value in settings.items()}
    problems = list(what_stops(load(None, {}, wanted), lambda _, text: warnings.append(text)))
    return problems, warnings


def test_settings_with_which_a_node_starts_have_no_problems(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    of_clients = {f"listener__ssl__{name}": getattr(authority, name) for name in ("certfile", "keyfile")}
    of_nodes = {f"listener__vmqs__{name}": getattr(authority, name) for name in ("certfile", "keyfile", "cafile")}
    listeners = {"listener__ssl__a": "0.0.0.0:8883", "listener__vmqs__b": "0.0.0.0:44053"}
    assert said_of(**listeners, **of_clients, **of_nodes, distributed_cookie="5f0c9a3e7b1d2468") == ([], [])


def test_the_command_names_all_that_stops_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The cookie that everybody knows, the rules, and the passwords: each line is that of the start."""
    path = tmp_path / "vernemq.conf"
    path.write_text("listener.vmq.clustering = 0.0.0.0:44053\n")
    (tmp_path / "etc" / "vmq.acl").write_text("topic ok\nnonsense\n")
    (tmp_path / "etc" / "vmq.passwd").write_bytes(b"\xff")
    assert main(["config", "check", str(path)]) == 1
    head, passwords, rules, cookie = capsys.readouterr().out.splitlines()
    assert head == "3 problems in the configuration:"
    assert passwords == f"  {path}: vmq_passwd.password_file: etc/vmq.passwd: not UTF-8 at byte 0"
    assert rules.startswith(f"  {path}: vmq_acl.acl_file: etc/vmq.acl:2: ")
    assert cookie.startswith(f"  {path}: listener.vmq.clustering = 0.0.0.0:44053 can be reached from other machines")
    assert "set your own distributed_cookie" in cookie
    path.write_text("listener.vmq.clustering = 127.0.0.1:44053\nplugins.vmq_acl = off\nplugins.vmq_passwd = off\n")
    assert main(["config", "check", str(path)]) == 0


@pytest.mark.parametrize("kind", ["ssl", "wss", "https", "vmqs"])
def test_a_key_must_be_that_of_the_certificate(tmp_path: Path, kind: str) -> None:
    (tmp_path / "other").mkdir()
    mine, other = Authority(tmp_path), Authority(tmp_path / "other")
    files = {"certfile": mine.certfile, "keyfile": other.keyfile, "cafile": mine.cafile}
    options = {f"listener__{kind}__a__{name}": value for name, value in files.items()}
    (problem,), _ = said_of(**{f"listener__{kind}__a": "127.0.0.1:1"}, **options)
    name = "listener.vmqs" if kind == "vmqs" else f"listener.{kind}.a"
    assert problem == f"{name}: keyfile: {other.keyfile}: not the key of the certificate {mine.certfile}"


def test_an_encrypted_key_needs_its_password(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    key = serialization.load_pem_private_key(Path(authority.keyfile).read_bytes(), None)
    cipher = serialization.BestAvailableEncryption(b"secret")
    Path(authority.keyfile).write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, cipher)
    )
    given = {
        "listener__ssl__a": "127.0.0.1:1",
        "listener__ssl__certfile": authority.certfile,
        "listener__ssl__keyfile": authority.keyfile,
    }
    (problem,), _ = said_of(**given)
    assert problem == f"listener.ssl.a: keyfile: {authority.keyfile}: the key is encrypted and keypasswd is not set"
    assert said_of(**given, listener__ssl__keypasswd="secret") == ([], [])


def test_a_missing_file_causes_the_warning_of_the_start(tmp_path: Path) -> None:
    """A node starts without the files, which count as empty."""
    problems, (passwords, rules) = said_of(vmq_passwd__password_file="none", vmq_acl__acl_file="none")
    assert problems == []
    assert passwords.startswith(f"vmq_passwd.password_file: there is no {tmp_path / 'none'}: no client can log in")
    assert rules.startswith(f"vmq_acl.acl_file: there is no {tmp_path / 'none'}: no client may publish")
