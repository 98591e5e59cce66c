"""compose.yaml: each node has a volume and a host name of its own, finds the others, and its variables are settings."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from strogoff.configs import load

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
NODES: dict[str, Any] = {name: each for name, each in COMPOSE["services"].items() if each["image"] == "strogoff"}


def test_each_node_has_a_named_volume_of_its_own() -> None:
    """Data in an anonymous volume would not return to its node."""
    volumes = [volume.partition(":") for node in NODES.values() for volume in node["volumes"]]
    assert [place for _, _, place in volumes] == ["/strogoff/data"] * 3
    names = [name for name, _, _ in volumes]
    assert len(set(names)) == 3
    assert set(names) == set(COMPOSE["volumes"])


def test_each_node_has_a_host_name_and_looks_for_all_of_them() -> None:
    names = {node["hostname"] for node in NODES.values()}
    assert names == set(NODES)
    for node in NODES.values():
        assert set(node["environment"]["DOCKER_VERNEMQ_DISCOVERY_NODE"].split()) == names


def test_the_variables_of_each_node_are_settings() -> None:
    for node in NODES.values():
        settings = load(None, {name: str(value) for name, value in node["environment"].items()})
        assert settings["discovery.nodes"] == node["environment"]["DOCKER_VERNEMQ_DISCOVERY_NODE"]
        assert str(settings["allow_publish_during_netsplit"]) == "majority"


def test_the_nodes_have_a_secret_that_is_not_in_the_file() -> None:
    """All nodes get the same secret from the environment; without it compose stops with this text."""
    cookies = {node["environment"]["DOCKER_VERNEMQ_DISTRIBUTED_COOKIE"] for node in NODES.values()}
    (cookie,) = cookies
    assert cookie.startswith("${STROGOFF_COOKIE:?")


def test_haproxy_sends_clients_to_each_node() -> None:
    text = (ROOT / "configs" / "haproxy.cfg").read_text()
    assert set(re.findall(r"(?m)^ +server \S+ (\S+):1883", text)) == set(NODES)


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="needs the Debian package haproxy")
def test_haproxy_accepts_its_configuration() -> None:
    command = ["haproxy", "-c", "-f", str(ROOT / "configs" / "haproxy.cfg")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert ran.returncode == 0, ran.stdout + ran.stderr
