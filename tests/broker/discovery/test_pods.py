"""Pods, as the API of Kubernetes lists and changes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from strogoff.broker.discovery.pods import ListAgain, Malformed, Pods


def pod(name: str, ip: str = "", phase: str = "Running", version: str = "1", **meta: Any) -> dict[str, Any]:
    status = {"phase": phase, "podIP": ip} if ip else {"phase": phase}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "resourceVersion": version, **meta},
        "spec": {"containers": [{"name": "x"}]},
        "status": status,
    }


def listed(*pods: dict[str, Any], version: str = "10") -> bytes:
    return json.dumps({"kind": "PodList", "metadata": {"resourceVersion": version}, "items": pods}).encode()


def change(kind: str, what: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": what}).encode() + b"\n"


def test_pods_that_have_no_address_or_end_do_not_count() -> None:
    pods = Pods()
    pods.listed(
        listed(
            pod("n-1", "10.0.0.2"),
            pod("n-0", "10.0.0.1", "Pending"),
            pod("n-2"),
            pod("n-3", "10.0.0.4", "Failed"),
            pod("job", "10.0.0.5", "Succeeded"),
            pod("n-4", "10.0.0.6", deletionTimestamp="2026-01-01T00:00:00Z"),
            pod("n-5", "fd00::5"),
        )
    )
    assert pods.at(44053) == ("10.0.0.1:44053", "10.0.0.2:44053", "[fd00::5]:44053") and pods.version == "10"


def test_changes_move_the_version_on() -> None:
    pods = Pods()
    pods.listed(listed(pod("n-0", "10.0.0.1")))
    pods.changed(change("ADDED", pod("n-1", "10.0.0.2", version="11")))
    pods.changed(change("MODIFIED", pod("n-0", "10.0.0.9", version="12")))
    pods.changed(change("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "15"}}))
    assert pods.at(1) == ("10.0.0.9:1", "10.0.0.2:1") and pods.version == "15"
    pods.changed(change("DELETED", pod("n-0", "10.0.0.9", version="16")))
    pods.changed(change("MODIFIED", pod("n-1", "10.0.0.2", version="17", deletionTimestamp="now")))
    assert pods.at(1) == () and pods.version == "17"
    pods.listed(listed())
    assert pods.at(1) == () and pods.version == "10"


def test_an_old_version_means_that_the_pods_are_listed_again() -> None:
    gone = {"kind": "Status", "status": "Failure", "message": "too old resource version: 10 (99)", "code": 410}
    with pytest.raises(ListAgain, match="too old resource version"):
        Pods().changed(change("ERROR", gone))


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"items": 5}', b"\xff"])
def test_other_answers_are_refused(body: bytes) -> None:
    with pytest.raises(Malformed, match="no answer of the API of Kubernetes"):
        Pods().listed(body)
    with pytest.raises(Malformed):
        Pods().changed(body)
