"""The compose files: each node has a volume and a host name of its own, and finds the others. Its variables are
settings, and what is mounted exists."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from strogoff.configs import load
from strogoff.configs.orchestrators import NODE
from tests.system.brokers import require_program

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
S3: dict[str, Any] = yaml.safe_load((ROOT / "compose.s3.yaml").read_text())
NODES: dict[str, Any] = {name: each for name, each in COMPOSE["services"].items() if each["image"] == "strogoff"}
PROFILES = {"five": {"node4", "node5"}, "watch": {"prometheus", "grafana"}}
MOUNTS = [
    tuple(volume.split(":"))
    for service in COMPOSE["services"].values()
    for volume in service.get("volumes", ())
    if volume.startswith("./")
]


def test_each_node_has_a_named_volume_of_its_own() -> None:
    """Data in an anonymous volume would not return to its node."""
    volumes = [volume.partition(":") for node in NODES.values() for volume in node["volumes"]]
    assert [place for _, _, place in volumes] == ["/strogoff/data"] * 5
    names = [name for name, _, _ in volumes]
    assert len(set(names)) == 5
    assert set(names) <= set(COMPOSE["volumes"])


def test_a_profile_starts_what_the_text_says() -> None:
    of_services = {name: set(service.get("profiles", ())) for name, service in COMPOSE["services"].items()}
    for profile, services in PROFILES.items():
        assert {name for name, profiles in of_services.items() if profile in profiles} == services
    without = {name for name, profiles in of_services.items() if not profiles}
    assert without == {"node1", "node2", "node3", "haproxy"}


def test_each_node_has_a_host_name_and_looks_for_the_first_three() -> None:
    """Nodes 4 and 5 come to a cluster of three: they do not count for its foundation."""
    assert {node["hostname"] for node in NODES.values()} == set(NODES)
    for node in NODES.values():
        assert node["environment"][NODE].split() == ["node1", "node2", "node3"]


def test_the_variables_of_each_node_are_settings() -> None:
    for node in NODES.values():
        settings = load(None, {name: str(value) for name, value in node["environment"].items()})
        assert settings["discovery.nodes"] == node["environment"][NODE]
        assert settings["discovery.expected_nodes"] == 3
        assert str(settings["allow_publish_during_netsplit"]) == "majority"


def test_with_s3_each_node_asks_the_bucket_and_no_names() -> None:
    assert {name for name, service in S3["services"].items() if "image" not in service} == set(NODES)
    for name, node in NODES.items():
        both = {**node["environment"], **S3["services"][name]["environment"]}
        settings = load(None, {variable: str(value) for variable, value in both.items()})
        assert not settings["discovery.nodes"]
        assert settings["discovery.expected_nodes"] == 3
        endpoint, bucket = settings["discovery.s3.endpoint"], settings["discovery.s3.bucket"]
        (maker,) = S3["services"]["bucket"]["command"]
        assert f'"{endpoint}/{bucket}"' in maker
        assert re.match(r"http://(\w+):", str(endpoint)).group(1) in S3["services"]  # type: ignore[union-attr]


def test_the_nodes_have_a_secret_that_is_not_in_the_file() -> None:
    """All nodes get the same secret from the environment; without it compose stops with this text."""
    cookies = {node["environment"]["DOCKER_VERNEMQ_DISTRIBUTED_COOKIE"] for node in NODES.values()}
    (cookie,) = cookies
    assert cookie.startswith("${STROGOFF_COOKIE:?")


def test_the_secret_gets_neither_into_git_nor_into_the_image() -> None:
    for name in (".gitignore", ".dockerignore"):
        assert {".env", "/.env"} & set((ROOT / name).read_text().split()), name


def test_the_nodes_cannot_write_to_their_image() -> None:
    for node in NODES.values():
        assert node["read_only"] is True
        assert node["cap_drop"] == ["ALL"]


def test_one_service_builds_the_image_and_none_pulls_it() -> None:
    """Docker builds an image for each service with `build`. They share the tag, so that the next `up` would replace the
    containers of all but one."""
    assert [name for name, node in NODES.items() if "build" in node] == ["node1"]
    assert {each["pull_policy"] for each in (*NODES.values(), S3["services"]["bucket"])} == {"never"}


def test_the_nodes_hear_a_signal_from_the_first_moment_on() -> None:
    """Process 1 of a container hears none before Python runs: a node that is stopped then would wait for SIGKILL."""
    assert all(node["init"] is True for node in NODES.values())


@pytest.mark.parametrize("mount", MOUNTS, ids=str)
def test_the_mounted_files_exist_and_are_read_only(mount: tuple[str, ...]) -> None:
    """If a mounted file is missing, Docker makes an empty folder in its place."""
    source, _, mode = mount
    assert (ROOT / source).is_file()
    assert mode == "ro"


def test_haproxy_sends_clients_to_each_node() -> None:
    """By the variables of deploy/haproxy/mqtt.cfg; and the ports that it binds are published."""
    haproxy = COMPOSE["services"]["haproxy"]
    assert "depends_on" not in haproxy, "podman-compose would replace HAProxy with each node, and clients lose it"
    assert haproxy["volumes"] == ["./deploy/haproxy/mqtt.cfg:/usr/local/etc/haproxy/haproxy.cfg:ro"]
    text = (ROOT / "deploy" / "haproxy" / "mqtt.cfg").read_text()
    variables = haproxy["environment"]
    assert set(variables) <= set(re.findall(r"\$\{(\w+)\}", text))
    assert {value for name, value in variables.items() if name.startswith("STROGOFF_NODE")} == set(NODES)
    binds = dict(re.findall(r"presetenv (STROGOFF_\w*BIND) (\S+)", text)) | variables
    bound = {value for name, value in binds.items() if name.endswith("BIND")}
    assert bound == {f":{port.rpartition(':')[2]}" for port in haproxy["ports"]}


def test_prometheus_asks_each_node_as_in_deploy_watching() -> None:
    """The copy for compose differs from deploy/watching/prometheus.yml in the targets only."""
    here, there = (
        yaml.safe_load((ROOT / "deploy" / folder / "prometheus.yml").read_text()) for folder in ("compose", "watching")
    )
    (job,) = here.pop("scrape_configs")
    (other,) = there.pop("scrape_configs")
    assert here == there
    assert job["job_name"] == other["job_name"]
    static = {target for each in job["static_configs"] for target in each["targets"]}
    found = {f"{name}:{each['port']}" for each in job["dns_sd_configs"] for name in each["names"]}
    assert static | found == {f"{name}:8888" for name in NODES}
    assert found == {f"{name}:8888" for name in PROFILES["five"]}


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="needs the Debian package haproxy")
def test_haproxy_accepts_its_configuration() -> None:
    command = ["haproxy", "-c", "-f", str(ROOT / "deploy" / "haproxy" / "mqtt.cfg")]
    variables = {**os.environ, **COMPOSE["services"]["haproxy"]["environment"]}
    ran = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=30)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def _make(target: str, tmp_path: Path, **variables: str) -> str:
    """What `make` would run; nothing runs."""
    require_program("make", "make")
    command = [
        "make",
        "--no-print-directory",
        "-n",
        "-f",
        str(ROOT / "Makefile"),
        target,
        *[f"{key}={text}" for key, text in variables.items()],
    ]
    environment = {**os.environ, "MAKEFLAGS": ""}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=30, check=True)
    return ran.stdout


@pytest.mark.parametrize(("engine", "compose"), [("docker", "docker compose"), ("podman", "podman-compose")])
def test_the_targets_of_make_use_docker_or_podman(engine: str, compose: str, tmp_path: Path) -> None:
    build = _make("docker-build", tmp_path, DOCKER=engine)
    assert build.startswith(f"{engine} build ")
    assert ("--format docker" in build) == (engine == "podman")  # else podman leaves the health check out
    assert f"{compose} up -d" in _make("docker-up", tmp_path, DOCKER=engine)
    assert f"COMPOSE_PROFILES={','.join(PROFILES)} {compose} down" in _make("docker-down", tmp_path, DOCKER=engine)
