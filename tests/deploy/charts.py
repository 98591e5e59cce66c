"""Helm's output as objects, and the settings that a node has in a pod of it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.helm.render import MANIFESTS, render
from deploy.helm.tools import helm
from strogoff.broker.process.container import prepare
from strogoff.configs import Settings, load

Manifest = dict[str, Any]
DOCKERFILE = (Path(__file__).resolve().parents[2] / "Dockerfile").read_text()
COOKIE = "cookie.secretName=strogoff-cookie"
POD = {
    "metadata.namespace": "prod",
    "metadata.name": "strogoff-0",
    "status.podIP": "10.1.2.3",
    "spec.nodeName": "machine-7",
    "metadata.labels['topology.kubernetes.io/zone']": "zone-a",
}
"""Fields of a pod -> values, as the API server would give them."""


def require_helm() -> str:
    """Helm, or a skip that says how to get it; nothing is skipped where STROGOFF_NO_SKIP is set."""
    found = helm()
    if found is None:
        assert not os.environ.get("STROGOFF_NO_SKIP"), "helm is missing (make deploy-tools)"
        pytest.skip("helm is not installed (make deploy-tools)")
    return found


def chart(*values: str) -> list[Manifest]:
    """The objects of the chart with these values (`NAME=VALUE`), and with a cookie unless they name one."""
    require_helm()
    given = values if any(each.startswith("cookie.") for each in values) else (COOKIE, *values)
    return objects(_rendered(*given))


@cache
def _rendered(*given: str) -> str:
    return render(*[word for each in given for word in ("--set", each)])


def committed() -> list[Manifest]:
    """The objects of deploy/kubernetes, for which Helm is not needed."""
    return objects(MANIFESTS.read_text())


def objects(text: str) -> list[Manifest]:
    """The objects of a file with several documents."""
    return [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each]


def only(manifests: list[Manifest], kind: str, name: str = "") -> Manifest:
    """The object of a kind, with this name if one is given."""
    (found,) = [each for each in manifests if each["kind"] == kind and name in ("", each["metadata"]["name"])]
    return found


def pod_of(manifests: list[Manifest]) -> Manifest:
    """The pod's specification in the StatefulSet."""
    spec: Manifest = only(manifests, "StatefulSet")["spec"]["template"]["spec"]
    return spec


def node_of(manifests: list[Manifest]) -> Manifest:
    """The container of the node."""
    (found,) = pod_of(manifests)["containers"]
    return dict(found)


def environment(
    container: Manifest, fields: Mapping[str, str] = POD, secret: str = "0123456789abcdef"
) -> dict[str, str]:
    """The variables of a container in a pod with these fields, where each Secret has the text `secret`. A field that
    the pod lacks is empty if it is a label, as in Kubernetes."""
    found = {}
    for each in container.get("env", []):
        source = each.get("valueFrom", {})
        if "fieldRef" in source:
            path = source["fieldRef"]["fieldPath"]
            found[each["name"]] = fields.get(path, "") if path.startswith("metadata.labels") else fields[path]
        elif "secretKeyRef" in source:
            found[each["name"]] = secret
        else:
            found[each["name"]] = each.get("value", "")
    # $(NAME) is replaced, if NAME stands before it
    return {name: re.sub(r"\$\((\w+)\)", lambda m: found.get(m[1], m[0]), text) for name, text in found.items()}


def settings_of(manifests: list[Manifest], home: Path, **fields: str) -> Settings:
    """The settings with which a node starts in a pod. Raises ConfigError."""
    (home / "etc").mkdir(exist_ok=True)
    text = only(manifests, "ConfigMap")["data"]["vernemq.conf"]
    (home / "etc" / "vernemq.conf").write_text(text.replace("/etc/strogoff/", f"{home}/"))
    return load(*prepare(environment(node_of(manifests), {**POD, **fields}), home))


def place(path: str) -> str:
    """The path in the image behind the links that the Dockerfile makes."""
    links: dict[str, str] = dict(re.findall(r"ln -s (/\S+) (/\S+)", DOCKERFILE))
    for target, link in links.items():
        if path == link or path.startswith(f"{link}/"):
            return target + path.removeprefix(link)
    return path
