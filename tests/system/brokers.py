"""Real brokers for the tests of this folder: one with all kinds of listeners, others by a vernemq.conf."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trustme

from bench.broker_process import BrokerProcess, free_port

T = TypeVar("T")
WITHIN_S = 20.0
"""How long anything may take that a test waits for."""


def require_program(program: str, package: str = "mosquitto-clients") -> str:
    """The program, or a skip that names its Debian package; nothing is skipped where STROGOFF_NO_SKIP is set."""
    found = shutil.which(program)
    if found is None:
        assert not os.environ.get("STROGOFF_NO_SKIP"), f"{program} is missing (Debian package {package})"
        pytest.skip(f"{program} is not installed (Debian package {package})")
    return found


def run_test(test: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine to its end, within a bound."""

    async def bounded() -> T:
        async with asyncio.timeout(3 * WITHIN_S):
            return await test

    return asyncio.run(bounded())


def until(condition: Callable[[], object], within_s: float = WITHIN_S) -> None:
    """Wait until a condition is true that only polling can check, such as a line in a file of another process."""
    never, deadline = threading.Event(), time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        never.wait(0.02)


class ConfBroker(BrokerProcess):
    """`strogoff start -c vernemq.conf` in a folder of its own; `text` is the file."""

    def __init__(self, folder: Path, text: str, port: int = 0) -> None:
        super().__init__(folder / "data", port)
        self.folder = folder
        self.conf = folder / "vernemq.conf"
        self.conf.write_text(text)

    def command(self) -> list[str]:
        """The command line."""
        return [sys.executable, "-m", "strogoff", "start", "-c", str(self.conf)]


class Background:
    """An event loop in a thread: for a broker process that outlives one test, and for tests that are not coroutines."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], within_s: float = 60) -> T:
        """Run a coroutine there and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(within_s)

    def close(self) -> None:
        """Stop the loop and end the thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()


class Certificates:
    """An authority, and a certificate of it for 127.0.0.1, as files."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        server = authority.issue_cert("localhost", "127.0.0.1")
        self.ca, self.cert, self.key = (folder / name for name in ("ca.pem", "cert.pem", "key.pem"))
        authority.cert_pem.write_to_path(self.ca)
        server.cert_chain_pems[0].write_to_path(self.cert)
        server.private_key_pem.write_to_path(self.key)


class EveryListener:
    """One broker with a listener of every kind, shared by all tests: topics and client ids must be each test's own."""

    def __init__(self, folder: Path) -> None:
        self.pem = Certificates(folder)
        self.tcp, self.ws, self.ssl, self.wss, self.proxied = (free_port() for _ in range(5))
        self.unix = folder / "mqtt.sock"
        here = "127.0.0.1"
        settings = {
            "listener__ws__default": f"{here}:{self.ws}",
            "listener__ssl__default": f"{here}:{self.ssl}",
            "listener__wss__default": f"{here}:{self.wss}",
            "listener__tcp__unix": f"local:{self.unix}:0",
            "listener__tcp__proxied": f"{here}:{self.proxied}",
            "listener__tcp__proxied__proxy_protocol": "on",
            "topic_alias_max_client": "10",
            "topic_alias_max_broker": "10",
            "systree_interval": "100",
        }
        for kind in ("ssl", "wss"):
            settings[f"listener__{kind}__certfile"] = str(self.pem.cert)
            settings[f"listener__{kind}__keyfile"] = str(self.pem.key)
            settings[f"listener__{kind}__cafile"] = str(self.pem.ca)
        self.broker = BrokerProcess(folder / "data", self.tcp, **settings)

    def port(self, transport: str) -> int:
        """The port that a transport is served on."""
        return {"tcp": self.tcp, "ws": self.ws, "ssl": self.ssl, "wss": self.wss, "proxied": self.proxied}[transport]
