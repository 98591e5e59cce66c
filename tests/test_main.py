"""`python -m strogoff` is the same as `strogoff`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from strogoff import __version__


def test_the_module_is_the_command(tmp_path: Path) -> None:
    """From any folder, with the status of the command."""
    for words, status, said in ((["version"], 0, f"strogoff {__version__}\n"), (["no-such-word"], 2, "")):
        ran = subprocess.run(
            [sys.executable, "-m", "strogoff", *words], cwd=tmp_path, capture_output=True, text=True, timeout=30
        )
        assert (ran.returncode, ran.stdout) == (status, said)
