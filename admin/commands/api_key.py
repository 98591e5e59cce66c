"""`api-key`: the API keys of the HTTP modules."""

from __future__ import annotations

from ..api_keys import DEFAULT_SCOPE, SCOPES, ApiKeyError
from ..context import Context
from ..grammar import Argument, Call, Command
from ..result import DONE, CommandError, Part, Table

_SCOPES = ", ".join(SCOPES)
_SCOPE = Argument("scope", f"one of {_SCOPES}; default {DEFAULT_SCOPE}", optional=True)
_EXPIRES = Argument("expires", "yyyy-mm-ddThh:mm:ss in UTC; default: max_apikey_expiry_days, or never", optional=True)
_KEY = Argument("key", "the key")


async def _create(context: Context, call: Call) -> list[Part]:
    try:
        key = context.api_keys.create(call.arguments.get("scope", DEFAULT_SCOPE), call.arguments.get("expires"))
    except ApiKeyError as error:
        raise CommandError(str(error)) from None
    # the key is valid from now on, also if the cluster does not have it in time
    await call.report(key)
    await context.replicated()
    return []


async def _add(context: Context, call: Call) -> list[Part]:
    try:
        context.api_keys.add(
            call.arguments["key"], call.arguments.get("scope", DEFAULT_SCOPE), call.arguments.get("expires")
        )
    except ApiKeyError as error:
        raise CommandError(str(error)) from None
    await context.replicated()
    return [DONE]


async def _delete(context: Context, call: Call) -> list[Part]:
    try:
        context.api_keys.delete(call.arguments["key"], call.arguments.get("scope"))
    except ApiKeyError as error:
        raise CommandError(str(error)) from None
    await context.replicated()
    return [DONE]


async def _show(context: Context, call: Call) -> list[Part]:
    api_keys = context.api_keys
    try:
        found = api_keys.rows(call.arguments.get("scope"))
    except ApiKeyError as error:
        raise CommandError(str(error)) from None
    rows = [(each.key, each.scope, each.expires, api_keys.has_expired(each)) for each in found]
    return [Table(("Key", "Scope", "Expires (UTC)", "has expired"), [*rows])]


COMMANDS = (
    Command("api-key create", "Generate a random key, add it and print it.", _create, arguments=(_SCOPE, _EXPIRES)),
    Command("api-key add", "Add a given key, or another scope to a key.", _add, arguments=(_KEY, _SCOPE, _EXPIRES)),
    Command(
        "api-key delete",
        "Delete a key, or one scope of it.",
        _delete,
        arguments=(_KEY, Argument("scope", "only this scope; default: all scopes of the key", optional=True)),
    ),
    Command(
        "api-key show",
        "Show the keys.",
        _show,
        arguments=(Argument("scope", f"only keys with this scope, one of {_SCOPES}; default: all", optional=True),),
    ),
)
