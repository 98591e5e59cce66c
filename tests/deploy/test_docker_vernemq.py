"""Each variable of VerneMQ's image in a manifest changes the settings, is reported, or stops the start."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from _pytest.mark import ParameterSet

from strogoff.broker.process.container import prepare
from strogoff.configs import ConfigError, Settings, load

from .charts import POD, environment

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
