"""The chart of deploy/helm: what Helm makes of it is valid for Kubernetes, fits together, and is what a node needs."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from deploy.helm.render import CHART, RenderError, main
from strogoff import __version__
from strogoff.admin.http_pages import MODULES
from strogoff.configs import load

from .charts import (
    COOKIE,
    Manifest,
    chart,
    committed,
    environment,
    node_of,
    only,
    pod_of,
    require_helm,
    settings_of,
)

HA_CONF = Path(__file__).parents[2] / "configs" / "ha.conf"
PAGE = Path(__file__).parents[2] / "docs" / "kubernetes.md"
EVERYTHING = (
    "tls.clients.secretName=certs",
    "tls.clients.requireCertificate=true",
    "tls.nodes.secretName=nodes",
    "tls.nodes.certificateName=nodes.mqtt.example",
    "users.passwordFile=alice:hash",
    "zone.source=api",
    "networkPolicy.enabled=true",
    "serviceMonitor.enabled=true",
    "prometheusRule.enabled=true",
    "services.mqtts.type=LoadBalancer",
    "services.mqtts.externalTrafficPolicy=Local",
    "services.mqtts.annotations.a=b",
    "services.metrics.type=NodePort",
    "services.metrics.nodePort=30888",
    "commonLabels.team=iot",
    "commonAnnotations.owner=me",
    "podAnnotations.p=q",
    "podLabels.r=s",
    "imagePullSecrets[0]=registry",
    "extraEnv[0].name=TZ",
    "extraEnv[0].value=UTC",
    "tolerations[0].operator=Exists",
    "nodeSelector.disk=ssd",
    "priorityClassName=high",
    "persistence.storageClass=fast",
    "persistence.annotations.c=d",
)
VARIANTS: dict[str, tuple[str, ...]] = {
    "defaults": (),
    "everything": EVERYTHING,
    "a single node without a volume": (
        "replicaCount=1",
        "persistence.enabled=false",
        "antiAffinity=none",
        "spreadOverZones=false",
        "podDisruptionBudget.enabled=false",
        "serviceAccount.create=false",
        "preStopSeconds=0",
    ),
    "five nodes": ("replicaCount=5", "antiAffinity=soft", "zone.source=machine", "cookie.value=0123456789abcdef"),
    "only TLS": ("listeners.mqtt=false", "listeners.websocket=false", "tls.clients.secretName=certs"),
    "IPv6": ("listenAddress=::", "zone.source=none"),
}
SETTINGS = re.compile(r"`(?:--set '?)?((?:[a-z]\w+\.)+[^`= ]+=[^`' ]+)'?`")
"""A value in the text of the page, such as `a.b=c`."""
NO_SCHEMA = {"ServiceMonitor", "PrometheusRule"}
"""Kinds of the Prometheus operator, of which Kubernetes has no schema."""


@pytest.fixture
def validate() -> Any:
    """The module kubernetes_validate, or a skip that says how to get it."""
    try:
        return importlib.import_module("kubernetes_validate")
    except ImportError:
        assert not os.environ.get("STROGOFF_NO_SKIP"), "kubernetes_validate is missing (make deploy-tools)"
        pytest.skip("kubernetes_validate is not installed (make deploy-tools)")


def test_the_manifests_are_those_of_the_chart() -> None:
    """Rewrite them with `make manifests`."""
    require_helm()
    assert main(["--check"]) == 0


def test_stale_manifests_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_helm()
    copy = tmp_path / "strogoff.yaml"
    monkeypatch.setattr("deploy.helm.render.MANIFESTS", copy)
    assert main(["--check"]) == 1
    assert main([]) == 0 == main(["--check"])
    copy.write_text(copy.read_text().replace("replicas: 3", "replicas: 4"))
    assert main(["--check"]) == 1
    assert main(["--wrong"]) == 2


@pytest.mark.parametrize("version", ["1.25", "newest"])
def test_the_committed_manifests_are_valid(validate: Any, version: str) -> None:
    for each in committed():
        validate.validate(each, validate.latest_version() if version == "newest" else version, strict=True)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_is_valid(validate: Any, variant: str) -> None:
    """For the oldest version that the chart allows; all options together also for the newest one."""
    found = chart(*VARIANTS[variant])
    versions = ["1.25", *([validate.latest_version()] if variant == "everything" else [])]
    for each in found:
        for version in versions if each["kind"] not in NO_SCHEMA else ():
            validate.validate(each, version, strict=True)
    names = [(each["kind"], each["metadata"]["name"]) for each in found]
    assert len(set(names)) == len(names)


def test_the_validator_finds_a_wrong_field(validate: Any) -> None:
    wrong = only(committed(), "StatefulSet")
    wrong["spec"]["podManagmentPolicy"] = "Parallel"
    with pytest.raises(validate.ValidationError):
        validate.validate(wrong, "1.25", strict=True)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_node_starts_with_the_settings_of_a_pod(tmp_path: Path, variant: str) -> None:
    """Each key and each variable is known, and has an allowed value."""
    for folder in ("tls", "nodes-tls"):
        authority = trustme.CA()
        (tmp_path / folder).mkdir()
        certificate = authority.issue_cert("nodes.mqtt.example")
        authority.cert_pem.write_to_path(str(tmp_path / folder / "ca.crt"))
        certificate.private_key_pem.write_to_path(str(tmp_path / folder / "tls.key"))
        certificate.cert_chain_pems[0].write_to_path(str(tmp_path / folder / "tls.crt"))
    settings = settings_of(chart(*VARIANTS[variant]), tmp_path)
    assert settings["discovery.nodes"] == "strogoff-headless.prod.svc.cluster.local"
    assert (settings["cluster.address"], settings["cluster.data_port"]) == ("10.1.2.3", 44054)
    assert settings["distributed_cookie"] == "0123456789abcdef"
    open_ports = {(each.type, each.port) for each in settings.listeners() if each.host != "127.0.0.1"}
    with_tls = "tls.clients.secretName=certs" in VARIANTS[variant]
    plain = "listeners.mqtt=false" not in VARIANTS[variant]
    links = {("vmqs", 44053)} if "tls.nodes.secretName=nodes" in VARIANTS[variant] else {("vmq", 44053)}
    wanted = links | {("http", 8888)}
    wanted |= {("tcp", 1883), ("ws", 8080)} if plain else set()
    wanted |= {("ssl", 8883), ("wss", 8443)} if with_tls else set()
    assert open_ports == wanted
    assert [notice for notice in settings.notices if "effect" in notice or "not implemented" in notice] == []
    container_ports = {each["containerPort"] for each in node_of(chart(*VARIANTS[variant]))["ports"]}
    assert container_ports == {port for _, port in wanted} | {44054}


@pytest.mark.parametrize(
    ("source", "labels", "zone"),
    [
        ("label", {}, "zone-a"),
        ("label", {"metadata.labels['topology.kubernetes.io/zone']": ""}, ""),
        ("machine", {}, "machine-7"),
        ("none", {}, ""),
    ],
)
def test_the_zone_of_a_node(tmp_path: Path, source: str, labels: dict[str, str], zone: str) -> None:
    """A pod without the label, as before Kubernetes 1.35, is a zone of its own."""
    assert settings_of(chart(f"zone.source={source}"), tmp_path, **labels)["node.zone"] == zone


def test_the_defaults_are_those_of_ha_conf(tmp_path: Path) -> None:
    """All but the listeners and the name, which the image sets, and files of logs, which a pod does not need."""
    ours, ha = settings_of(committed(), tmp_path), load(HA_CONF)
    named = [line.split("=")[0].strip() for line in HA_CONF.read_text().splitlines() if line[:1].isalpha()]
    assert {key for key in named if ours[key] != ha[key]} == {"nodename", "listener.tcp.default", "log.console"}
    assert str(ours["log.console"]) == "console" and len(named) > 25


@pytest.mark.parametrize(
    ("count", "founding"),
    [(1, "1"), (3, "3"), (5, "3"), (6, "4")],
)
def test_more_than_half_of_the_nodes_found_a_cluster(count: int, founding: str) -> None:
    """Three to five nodes have the same number, so that a larger cluster does not restart its nodes."""
    found = environment(node_of(chart(f"replicaCount={count}")))
    assert found["DOCKER_VERNEMQ_DISCOVERY__EXPECTED_NODES"] == founding


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (("cookie.secretName=",), "openssl rand -hex 16"),
        (("cookie.value=0123456789abcdef", "cookie.secretName=x"), "set secretName or value, not both"),
        (("users.passwordFile=a:b", "users.secretName=x"), "set secretName or passwordFile, not both"),
        (("users.secretName=x", "extraEnv[0].name=DOCKER_VERNEMQ_USER_BOB"), "extraEnv: DOCKER_VERNEMQ_USER_BOB"),
        (("extraEnv[0].name=DOCKER_VERNEMQ_QUEUE_STOP_WAIT", "extraEnv[0].value=9"), "set config.queue_stop_wait"),
        (("extraEnv[0].name=DOCKER_VERNEMQ_NODENAME", "extraEnv[0].value=n"), "all nodes would have this name"),
        (("foundingNodes=2", "replicaCount=5"), "more than half of replicaCount"),
        (("foundingNodes=4",), "at most all"),
        (("config.nodename=a@b",), "config: nodename is set by other values"),
        (("config.discovery\\.nodes=x",), "config: discovery.nodes is set by other values"),
        (("tls.nodes.secretName=x",), "certificateName: the DNS name"),
        (("listeners.mqtt=false", "listeners.websocket=false"), "no port for clients is open"),
        (("serviceMonitor.enabled=true", "services.metrics.enabled=false"), "needs services.metrics.enabled"),
        (("stopped=true", "persistence.whenScaled=Delete"), "stopped: with persistence.whenScaled=Delete"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name(values: tuple[str, ...], said: str) -> None:
    with pytest.raises(RenderError) as caught:
        chart(*values)
    assert said in str(caught.value)


WRONG = {
    "cookie.value=short": "/cookie/value",
    "users.passwordFile=alice": "/users/passwordFile",
    "replicacount=3": "'replicacount' not allowed",
    "replicaCount=0": "/replicaCount",
    "zone.source=node": "/zone/source",
    "config.queue_stop_wait=9999": "/config/queue_stop_wait",
    "config.log\\.console=file": "/config/log.console",
    "persistence.size=ten": "/persistence/size",
    "terminationGracePeriodSeconds=5": "/terminationGracePeriodSeconds",
}
"""Value that the schema forbids -> what Helm says."""


def test_the_schema_refuses_wrong_values_with_their_names() -> None:
    """Helm says all of them at once."""
    with pytest.raises(RenderError) as caught:
        chart(*WRONG)
    for value, said in WRONG.items():
        assert said in str(caught.value), value


def test_a_name_of_the_node_that_differs_for_each_pod_is_accepted() -> None:
    """For example the name that VerneMQ gave the node."""
    name = ("extraEnv[0].name=DOCKER_VERNEMQ_NODENAME", "extraEnv[0].valueFrom.fieldRef.fieldPath=metadata.name")
    assert node_of(chart(*name))["env"][-1]["name"] == "DOCKER_VERNEMQ_NODENAME"


def test_text_cannot_become_another_line_of_the_configuration() -> None:
    with pytest.raises(RenderError, match="/config/retry_interval"):
        chart("config.retry_interval=5\nallow_anonymous = on")


def test_numbers_have_no_exponent_and_null_removes_a_key() -> None:
    text = only(chart("config.max_message_size=268435455", "config.queue_balance=null"), "ConfigMap")["data"]
    assert "\nmax_message_size = 268435455\n" in text["vernemq.conf"] and "queue_balance" not in text["vernemq.conf"]


def test_a_stop_of_all_nodes_changes_no_pod() -> None:
    stopped, runs = (only(chart(f"stopped={word}"), "StatefulSet")["spec"] for word in ("true", "false"))
    assert (stopped["replicas"], runs["replicas"]) == (0, 3)
    assert stopped["template"] == runs["template"]


def test_all_objects_have_the_common_labels_and_annotations() -> None:
    for each in chart(*EVERYTHING):
        assert each["metadata"]["labels"]["team"] == "iot", each["metadata"]["name"]
        assert each["metadata"]["annotations"]["owner"] == "me", each["metadata"]["name"]


def test_services_select_the_pods_and_name_their_ports() -> None:
    found = chart(*EVERYTHING)
    labels = only(found, "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    ports = {each["name"] for each in node_of(found)["ports"]}
    services = [each for each in found if each["kind"] == "Service"]
    assert len(services) == 6
    for each in services:
        assert each["spec"]["selector"].items() <= labels.items()
        assert {port["targetPort"] for port in each["spec"]["ports"]} <= ports
    for kind, field in (("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")):
        assert only(found, kind)["spec"][field]["matchLabels"].items() <= labels.items()
    monitor = only(found, "ServiceMonitor")["spec"]
    chosen = [
        each for each in services if monitor["selector"]["matchLabels"].items() <= each["metadata"]["labels"].items()
    ]
    assert [each["metadata"]["name"] for each in chosen] == ["strogoff-metrics"]
    assert monitor["endpoints"][0]["port"] in [port["name"] for port in chosen[0]["spec"]["ports"]]


def test_nodes_that_are_not_ready_find_each_other() -> None:
    """Else a new cluster would never begin: a node is ready when it is in a cluster, and three of them found one."""
    found = committed()
    spec = only(found, "StatefulSet")["spec"]
    assert spec["podManagementPolicy"] == "Parallel"
    headless = only(found, "Service", spec["serviceName"])["spec"]
    assert (headless["clusterIP"], headless["publishNotReadyAddresses"]) == ("None", True)
    assert {port["port"] for port in headless["ports"]} == {44053, 44054}


def test_probes_ask_for_pages_that_a_node_serves() -> None:
    """A liveness probe of /health would kill the nodes of a minority."""
    container = node_of(committed())
    served = {page.path for page in MODULES["vmq_health_http"].pages(None)}  # type: ignore[arg-type]
    paths = {name: container[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert paths == {
        "startupProbe": "/health/live",
        "livenessProbe": "/health/live",
        "readinessProbe": "/health/ready",
    }
    assert set(paths.values()) <= served


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        ((), 140),
        (("config.queue_stop_wait=300",), 320),
        (("preStopSeconds=0", "config.queue_stop_wait=null"), 23),
        (("terminationGracePeriodSeconds=60",), 60),
    ],
)
def test_a_pod_may_take_the_time_of_an_orderly_stop(values: tuple[str, ...], seconds: int) -> None:
    """Kubernetes waits for the pause before SIGTERM, for the copies, and until the node has written what is left. If it
    kills the pod then, nothing is lost."""
    assert pod_of(chart(*values))["terminationGracePeriodSeconds"] == seconds


def test_a_pod_has_no_privileges() -> None:
    pod, container = pod_of(committed()), node_of(committed())
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False and pod["enableServiceLinks"] is False
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsNonRoot"]) == (10000, True)
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_a_change_of_the_configuration_restarts_the_nodes_and_one_of_users_does_not() -> None:
    def annotations(*values: str) -> Manifest:
        found: Manifest = only(chart(*values), "StatefulSet")["spec"]["template"]["metadata"]["annotations"]
        return found

    assert annotations() != annotations("config.retry_interval=7")
    assert annotations() == annotations("acl=topic read #")
    assert annotations("users.passwordFile=a:b") == annotations("users.passwordFile=a:c")


def test_a_role_for_machines_exists_only_if_it_is_needed() -> None:
    assert not [each for each in committed() if "Role" in each["kind"]]
    found = chart("zone.source=api")
    role = only(found, "ClusterRole")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]
    binding = only(found, "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"][0]["name"] == pod_of(found)["serviceAccountName"]
    assert pod_of(found)["automountServiceAccountToken"] is True
    compile(only(found, "ConfigMap")["data"]["zone.py"], "zone.py", "exec")


def test_the_schema_documents_every_value() -> None:
    """Each value of values.yaml is in the schema, and each key of the schema has a sentence."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(schema["properties"]) == set(values) | {"global"}

    def compare(part: Manifest, given: Manifest, place: str) -> None:
        for name, each in part["properties"].items():
            assert "description" in each or "Probe" in place, f"{place}{name}"
            if each.get("additionalProperties") is False:
                optional = set(each["properties"]) - set(given[name])
                allowed = {
                    "nodePort",
                    "labels",
                    "loadBalancerClass",
                    "loadBalancerSourceRanges",
                    "externalTrafficPolicy",
                }
                assert optional <= allowed | {"initialDelaySeconds"}, f"{place}{name}: {optional}"
                compare(each, given[name], f"{place}{name}.")

    compare({**schema, "properties": {k: v for k, v in schema["properties"].items() if k != "global"}}, values, "")


def test_the_chart_has_the_version_of_the_project() -> None:
    """The appVersion is the tag of the image."""
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == __version__
    assert node_of(committed())["image"] == f"strogoff:{__version__}"


def test_helm_finds_no_fault() -> None:
    words = [require_helm(), "lint", str(CHART), "--strict", "--set", COOKIE]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("values", "warnings"),
    [
        (("users.secretName=x",), []),
        ((), ["no password file"]),
        (
            ("config.allow_anonymous=true", "persistence.enabled=false", "replicaCount=1"),
            ["persistence", "single node"],
        ),
    ],
)
def test_the_notes_warn_of_what_is_missing(values: tuple[str, ...], warnings: list[str]) -> None:
    words = [
        require_helm(),
        "install",
        "strogoff",
        str(CHART),
        "--dry-run=client",
        "--set",
        ",".join((COOKIE, *values)),
    ]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60)
    notes = ran.stdout.partition("NOTES:")[2]
    assert "strogoff-mqtt.default.svc.cluster.local:1883" in notes, ran.stderr
    found = [line for line in notes.splitlines() if line.startswith("WARNING: ")]
    assert len(found) == len(warnings)
    assert all(word in line for word, line in zip(warnings, found, strict=True))


def test_the_commands_and_numbers_of_the_page_fit() -> None:
    """Helm accepts each command of docs/kubernetes.md, and the defaults are as it says."""
    page = PAGE.read_text()
    commands = [each for each in re.findall(r"^    (helm (?:.*\\\n)*.*)", page, re.MULTILINE) if "--set" in each]
    assert len(commands) > 4
    for each in commands:
        chart(*re.findall(r"--set (\S+=\S+)", each))
    assert len(SETTINGS.findall(page)) > 4
    chart(*SETTINGS.findall(page))
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for name in ("preStopSeconds", "minReadySeconds"):
        assert f"`{name}` ({values[name]})" in page
    assert f"`queue_stop_wait` seconds ({values['config']['queue_stop_wait']})" in page
    assert f"\n   ({pod_of(committed())['terminationGracePeriodSeconds']}, or" in page
