"""DOCKER_VERNEMQ_* variables."""

from __future__ import annotations

import pytest

from strogoff import configs
from strogoff.configs.environment import END, START, conf_text, from_environment


@pytest.mark.parametrize(
    ("variable", "text", "key", "value"),
    [
        ("DOCKER_VERNEMQ_ALLOW_ANONYMOUS", "on", "allow_anonymous", "on"),
        ("DOCKER_VERNEMQ_PLUGINS__VMQ_ACL", "off", "plugins.vmq_acl", "off"),
        ("DOCKER_VERNEMQ_VMQ_PASSWD__PASSWORD_FILE", "/x", "vmq_passwd.password_file", "/x"),
        ("DOCKER_VERNEMQ_LISTENER__TCP__MINE", "10.0.0.1:5", "listener.tcp.mine", "10.0.0.1:5"),
        ("DOCKER_VERNEMQ_LISTENER__TCP__MINE", "true", "listener.tcp.mine", "0.0.0.0:1884"),
        ("DOCKER_VERNEMQ_LISTENER__WS__MINE__PORT", "9001", "listener.ws.mine", "0.0.0.0:9001"),
        ("DOCKER_VERNEMQ_LISTENER__SSL__REQUIRE_CERTIFICATE", "true", "listener.ssl.require_certificate", "true"),
        ("DOCKER_VERNEMQ_LISTENER__SSL__USE_IDENTITY_AS_USERNAME", "on", "listener.ssl.use_identity_as_username", "on"),
        ("DOCKER_VERNEMQ_NODENAME", "host.example", "nodename", "VerneMQ@host.example"),
        ("DOCKER_VERNEMQ_NODENAME", "mine@host", "nodename", "mine@host"),
        ("DOCKER_VERNEMQ_LOG__CONSOLE__LEVEL", " debug ", "log.console.level", "debug"),
        ("DOCKER_VERNEMQ_SYSTREE_MOUNTPOINT", "'a#b'", "systree_mountpoint", "a#b"),
        ("DOCKER_VERNEMQ_SYSTREE_MOUNTPOINT", "a#b", "systree_mountpoint", "a#b"),
    ],
)
def test_a_variable_is_a_key(variable: str, text: str, key: str, value: str) -> None:
    assert from_environment({variable: text}).values == {key: (value, variable)}


@pytest.mark.parametrize(
    "variable",
    [
        "HOME",
        "VERNEMQ_QUEUE_TYPE",
        "DOCKER_VERNEMQ_ACCEPT_EULA",
        "DOCKER_VERNEMQ_KUBERNETES_NAMESPACE",
        "DOCKER_VERNEMQ_SWARM",
        "DOCKER_VERNEMQ_COMPOSE",
        "DOCKER_NET_INTERFACE",
    ],
)
def test_other_variables_are_no_keys(variable: str) -> None:
    assert from_environment({variable: "1"}).values == {}


def test_users_are_for_the_password_file() -> None:
    found = from_environment({"DOCKER_VERNEMQ_USER_ALICE": " secret ", "DOCKER_VERNEMQ_USER_BOB": "x=y"})
    assert found.users == {"alice": " secret ", "bob": "x=y"}
    assert found.values == {}


def test_listeners_get_ports_in_turn_and_explicit_ports_are_kept() -> None:
    environ = {
        "DOCKER_IP_ADDRESS": "10.0.0.9",
        "DOCKER_VERNEMQ_LISTENER__TCP__A": "true",
        "DOCKER_VERNEMQ_LISTENER__TCP__B": "true",
        "DOCKER_VERNEMQ_LISTENER__TCP__B__PORT": "2000",
        "DOCKER_VERNEMQ_LISTENER__WS__C": "true",
    }
    addresses = {each.key: each.address for each in configs.load(None, environ).listeners()}
    assert addresses == {
        "listener.tcp.a": "10.0.0.9:1884",
        "listener.tcp.b": "10.0.0.9:2000",
        "listener.ws.c": "10.0.0.9:1885",
        "listener.tcp.default": "10.0.0.9:1883",
        "listener.ws.default": "10.0.0.9:8080",
        "listener.http.metrics": "10.0.0.9:8888",
        "listener.vmq.clustering": "10.0.0.9:44053",
    }


def test_default_listeners_are_on_the_address_of_the_container_unless_overridden() -> None:
    environ = {"DOCKER_IP_ADDRESS": "fd00::1", "DOCKER_VERNEMQ_LISTENER__WS__DEFAULT": "127.0.0.1:80"}
    loaded = configs.load(None, environ)
    assert {each.key: each.address for each in loaded.listeners()} == {
        "listener.ws.default": "127.0.0.1:80",
        "listener.tcp.default": "[fd00::1]:1883",
        "listener.http.metrics": "[fd00::1]:8888",
        "listener.vmq.clustering": "[fd00::1]:44053",
    }
    assert loaded.source("listener.tcp.default") == "environment"


def test_without_an_address_no_listener_is_added() -> None:
    assert configs.load(None, {"DOCKER_VERNEMQ_ALLOW_ANONYMOUS": "on"}).listeners() == []


def test_a_local_conf_replaces_everything() -> None:
    local = "listener.tcp.default = ###IPADDRESS###:1883\n"
    environ = {"DOCKER_IP_ADDRESS": "10.0.0.9", "DOCKER_VERNEMQ_QUEUE_TYPE": "lifo"}
    assert conf_text("queue_type = fifo\n", local, environ) == "listener.tcp.default = 10.0.0.9:1883\n"


def test_lines_of_the_environment_replace_those_of_an_earlier_start() -> None:
    once = conf_text("queue_type = fifo", None, {"DOCKER_VERNEMQ_QUEUE_TYPE": "lifo"})
    assert once == f"queue_type = fifo\n{START}\nqueue_type = lifo\n{END}\n"
    again = conf_text(once, None, {"DOCKER_VERNEMQ_LOGGING__OBFUSCATION_SECRET": "a#b"})
    assert again == f"queue_type = fifo\n{START}\nlogging.obfuscation_secret = 'a#b'\n{END}\n"


def test_the_discovery_node_is_where_others_are_looked_for() -> None:
    found = from_environment({"DOCKER_VERNEMQ_DISCOVERY_NODE": "strogoff"})
    assert found.values["discovery.nodes"] == ("strogoff", "DOCKER_VERNEMQ_DISCOVERY_NODE")
