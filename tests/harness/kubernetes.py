"""The part of the API of Kubernetes that lists and watches pods, as a server of the test."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from aiohttp import web

from strogoff.broker.discovery.kubernetes import KubernetesPlace

NAMESPACE, SELECTOR = "mqtt", "app=strogoff"


def pod(name: str, ip: str, **meta: Any) -> dict[str, Any]:
    """A pod that runs at this address."""
    return {"metadata": {"name": name, **meta}, "status": {"phase": "Running", "podIP": ip}}


class Api:
    """`pods` are the pods by name; change them with `change`. `token` is the token that counts now. `refuses`: the
    status that every request gets; `may_watch`, `delay_s`: what its name says. `forget` makes all versions too old.

    `requests` has (time, whether it was a watch) of each request.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pods: dict[str, dict[str, Any]] = {}
        self.version = 100
        self.oldest = 0
        self.refuses = 0
        self.may_watch = True
        self.delay_s = 0.0
        self.requests: list[tuple[float, bool]] = []
        self.url = ""
        self.closed = asyncio.Event()
        self._changed = asyncio.Event()
        self._lines: list[tuple[int, bytes]] = []
        self.set_token("first")

    def set_token(self, token: str) -> None:
        """Replace the token, in the pod and at the API."""
        self.token = token
        (self.folder / "token").write_text(token + "\n")

    @property
    def place(self) -> KubernetesPlace:
        """Where a node finds this API."""
        return KubernetesPlace(self.url, NAMESPACE, SELECTOR, self.folder / "token", self.folder / "ca.crt")

    def change(self, kind: str, what: dict[str, Any]) -> None:
        """Add, change or delete a pod; those who watch learn it."""
        self.version += 1
        what["metadata"]["resourceVersion"] = str(self.version)
        name = what["metadata"]["name"]
        if kind == "DELETED":
            self.pods.pop(name, None)
        else:
            self.pods[name] = what
        self._lines.append((self.version, json.dumps({"type": kind, "object": what}).encode() + b"\n"))
        self._wake()

    def forget(self) -> None:
        """Make all versions so far too old for a watch."""
        self.version += 1
        self.oldest = self.version
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request for the pods."""
        watch = request.query.get("watch") == "1"
        self.requests.append((time.monotonic(), watch))
        if self.delay_s:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.closed.wait(), self.delay_s)
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.json_response({"kind": "Status", "message": "Unauthorized"}, status=401)
        if self.refuses or (watch and not self.may_watch):
            return web.json_response({"kind": "Status", "message": "pods is forbidden"}, status=self.refuses or 403)
        assert request.query["labelSelector"] == SELECTOR
        if not watch:
            return web.json_response(
                {"metadata": {"resourceVersion": str(self.version)}, "items": list(self.pods.values())}
            )
        return await self._watch(request, int(request.query["resourceVersion"]))

    async def _watch(self, request: web.Request, version: int) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            if version < self.oldest:
                gone = {"kind": "Status", "message": f"too old resource version: {version}", "code": 410}
                await response.write(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
                return response
            changed = self._changed
            for at, line in [each for each in self._lines if each[0] > version]:
                await response.write(line)
                version = at
            await changed.wait()


@asynccontextmanager
async def api(folder: Path) -> AsyncIterator[Api]:
    """Run the API on a port of this machine."""
    made = Api(folder)
    app = web.Application()
    app.router.add_get(f"/api/v1/namespaces/{NAMESPACE}/pods", made.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[union-attr]
    try:
        yield made
    finally:
        made.closed.set()
        await runner.cleanup()
