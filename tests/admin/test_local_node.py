"""Which node a command means: by file, directory and environment. tests/admin/test_cli.py asks real nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from strogoff.admin.local_node import local_settings
from strogoff.configs import ConfigError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STROGOFF_DATA_DIR", raising=False)


def directory(conf: Path | None = None, data_dir: str | None = None) -> str:
    return str(local_settings(conf, data_dir)["platform_data_dir"])


def test_the_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A named one, that of a named file, that of the environment, that of ./etc/vernemq.conf, ./data."""
    assert directory() == "./data"
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "vernemq.conf").write_text("platform_data_dir = /of/etc\n")
    named = tmp_path / "named.conf"
    named.write_text("platform_data_dir = /of/file\n")
    assert directory() == "/of/etc"
    monkeypatch.setenv("STROGOFF_DATA_DIR", "/of/environment")
    assert directory() == "/of/environment"
    assert directory(named) == "/of/file"
    assert directory(named, "/of/option") == directory(None, "/of/option") == "/of/option"


def test_a_wrong_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no\.conf"):
        local_settings(tmp_path / "no.conf", None)


def test_a_pod_that_takes_its_headless_service_from_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, each command in it, also that of the health check, reported that the name of the service is missing."""
    monkeypatch.setenv("DOCKER_VERNEMQ_DISCOVERY_KUBERNETES", "1")
    monkeypatch.setenv("DOCKER_VERNEMQ_QUEUE_STOP_WAIT", "17")
    monkeypatch.setenv("STROGOFF_DATA_DIR", "/of/environment")
    assert directory() == "/of/environment" and local_settings(None, None)["queue_stop_wait"] == 17
