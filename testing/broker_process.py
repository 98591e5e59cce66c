"""A broker as a separate process, started by the real command on a free port. A test can end it with kill -9."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Self

from ..configs.orchestrators import PREFIX
from .chosen_keys import OF_PROCESS, Conf, check_keys, text
from .reserved_port import reserve

READY_S = 30.0


class BrokerProcess:
    """`strogoff start` as a child process on 127.0.0.1. A context manager; `port` is 0 before the first start.

    `conf` has keys of vernemq.conf, and is the only source of values: variables DOCKER_VERNEMQ_* of the test run are
    ignored. `directory` keeps its data; without it, `close` removes the data. A restart keeps the port. Raises
    ValueError if `conf` has a key that is chosen here.
    """

    def __init__(self, conf: Conf | None = None, directory: Path | None = None) -> None:
        check_keys(conf or {}, OF_PROCESS)
        self.host = "127.0.0.1"
        self.port = 0
        self.output: deque[str] = deque(maxlen=1000)
        """The last 1,000 lines of its output."""
        wanted = {key: text(value) for key, value in (conf or {}).items()}
        self._conf = {"allow_anonymous": "on", "log.console": "console", "log.error": "off", **wanted}
        self._directory = directory
        self._temporary: Path | None = None
        self._reserved: socket.socket | None = None
        """A bound socket that never listens: until `close` no other program gets the port."""
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._ready = threading.Event()
        """Set when the broker is ready, or its output has ended."""
        self._serves = False
        """Whether the broker has said that it is ready."""

    @property
    def url(self) -> str:
        """The address, mqtt://HOST:PORT."""
        return f"mqtt://{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """The id of the running process. Raises RuntimeError if none runs."""
        if self._process is None:
            raise RuntimeError("the broker does not run")
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it was never started, or `kill` or `stop` has ended it; not if it has ended by itself."""
        return self._process is None

    def start(self) -> None:
        """Start the broker and wait until it is ready.

        Raises RuntimeError if it runs already, or, with its output, if it is not ready within 30 seconds.
        """
        if self._process is not None and self._process.poll() is None:
            raise RuntimeError(f"the broker runs already, as process {self.pid}")
        self._end(kill=True)  # collect a process that has ended without a call of `kill` or `stop`
        if self._directory is None and self._temporary is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="strogoff-"))
        self._reserve_port()
        data = self._directory or self._temporary
        command = [sys.executable, "-m", "strogoff", "start", "--data-dir", str(data)]
        for key, value in {**self._conf, "listener.tcp.default": f"{self.host}:{self.port}"}.items():
            command += ["--set", f"{key}={value}"]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        self._ready.clear()
        self._serves = False
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=data,
            env={**inherited, "PYTHONUNBUFFERED": "1"},
        )
        self._reader = threading.Thread(target=self._read, args=(self._process,), name="strogoff output", daemon=True)
        self._reader.start()
        try:
            started = self._ready.wait(READY_S) and self._serves and self._process.poll() is None
        except BaseException:  # the test run is interrupted: no other code would end the process
            self._end(kill=True)
            raise
        if not started:
            self._end(kill=True)
            raise RuntimeError("the broker did not start:\n" + "\n".join(self.output))

    def _reserve_port(self) -> None:
        """Choose a free port at the first start. At a start after `close`, reserve the same port again."""
        if self._reserved is None:
            self._reserved = reserve(self.host, self.port)
            self.port = self._reserved.getsockname()[1]

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.output.append(line.rstrip())
            if "is ready" in line:
                self._serves = True
                self._ready.set()
        self._ready.set()

    def kill(self) -> None:
        """Send SIGKILL and wait for the end of the process."""
        self._end(kill=True)

    def stop(self) -> None:
        """Send SIGTERM and wait for the end of the process; after 30 seconds send SIGKILL."""
        self._end(kill=False)

    def _end(self, kill: bool) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if kill:
            process.kill()
        else:
            process.terminate()
        try:
            process.wait(READY_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._reader is not None:
            self._reader.join(READY_S)
        assert process.stdout is not None
        process.stdout.close()

    def close(self) -> None:
        """Stop the broker, remove its temporary data, and release its port."""
        self.stop()
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None
        if self._temporary is not None:
            with contextlib.suppress(OSError):
                shutil.rmtree(self._temporary)
            self._temporary = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
