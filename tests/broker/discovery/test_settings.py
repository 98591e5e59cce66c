"""The sources that a configuration asks for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from strogoff.broker.discovery import settings as discovery
from strogoff.broker.discovery.kubernetes import KubernetesPlace
from strogoff.broker.discovery.s3 import S3Place
from strogoff.broker.discovery.settings import DiscoverySettings, discovery_settings
from strogoff.cluster.transport.wire import TransportError
from strogoff.configs import load


def wanted(**values: str) -> DiscoverySettings:
    return discovery_settings(load(None, {}, {f"discovery.{key}": value for key, value in values.items()}))


def test_without_settings_nothing_is_looked_for() -> None:
    assert wanted() == DiscoverySettings() and not wanted().wanted and wanted().sources() == []


def test_all_sources_together(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("mqtt\n")
    found = wanted(
        **{
            "nodes": "n1, n2:44 n3",
            "expected_nodes": "3",
            "srv": "_strogoff._tcp.example.org",
            "kubernetes.selector": "app=strogoff",
            "kubernetes.account_dir": str(tmp_path),
            "s3.bucket": "b",
            "s3.prefix": "/prod/",
            "s3.endpoint": "http://127.0.0.1:9000",
        }
    )
    assert found.nodes == ("n1", "n2:44", "n3") and found.expected == 3 and found.wanted
    assert found.kubernetes == KubernetesPlace(
        "https://kubernetes.default.svc", "mqtt", "app=strogoff", tmp_path / "token", tmp_path / "ca.crt", False
    )
    assert found.s3 == S3Place("b", "prod/", "http://127.0.0.1:9000")

    async def keys() -> list[str]:
        return [source.key for source in found.sources()]

    assert asyncio.run(keys()) == [
        "discovery.nodes", "discovery.srv", "discovery.kubernetes.selector", "discovery.s3.bucket",
    ]  # fmt: skip


@pytest.mark.parametrize("key", ["nodes", "srv", "s3.bucket"])
def test_each_source_alone_is_enough(key: str) -> None:
    assert wanted(**{key: "x"}).wanted


def test_a_selector_without_a_namespace_outside_of_a_pod(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match=r"needs discovery\.kubernetes\.namespace, because this process has no"):
        wanted(**{"kubernetes.selector": "app=x", "kubernetes.account_dir": str(tmp_path)})
    assert wanted(**{"kubernetes.selector": "app=x", "kubernetes.namespace": "n"}).kubernetes is not None


def test_half_of_the_credentials_is_an_error() -> None:
    with pytest.raises(TransportError, match=r"access_key is set, but discovery\.s3\.secret_key is not"):
        wanted(**{"s3.bucket": "b", "s3.access_key": "k"})


def test_a_bucket_without_its_library_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "find_spec", lambda name: None)
    with pytest.raises(TransportError, match=r"pip install 'strogoff\[s3\]'"):
        wanted(**{"s3.bucket": "b"})
