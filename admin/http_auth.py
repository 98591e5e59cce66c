"""Authentication of HTTP requests by API key, where a module asks for it (docs/operations.md#api-keys)."""

from __future__ import annotations

import msgspec
from aiohttp import BasicAuth, web
from aiohttp.typedefs import Handler

from ..broker.reporting.log_line import Line
from ..configs import ListenerSettings
from .context import Context
from .render import escape_unprintable
from .wire import Refusal

_SAID = {
    "missing": "an API key is needed.",
    "unknown": "this API key is unknown.",
    "expired": "this API key has expired.",
}


def needs_api_key(context: Context, settings: ListenerSettings, module: str) -> bool:
    """Whether `http_module.MODULE.auth.mode` is `apikey`, for this listener or for all listeners."""
    known = context.server.settings
    own = f"{settings.key}.http_module.{module}.auth.mode"
    return str(known[own] or known[f"http_module.{module}.auth.mode"]) == "apikey"


def require_api_key(context: Context, listener: str, scope: str, handler: Handler) -> Handler:
    """Wrap a handler: a request needs an API key of this scope. Others get status 401 and a `Refusal`."""

    async def check_key(request: web.Request) -> web.StreamResponse:
        key = api_key_of(request)
        verdict = "missing" if key is None else context.api_keys.check(key, scope)
        if verdict == "ok":
            return await handler(request)
        text = f"{listener}: {escape_unprintable(request.path)} refused: API key {verdict}"
        context.server.log("info", Line("http.refuse", text, peer=request.remote))
        said = _SAID.get(verdict, f"this API key has another scope than {scope}.")
        return web.Response(
            status=401,
            body=msgspec.json.encode(Refusal(verdict, said)),
            content_type="application/json",
            headers={"WWW-Authenticate": 'Basic realm="strogoff"'},
        )

    return check_key


def api_key_of(request: web.Request) -> str | None:
    """The API key of a request: the header `x-api-key`, else the user name of Basic authentication, else None."""
    key = request.headers.get("x-api-key")
    if key is not None:
        return key
    try:
        return BasicAuth.decode(request.headers.get("Authorization", ""), "utf-8").login or None
    except ValueError:
        return None
