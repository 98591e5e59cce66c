"""What HTTP listeners serve: `/metrics`, `/health*`, `/status.json` (INV 3).

Each belongs to a module under VerneMQ's name; a listener has those that `http_modules` names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web

from ..configs import ListenerSettings
from .context import Context
from .exposition import CONTENT_TYPE, exposition, process_exposition
from .status import figures, members, not_running


def pages_for(context: Context, settings: ListenerSettings) -> web.Application:
    """The application of one listener. A module that would need an API key is not served, and the log says so."""
    application = web.Application()
    for module in settings.http_modules:
        name = str(module)
        if name not in MODULES:
            # VerneMQ's own default names modules that are not here
            level = "debug" if settings.http_modules == context.server.settings["http_modules"] else "warning"
            context.server.log(level, f"{settings.key}: the HTTP module {name} is not in this version")
        elif _auth_mode(context, settings, name) != "noauth":
            context.server.log(
                "error", f"{settings.key}: {name} is not served: it asks for API keys, which this version does not have"
            )
        else:
            MODULES[name](context, application)
    return application


def _auth_mode(context: Context, settings: ListenerSettings, module: str) -> str:
    known = context.server.settings
    own = f"{settings.key}.http_module.{module}.auth.mode"
    return str(known[own] or known[f"http_module.{module}.auth.mode"])


def _metrics(context: Context, application: web.Application) -> None:
    async def metrics(request: web.Request) -> web.Response:
        node = context.node.name
        namespace = str(context.server.settings["prometheus_namespace"])
        ours = exposition(context.metrics.rows(), namespace, node)
        text = ours + await asyncio.to_thread(process_exposition, node)
        return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})

    application.router.add_get("/metrics", metrics)


def _health(context: Context, application: web.Application) -> None:
    async def ping(request: web.Request) -> web.Response:
        return _json({"status": "OK"})

    async def health(request: web.Request) -> web.Response:
        reasons = not_running(context)
        if not all(members(context).values()):
            reasons.append("the node is stopping")
        return _json({"status": "DOWN", "reasons": reasons}, 503) if reasons else _json({"status": "OK"})

    async def listeners(request: web.Request) -> web.Response:
        reasons = not_running(context)
        return _json({"status": "DOWN", "reason": "; ".join(reasons)}, 503) if reasons else _json({"status": "OK"})

    application.router.add_get("/health", health)
    application.router.add_get("/health/ping", ping)
    application.router.add_get("/health/listeners", listeners)


def _status(context: Context, application: web.Application) -> None:
    async def status(request: web.Request) -> web.Response:
        rows = [*context.server.listeners.show(), *context.http.show()]
        listeners = [
            {
                "type": row.type,
                "status": row.status,
                "ip": row.address,
                "port": row.port,
                "mountpoint": row.mountpoint,
                "max_conns": "infinity" if row.max_conns is None else row.max_conns,
            }
            for row in rows
        ]
        here = {**figures(context), "mystatus": [members(context)], "listeners": listeners}
        return _json([{context.node.name: here}])

    application.router.add_get("/status.json", status)


MODULES: dict[str, Callable[[Context, web.Application], None]] = {
    "vmq_metrics_http": _metrics,
    "vmq_health_http": _health,
    "vmq_status_http": _status,
}
"""Module -> what puts its pages into an application."""


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")
