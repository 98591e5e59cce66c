"""Each variable of VerneMQ's image in a manifest changes the settings, is reported, or stops the start."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest
import yaml
from _pytest.mark import ParameterSet

from strogoff.broker.process.container import prepare
from strogoff.configs import ConfigError, Settings, load

from .charts import DOCKERFILE, POD, environment, place

MANIFEST = yaml.safe_load((Path(__file__).parent / "docker_vernemq.yaml").read_text())
CONTAINERS = [environment(each, POD) for each in MANIFEST["spec"]["template"]["spec"]["containers"]]
NOTHING_TO_DO = "DOCKER_VERNEMQ_ACCEPT_EULA"
"""There is no licence to accept."""


def start(home: Path, environ: dict[str, str]) -> Settings | str:
    """The settings of a container with these variables, or why it does not start."""
    home.mkdir()
    (home / "etc").mkdir()
    try:
        return load(*prepare(environ, home))
    except ConfigError as error:
        return str(error)


def outcome(home: Path, environ: dict[str, str]) -> object:
    """What a start with these variables results in: all settings, listeners, users and warnings, or the error."""
    found = start(home, environ)
    if isinstance(found, str):
        return found
    home_free = {key: str(found[key]).replace(str(home), "HOME") for key in found}
    users = home / "etc" / "vmq.passwd"
    names = [line.partition(":")[0] for line in users.read_text().splitlines()] if users.exists() else []
    return home_free, sorted(str(each.address) for each in found.listeners()), names, sorted(found.notices)


def _cases() -> list[ParameterSet]:
    """Each variable of each container; and variables alone, which have an effect or are right in the manifest."""
    alone = ("DOCKER_VERNEMQ_KUBERNETES_NAMSPACE", "DOCKER_VERNEMQ_SWARM", "DOCKER_VERNEMQ_QUEUE_TYP")
    cases = [("manifest", each, name) for each in CONTAINERS for name in each if name != NOTHING_TO_DO]
    cases += [("alone", {name: "1"}, name) for name in alone]
    return [pytest.param(variables, name, id=f"{name}-{where}") for where, variables, name in cases]


@pytest.mark.parametrize(("variables", "variable"), _cases())
def test_a_variable_has_an_effect_or_is_reported(tmp_path: Path, variables: dict[str, str], variable: str) -> None:
    without = {name: text for name, text in variables.items() if name != variable}
    assert outcome(tmp_path / "a", variables) != outcome(tmp_path / "b", without)


def test_the_manifest_has_every_variable_and_starts(tmp_path: Path) -> None:
    found = start(tmp_path / "home", CONTAINERS[0])
    assert not isinstance(found, str), found
    assert found["discovery.nodes"] == "vernemq-headless.prod.svc.k8s.example"
    assert found["nodename"] == "VerneMQ@vernemq-0.example"
    assert len(CONTAINERS[0]) > 30


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("DOCKER_VERNEMQ_QUEUE_TYP", "fifo"),
        ("DOCKER_VERNEMQ_MAX_INFLIGHT_MESSAGES", "many"),
        ("DOCKER_VERNEMQ_KUBERNETES_SUBDOMAIN", ""),
    ],
)
def test_a_wrong_variable_stops_the_start_with_its_name(tmp_path: Path, variable: str, text: str) -> None:
    without = {
        name: value for name, value in CONTAINERS[0].items() if name != "DOCKER_VERNEMQ_KUBERNETES_LABEL_SELECTOR"
    }
    said = start(tmp_path / "home", {**without, variable: text})
    assert isinstance(said, str) and variable in said


OF_VERNEMQ = ("/vernemq/data", "/vernemq/log", "/vernemq/etc", "/var/lib/vernemq", "/var/log/vernemq", "/etc/vernemq")
"""The folders of VerneMQ's image, which has links to them as its packages do."""


def test_the_listener_that_every_pod_of_the_chart_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chart opens a listener on 127.0.0.1:1883, for port forwarding. The listener of the image, which has the same
    port, then listens on the address of the pod alone."""
    monkeypatch.setattr(socket, "gethostbyname", lambda _: "10.1.2.3")
    localhost = {"DOCKER_VERNEMQ_LISTENER__TCP__LOCALHOST": "127.0.0.1:1883"}
    found = start(tmp_path / "home", localhost)
    assert not isinstance(found, str), found
    addresses = {each.key: each.address for each in found.listeners()}
    assert addresses["listener.tcp.localhost"] == "127.0.0.1:1883"
    assert addresses["listener.tcp.default"] == "10.1.2.3:1883"
    assert addresses["listener.ws.default"] == "0.0.0.0:8080"
    assert [each for each in found.notices if "listener.tcp.default listens on 10.1.2.3:1883 alone" in each]


def test_the_image_has_the_folders_of_vernemq() -> None:
    """Else a volume from a manifest of VerneMQ would be mounted beside the data of the node."""
    assert {place(path) for path in OF_VERNEMQ} == {"/strogoff/data", "/strogoff/log", "/strogoff/etc"}
    mounts = [each["mountPath"] for each in MANIFEST["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]]
    assert {place(path) for path in mounts} == {"/strogoff/data", "/strogoff/log", "/strogoff/etc/vmq.acl"}


def test_no_volume_of_the_image_covers_a_mounted_one() -> None:
    """The runtime compares the paths of volumes as texts, so a mount at another path of the same folder does not
    replace the volume of the image. containerd mounts that one last; with Docker the order is random.
    """
    volumes = {path for each in re.findall(r"^VOLUME (.*)$", DOCKERFILE, re.MULTILINE) for path in json.loads(each)}
    paths = [*OF_VERNEMQ, "/strogoff/data", "/strogoff/log", "/strogoff/etc"]
    assert [path for path in paths if place(path) in {place(each) for each in volumes - {path}}] == []
