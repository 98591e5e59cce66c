"""Checks across settings. The messages are in test_wrong_lines.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from strogoff import configs
from strogoff.configs.checks import check

Conf = Callable[[str], configs.Settings]
TLS = "listener.{0}.a = 127.0.0.1:1\nlistener.{0}.certfile = {1}/cert.pem\nlistener.{0}.keyfile = {1}/key.pem\n"


@pytest.mark.parametrize("type_", ["ssl", "wss", "vmqs", "https"])
def test_tls_listeners_with_certificate_and_key_are_fine(conf: Conf, pem: Path, type_: str) -> None:
    assert check(conf(TLS.format(type_, pem))) == []


def test_client_certificates_need_an_authority(conf: Conf, complaint: Callable[[str], str], pem: Path) -> None:
    text = TLS.format("ssl", pem) + "listener.ssl.require_certificate = on\n"
    assert "listener.ssl.a.cafile: require_certificate = on needs CA certificates" in complaint(text)
    assert conf(text + f"listener.ssl.cafile = {pem}/ca.pem").listeners()[0].require_certificate


def test_files_are_checked_only_if_a_listener_uses_them(conf: Conf) -> None:
    assert conf("listener.ssl.certfile = /none/cert.pem\nlistener.ssl.a.cafile = /none/ca.pem").listeners() == []


def test_a_file_that_may_not_be_read_is_a_problem(complaint: Callable[[str], str], pem: Path, tmp_path: Path) -> None:
    text = TLS.format("ssl", pem) + f"listener.ssl.a.crlfile = {pem}/cert.pem\nlistener.ssl.a.cafile = {tmp_path}"
    message = complaint(text)
    assert "listener.ssl.a.crlfile: the file holds no revocation list in PEM form" in message
    assert "listener.ssl.a.cafile: this is no regular file" in message


def test_a_problem_of_a_type_is_reported_once_for_all_of_its_listeners(
    complaint: Callable[[str], str], pem: Path
) -> None:
    text = TLS.format("ssl", pem) + "listener.ssl.b = 127.0.0.1:2\nlistener.ssl.crlfile = /none.pem"
    assert complaint(text).startswith("1 problem in the configuration:")


def test_several_listeners_may_ask_for_any_free_port(conf: Conf) -> None:
    assert len(conf("listener.tcp.a = 127.0.0.1:0\nlistener.tcp.b = 127.0.0.1:0").listeners()) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("127.0.0.1:21883", "0.0.0.0:21883"),
        ("0.0.0.0:21883", "10.0.0.1:21883"),
        ("[::]:21883", "[::1]:21883"),
        ("[::1]:21883", "[0:0:0:0:0:0:0:1]:21883"),
    ],
)
def test_an_address_that_contains_another_one_has_its_port(
    complaint: Callable[[str], str], one: str, other: str
) -> None:
    message = complaint(f"listener.tcp.a = {one}\nlistener.tcp.b = {other}")
    assert "listener.tcp.b: listener.tcp.a has " in message


@pytest.mark.parametrize(
    ("one", "other"),
    [("127.0.0.1:1", "0.0.0.0:2"), ("127.0.0.1:1", "127.0.0.2:1"), ("0.0.0.0:1", "[::1]:1"), ("0.0.0.0:0", "[::]:0")],
)
def test_addresses_that_do_not_overlap(conf: Conf, one: str, other: str) -> None:
    assert len(conf(f"listener.tcp.a = {one}\nlistener.tcp.b = {other}").listeners()) == 2


def test_the_listeners_for_nodes_may_have_one_port_because_one_of_them_is_opened(
    conf: Conf, complaint: Callable[[str], str], pem: Path
) -> None:
    secure = TLS.format("vmqs", pem).replace("127.0.0.1:1", "0.0.0.0:44053")
    plain = "listener.vmq.a = 127.0.0.1:44053"
    assert [each.type for each in conf(f"{secure}{plain}").listeners()] == ["vmqs", "vmq"]
    assert "this port at" in complaint(f"{secure}listener.tcp.a = 127.0.0.1:44053")


def test_a_plugin_that_is_off_cannot_be_named(complaint: Callable[[str], str]) -> None:
    text = "plugins.vmq_acl = off\nplugins.vmq_passwd = off\nlistener.tcp.a = 127.0.0.1:1\n"
    message = complaint(text + "listener.tcp.a.auth_plugins = vmq_acl")
    assert "expected an enabled plugin, and there is none" in message
