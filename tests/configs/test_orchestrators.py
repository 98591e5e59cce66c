"""Variables of Kubernetes, Swarm and compose: DNS names, or an error that names the variable to set."""

from __future__ import annotations

import pytest

from strogoff.configs import ConfigError, load
from strogoff.configs.orchestrators import discovery, from_pod, is_on, without_effect

K8S = "DOCKER_VERNEMQ_DISCOVERY_KUBERNETES"
POD = "vmq-0.vmq-headless.prod.svc.my.domain"


@pytest.mark.parametrize(
    ("environ", "nodes"),
    [
        ({}, None),
        ({"SWARM": "1"}, None),
        ({"DISCOVERY_NODE": "n1  n2"}, "n1 n2"),
        ({"DISCOVERY_NODE": "vmq0", "SWARM": "1"}, "tasks.vmq0"),
        ({"DISCOVERY_NODE": "vmq0 tasks.vmq", "SWARM": "true"}, "tasks.vmq0 tasks.vmq"),
        ({"DISCOVERY_NODE": "vmq0", "SWARM": "0"}, "vmq0"),
        ({"DISCOVERY_NODE": "vmq0", "COMPOSE": "1"}, "vmq0"),
        ({"DISCOVERY_KUBERNETES": "off"}, None),
        (
            {"DISCOVERY_KUBERNETES": "1", "KUBERNETES_SUBDOMAIN": "vmq", "KUBERNETES_NAMESPACE": "prod"},
            "vmq.prod.svc.cluster.local",
        ),
        ({"DISCOVERY_KUBERNETES": "1", "DISCOVERY_NODE": "vmq.other.svc"}, "vmq.other.svc"),
    ],
)
def test_where_others_are_looked_for(environ: dict[str, str], nodes: str | None) -> None:
    found = discovery({f"DOCKER_VERNEMQ_{name}": text for name, text in environ.items()})
    assert found.get("discovery.nodes", (None,))[0] == nodes
    assert set(found) <= {"discovery.nodes"}


def test_a_label_selector_asks_the_api_and_the_headless_service_stays_a_source() -> None:
    environ = {
        K8S: "1",
        "DOCKER_VERNEMQ_KUBERNETES_LABEL_SELECTOR": "app=vmq",
        "DOCKER_VERNEMQ_KUBERNETES_INSECURE": "1",
    }
    values = load(None, from_pod(environ, POD, ""))
    assert values["discovery.nodes"] == "vmq-headless.prod.svc.my.domain"
    assert values["discovery.kubernetes.selector"] == "app=vmq" and values["discovery.kubernetes.insecure"] is True
    assert values["discovery.kubernetes.namespace"] == "prod"
    alone = from_pod(environ, "vmq-0", "other")
    assert set(discovery(alone)) == {f"discovery.kubernetes.{key}" for key in ("selector", "namespace", "insecure")}


def test_a_pod_knows_its_headless_service_by_its_own_name() -> None:
    environ = from_pod({K8S: "1"}, POD, "other")
    assert discovery(environ) == {"discovery.nodes": ("vmq-headless.prod.svc.my.domain", K8S)}
    told = from_pod({K8S: "1", "DOCKER_VERNEMQ_KUBERNETES_SUBDOMAIN": "mine"}, POD, "")
    assert discovery(told)["discovery.nodes"][0] == "mine.prod.svc.my.domain"
    assert from_pod({"A": "b"}, POD, "prod") == {"A": "b"}


@pytest.mark.parametrize("name", ["vmq-0", "vmq-0.prod.svc.cluster.local", ""])
def test_a_missing_service_name_is_an_error_with_the_variables(name: str) -> None:
    """A node that ignored the error would found a cluster of its own."""
    with pytest.raises(ConfigError) as caught:
        load(None, from_pod({K8S: "1"}, name, "prod"))
    said = str(caught.value)
    assert f"{K8S}: the name of the headless service is missing" in said
    assert "set DOCKER_VERNEMQ_KUBERNETES_SUBDOMAIN (" in said and "DOCKER_VERNEMQ_DISCOVERY_NODE" in said
    assert "DOCKER_VERNEMQ_KUBERNETES_LABEL_SELECTOR" in said
    with pytest.raises(ValueError, match="SUBDOMAIN and DOCKER_VERNEMQ_KUBERNETES_NAMESPACE"):
        discovery({K8S: "1"})


def test_variables_without_effect_are_reported() -> None:
    environ = {"DOCKER_VERNEMQ_KUBERNETES_LABEL_SELECTOR": "app=vmq", "DOCKER_VERNEMQ_KUBERNETES_INSECURE": "1"}
    assert len(without_effect(environ)) == 2
    assert any("LABEL_SELECTOR has no effect" in notice for notice in load(None, environ).notices)
    assert len(without_effect({**environ, K8S: "1", "DOCKER_VERNEMQ_KUBERNETES_ISTIO_ENABLED": "1"})) == 1


@pytest.mark.parametrize(("text", "on"), [("1", True), ("yes", True), ("0", False), ("False", False), ("", False)])
def test_accepted_words_for_yes(text: str, on: bool) -> None:
    assert is_on({"X": text}, "X") is on


def test_other_variables_of_the_image_are_reported_in_a_container_alone() -> None:
    environ = {"API_KEY": "k", "API_KEY_SCOPE": "mgmt", "DOCKER_NET_INTERFACE": "eth0", "MY_POD_NAME": "n-0"}
    assert without_effect(environ) == []
    inside = {**environ, "DOCKER_IP_ADDRESS": "10.0.0.1", "DOCKER_VERNEMQ_NODENAME": "n"}
    assert [text.split()[0] for text in without_effect(inside)] == sorted(environ)
    assert "vmq-admin api-key add" in without_effect(inside)[0]


@pytest.mark.parametrize("name", ["KUBERNETES_NAMSPACE", "SWARMS", "COMPOSED", "DISCOVERY_NODES"])
def test_a_mistyped_variable_stops_the_start_with_its_name(name: str) -> None:
    with pytest.raises(ConfigError, match=f"DOCKER_VERNEMQ_{name}"):
        load(None, {f"DOCKER_VERNEMQ_{name}": "1"})


def test_swarm_without_a_service_and_compose_are_reported() -> None:
    said = without_effect({"DOCKER_VERNEMQ_SWARM": "1", "DOCKER_VERNEMQ_COMPOSE": "1"})
    assert [text.partition(":")[0] for text in said] == [
        "DOCKER_VERNEMQ_COMPOSE has no effect", "DOCKER_VERNEMQ_SWARM has no effect",
    ]  # fmt: skip
