"""What a command uses: CPU time and the highest memory of Java, of Python workers and of itself, from /proc."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

_TICKS = 100
_EVERY_S = 0.1


class Usage:
    """The highest memory and the CPU time of a process and its descendants, by kind: java, worker, driver."""

    def __init__(self) -> None:
        self.peak_mb: dict[str, int] = {}
        self._cpu: dict[int, tuple[str, float]] = {}

    def sample(self, root: int) -> None:
        """Look at the processes now."""
        parents = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = path.read_text().rpartition(")")[2].split()
                parents[int(path.parent.name)] = (int(fields[1]), (int(fields[11]) + int(fields[12])) / _TICKS)
        for pid in parents:
            if _descends(pid, root, parents):
                with contextlib.suppress(OSError):
                    self._add(pid, root, parents[pid][1])

    def cpu_s(self, kind: str) -> float:
        """CPU seconds of all processes of a kind."""
        return sum(seconds for each, seconds in self._cpu.values() if each == kind)

    def _add(self, pid: int, root: int, cpu_s: float) -> None:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        kind = "java" if name == "java" else "driver" if pid == root else "worker" if "python" in name else "other"
        status = Path(f"/proc/{pid}/status").read_text()
        peak = [int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmHWM")]
        self.peak_mb[kind] = max([self.peak_mb.get(kind, 0), *peak])
        self._cpu[pid] = (kind, cpu_s)


def _descends(pid: int, root: int, parents: dict[int, tuple[int, float]]) -> bool:
    while pid not in (0, root):
        pid = parents.get(pid, (0, 0.0))[0]
    return pid == root


def run_measured(arguments: Sequence[str], output: Path | None = None) -> tuple[float, Usage]:
    """Run Python with these arguments: its wall time and its usage. It must end with status 0."""
    usage = Usage()
    begin = time.monotonic()
    with (
        nullcontext() if output is None else output.open("w") as file,
        subprocess.Popen([sys.executable, *arguments], stdout=file) as process,
    ):
        while process.poll() is None:
            usage.sample(process.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_EVERY_S)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return time.monotonic() - begin, usage
