"""Checks before a commit and at each push: their files can be read, and refer to existing names."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
RUN = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
WORKFLOW = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
ELSEWHERE = {"tools", "check", "test", "newest"}
"""Parts of `.ci/run` that other steps or jobs of the workflow stand for."""


def jobs() -> dict[str, Any]:
    """The jobs of the workflow by name."""
    found = yaml.safe_load(WORKFLOW)
    # YAML 1.1 reads the key `on` as true
    assert set(found) == {"name", True, "permissions", "concurrency", "jobs"}
    return dict(found["jobs"])


def commands(job: dict[str, Any]) -> str:
    """Returns all commands in the steps of a job."""
    return "\n".join([step["run"] for step in job["steps"] if "run" in step])


def test_the_fast_tests_run_on_pythons_that_are_supported() -> None:
    job = jobs()["test"]
    pythons = job["strategy"]["matrix"]["python"]
    classifiers = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert pythons == [version for version in classifiers if version in pythons]
    assert {"3.11", "3.12", "3.13"} <= set(pythons)
    words = {step["if"]: step["run"].split("  #")[0].split() for step in job["steps"] if "if" in step}
    made = {condition: said[said.index("make") :] for condition, said in words.items()}
    assert made == {"matrix.python != '3.13'": ["make", "test"], "matrix.python == '3.13'": ["make", "coverage"]}


def test_the_other_jobs_run_the_rest() -> None:
    assert "make check" in commands(jobs()["check"])
    named = re.search(r"\.ci/run (slow .*)", commands(jobs()["rest"]))
    listed = re.search(r"^parts=\((.*)\)$", RUN, re.MULTILINE)
    assert named and listed
    parts = listed[1].split()
    assert re.findall(r"^part_(\w+)\(\)", RUN, re.MULTILINE) == parts
    assert set(parts) > ELSEWHERE
    assert named[1].split() == [part for part in parts if part not in ELSEWHERE]


def test_an_unknown_part_is_refused() -> None:
    ran = subprocess.run([ROOT / ".ci" / "run", "nonsense"], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("there is no part 'nonsense'; there are: tools check ")


def test_tests_that_need_namespaces_are_named() -> None:
    modules = (ROOT / "tests" / "system" / "cluster").glob("test_*.py")
    wanted = sorted(path.stem for path in modules if re.search(r"apart: Apart|space_or_skip\(", path.read_text()))
    named = re.search(r"for name in (.*); do", WORKFLOW)
    assert named and named[1].split() == wanted


def test_hooks_before_a_commit_run_what_make_check_runs() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (repository,) = config["repos"]
    assert repository["repo"] == "local"
    hooks = {hook["name"]: hook for hook in repository["hooks"]}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for name in ("ruff format", "ruff check", "mypy"):
        assert hooks[name]["language"] == "system" and hooks[name]["entry"].startswith(f".venv/bin/{name}")
        assert f"$(BIN)/{name}" in makefile
    assert hooks["mypy"]["pass_filenames"] is False
