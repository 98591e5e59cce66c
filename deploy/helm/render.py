"""Write the manifests in deploy/kubernetes: what Helm makes of the chart with the values there, for use without Helm.

    .venv/bin/python deploy/helm/render.py            # writes deploy/kubernetes/strogoff.yaml
    .venv/bin/python deploy/helm/render.py --check    # status 1 if that file is stale

It needs Helm (`make deploy-tools`).
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

if __package__:
    from .tools import helm
else:
    from tools import helm  # type: ignore[import-not-found, no-redef]

CHART = Path(__file__).resolve().parent / "strogoff"
FOLDER = CHART.parents[1] / "kubernetes"
MANIFESTS = FOLDER / "strogoff.yaml"
HEAD = """\
# Three nodes of Strogoff. Made from the chart deploy/helm/strogoff with the values in values.yaml by
# deploy/helm/render.py: do not edit it. docs/kubernetes.md says how to use it.
"""
_OF_HELM = re.compile(
    r"^ +(helm\.sh/chart|app\.kubernetes\.io/managed-by|namespace): .*\n|^# Source: .*\n", re.MULTILINE
)


class RenderError(Exception):
    """Helm is missing or refuses the values. The text is what it says."""


def render(*options: str) -> str:
    """Run `helm template` with these options, and return the manifests. Raises `RenderError`."""
    program = helm()
    if program is None:
        raise RenderError("Helm is not installed: make deploy-tools")
    command = [program, "template", "strogoff", str(CHART), *options]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if ran.returncode != 0:
        raise RenderError(ran.stderr.strip())
    return ran.stdout


def plain(rendered: str) -> str:
    """Return the manifests without the marks of Helm and without a namespace, which `kubectl -n` gives."""
    return HEAD + _OF_HELM.sub("", rendered)


def main(arguments: Sequence[str]) -> int:
    """Run the command line. Returns the exit status."""
    if list(arguments) not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        text = plain(render("--values", str(FOLDER / "values.yaml")))
    except RenderError as error:
        print(f"render.py: {error}", file=sys.stderr)
        return 1
    if not arguments:
        MANIFESTS.write_text(text)
    elif not MANIFESTS.exists() or MANIFESTS.read_text() != text:
        print(f"{MANIFESTS} is stale: run deploy/helm/render.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
