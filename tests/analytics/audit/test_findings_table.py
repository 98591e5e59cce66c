"""The file of all findings: `test_command.py` writes it with Spark, and reads what proves a finding."""

from __future__ import annotations

from pathlib import Path

from strogoff.analytics.audit.findings_table import NAME
from strogoff.analytics.manifest import load, sweep


def test_an_ingest_leaves_the_findings_alone(tmp_path: Path) -> None:
    """Also in a directory that has no tables yet."""
    (tmp_path / NAME).parent.mkdir()
    (tmp_path / NAME).touch()
    sweep(tmp_path, load(tmp_path))
    assert (tmp_path / NAME).exists()
