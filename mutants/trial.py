"""Puts one mutant at a time into a copy of the checkout, and runs its tests and seeds there."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .catalogue import ListError, Mutant

TEST_S = 300.0
"""Seconds after which unit tests count as hanging: then they have found the mutant, too."""
ENDED_S = 10.0
"""Seconds between SIGTERM and SIGKILL for a child process."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of tests or seeds. `found` is the test or seed that found the mutant, "" if none did; `why` is a short
    reason; `seconds` is wall clock."""

    found: str
    why: str
    seconds: float
    ran: bool = True


NOT_RUN = Verdict("", "", 0.0, False)


class Checkout:
    """A copy, at `place`, of the files of `root` that git does not ignore. Only the copy gets mutants."""

    def __init__(self, root: Path, place: Path) -> None:
        self.place = place
        self._count = 0
        listed = subprocess.run(
            ["git", "ls-files", "-coz", "--exclude-standard"], cwd=root, capture_output=True, check=True, text=True
        )
        for name in filter(None, listed.stdout.split("\0")):
            source, target = root / name, place / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.exists() or source.is_symlink():
                shutil.copy2(source, target, follow_symlinks=False)
        (place / "dev").mkdir(exist_ok=True)
        if not (place / "dev" / "strogoff").is_symlink():
            (place / "dev" / "strogoff").symlink_to("..")

    def put(self, mutant: Mutant) -> str:
        """Apply the mutant. Returns the previous source, for `restore`. Raises `ListError` if it has no such file."""
        path = self.place / mutant.file
        if not path.exists():
            raise ListError(f"mutant {mutant.name}: there is no file {mutant.file}")
        source = path.read_text(encoding="utf-8")
        self._write(path, mutant.apply(source))
        return source

    def restore(self, mutant: Mutant, source: str) -> None:
        """Undo the mutant: write the previous source."""
        self._write(self.place / mutant.file, source)

    def _write(self, path: Path, source: str) -> None:
        path.write_text(source, encoding="utf-8")
        self._count += 1
        # Python detects a changed source by its size and its time in whole seconds: give each version another time
        stamp = path.stat().st_mtime + 10 * self._count
        os.utime(path, (stamp, stamp))

    def run(self, words: Sequence[str]) -> subprocess.Popen[str]:
        """Start Python in the copy, in its own process group."""
        environment = {**os.environ, "PYTHONPATH": str(self.place / "dev")}
        return subprocess.Popen(
            [sys.executable, *words], cwd=self.place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, start_new_session=True,
        )  # fmt: skip


def try_tests(checkout: Checkout, mutant: Mutant) -> Verdict:
    """Run the unit tests of the mutant until the first failure. The mutant must be in the checkout.

    Raises `ListError` if pytest cannot run them: then the entry is wrong.
    """
    if not mutant.tests:
        return NOT_RUN
    began = time.monotonic()
    child = checkout.run(["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=line", *mutant.tests])
    try:
        output, _ = child.communicate(timeout=TEST_S)
    except subprocess.TimeoutExpired:
        _end(child)
        return Verdict("hangs", f"more than {TEST_S:g} s", time.monotonic() - began)
    took = time.monotonic() - began
    if child.returncode == 0:
        return Verdict("", "", took)
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    if child.returncode != 1 or failed is None:
        raise ListError(f"mutant {mutant.name}: pytest ended with status {child.returncode}:\n{output[-2000:]}")
    return Verdict(failed[1], "", took)


def confirm(checkout: Checkout, mutant: Mutant, verdict: Verdict) -> None:
    """Run the test that has found the mutant once more. The mutant must not be in the checkout.

    Raises `ListError` if it fails: then it has found nothing.
    """
    test = verdict.found.partition("[")[0]
    if "::" not in test:
        return  # nothing was found, or a test hangs
    child = checkout.run(["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=line", test])
    output, _ = child.communicate(timeout=TEST_S)
    if child.returncode != 0:
        raise ListError(f"mutant {mutant.name}: {test} fails without it, too:\n{output[-2000:]}")


def try_seeds(checkout: Checkout, mutant: Mutant, seeds: int, limit_s: float) -> Verdict:
    """Run seeds until the first violation, at most `seeds` of them and for `limit_s` seconds of wall clock."""
    if not mutant.sim:
        return NOT_RUN
    began = time.monotonic()
    words = ["-m", "strogoff", "sim", *mutant.sim.split(), "--first", str(mutant.first), "--seeds", str(seeds)]
    child = checkout.run([*words, "--stop", "--limit", f"{limit_s:g}"])
    try:
        output, _ = child.communicate(timeout=limit_s + 120)
    except subprocess.TimeoutExpired:
        _end(child)
        return Verdict("hangs", "a seed does not end", time.monotonic() - began)
    took = time.monotonic() - began
    found = re.search(r"^seed (\d+): .*\n    (.*)$", output, re.MULTILINE)
    if found is not None:
        return Verdict(found[1], found[2].partition(":")[0], took)
    if child.returncode != 0:
        raise ListError(f"mutant {mutant.name}: strogoff sim ended with status {child.returncode}:\n{output[-2000:]}")
    return Verdict("", "", took)


def _end(child: subprocess.Popen[str]) -> None:
    """End a child and the processes that it started."""
    os.killpg(child.pid, signal.SIGTERM)
    try:
        child.communicate(timeout=ENDED_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
