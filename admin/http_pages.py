"""The pages of HTTP listeners: `/metrics`, `/health*`, `/status.json`, `/api/v1` (docs/operations.md#http).

Each page belongs to a module with VerneMQ's name. A listener has the modules in its `http_modules`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from ..configs import ListenerSettings
from . import http_api
from .context import Context
from .dispatch import MAX_REQUEST_BYTES
from .exposition import CONTENT_TYPE, exposition, histogram_exposition, process_exposition
from .fan_out import NODE_STATUS, LocalHandler, NodeResult, run_on_all_nodes
from .grammar import Call
from .http_auth import needs_api_key, require_api_key
from .recent_answer import RecentAnswer
from .status import (
    cluster_facts,
    damage,
    figures,
    incidents,
    members,
    missing_members,
    needs_restart,
    not_serving,
    stopped_listeners,
)


class Page(NamedTuple):
    """A page of a module. A `public` page needs no API key."""

    method: str
    path: str
    handler: Handler
    public: bool = False


class Module(NamedTuple):
    """A module: the scope of its API keys, and the function that makes its pages."""

    scope: str
    pages: Callable[[Context], list[Page]]


def application_for(context: Context, settings: ListenerSettings) -> web.Application:
    """The application of one listener."""
    application = web.Application(client_max_size=MAX_REQUEST_BYTES)
    for each in dict.fromkeys(settings.http_modules):
        name = str(each)
        module = MODULES.get(name)
        if module is None:
            # the default of VerneMQ names modules that this broker lacks
            level = "debug" if settings.http_modules == context.server.settings["http_modules"] else "warning"
            context.server.log(level, f"{settings.key}: this version has no HTTP module {name}")
            continue
        asks = needs_api_key(context, settings, name)
        for page in module.pages(context):
            open_to_all = page.public or not asks
            handler = (
                page.handler if open_to_all else require_api_key(context, settings.key, module.scope, page.handler)
            )
            if page.method == "GET":
                application.router.add_get(page.path, handler)
            else:
                application.router.add_route(page.method, page.path, handler)
    return application


def _metrics(context: Context) -> list[Page]:
    async def metrics(request: web.Request) -> web.Response:
        node = context.node.name
        namespace = str(context.server.settings["prometheus_namespace"])
        ours = exposition(context.metrics.rows(), namespace, node)
        ours += histogram_exposition(context.metrics.histograms(), namespace, node)
        text = ours + await asyncio.to_thread(process_exposition, node)
        return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})

    return [Page("GET", "/metrics", metrics)]


def _health(context: Context) -> list[Page]:
    async def ping(request: web.Request) -> web.Response:
        return _json({"status": "OK"})

    async def health(request: web.Request) -> web.Response:
        return _health_of(context, [*stopped_listeners(context), *not_serving(context)])

    async def live(request: web.Request) -> web.Response:
        reasons = needs_restart(context)
        return _json({"status": "DOWN", "reasons": reasons}, 503) if reasons else _json({"status": "OK"})

    async def full_cluster(request: web.Request) -> web.Response:
        return _health_of(context, [*stopped_listeners(context), *not_serving(context), *missing_members(context)])

    async def listeners(request: web.Request) -> web.Response:
        reasons = stopped_listeners(context)
        return _json({"status": "DOWN", "reason": "; ".join(reasons)}, 503) if reasons else _json({"status": "OK"})

    return [
        Page("GET", "/health", health),
        Page("GET", "/health/live", live),
        Page("GET", "/health/ready", health),
        Page("GET", "/health/ping", ping),
        Page("GET", "/health/listeners", listeners),
        Page("GET", "/health/listeners_full_cluster", full_cluster),
    ]


def _health_of(context: Context, reasons: list[str]) -> web.Response:
    facts = cluster_facts(context)
    more = {"cluster": {name: facts[name] for name in ("sees", "members", "serving")}} if facts is not None else {}
    if reasons:
        return _json({"status": "DOWN", "reasons": [*reasons, *damage(context)], **more}, 503)
    if damage(context):
        return _json({"status": "DEGRADED", "reasons": damage(context), **more})
    return _json({"status": "OK", **more})


def _status(context: Context) -> list[Page]:
    async def make() -> bytes:
        answers = await run_on_all_nodes(context, NODE_STATUS, _status_here, Call({}, [], []))
        rows = [row for found in answers.results for row in found.rows]
        return msgspec.json.encode([{str(node): msgspec.Raw(str(text).encode()) for node, text in rows}])

    recent = RecentAnswer(make)

    async def status(request: web.Request) -> web.Response:
        return web.Response(body=await recent.get(), content_type="application/json")

    return [Page("GET", "/status.json", status)]


async def _status_here(context: Context, call: Call) -> NodeResult:
    """One row: the name of this node, and its part of `/status.json`."""
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
    here: dict[str, Any] = {**figures(context), "mystatus": [members(context)], "listeners": listeners}
    facts = cluster_facts(context)
    if facts is not None:
        here["cluster"] = facts
        here["incidents"] = incidents(context)
    return NodeResult([(context.node.name, msgspec.json.encode(here).decode())])


LOCAL_HANDLERS: dict[str, LocalHandler] = {NODE_STATUS: _status_here}
"""What other nodes of the cluster may ask of this node for their pages."""


def _management(context: Context) -> list[Page]:
    path = "/api/v1/{command:.*}"
    return [
        Page("GET", path, partial(http_api.by_path, context)),
        Page("POST", "/api/v1", partial(http_api.by_words, context)),
        Page("OPTIONS", path, http_api.options, public=True),
    ]


MODULES = {
    "vmq_metrics_http": Module("metrics", _metrics),
    "vmq_health_http": Module("health", _health),
    "vmq_status_http": Module("status", _status),
    "vmq_http_mgmt_api": Module("mgmt", _management),
}
"""Name of a module, as in VerneMQ -> the module."""


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")
