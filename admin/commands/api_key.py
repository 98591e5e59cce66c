"""`api-key`: who may use the HTTP modules that ask for a key."""

from __future__ import annotations

from ..api_keys import DEFAULT_SCOPE, SCOPES, ApiKeyError
from ..context import Context
from ..reply import DONE, CommandError, Part, Table, Text
from ..words import Call, Command, Key

_SCOPES = ", ".join(SCOPES)
_SCOPE = Key("scope", f"one of {_SCOPES}; default {DEFAULT_SCOPE}", optional=True)
_EXPIRES = Key("expires", "yyyy-mm-ddThh:mm:ss in UTC; default: max_apikey_expiry_days, or never", optional=True)
_KEY = Key("key", "the key")


async def _create(context: Context, call: Call) -> list[Part]:
    try:
        key = context.api_keys.create(call.keys.get("scope", DEFAULT_SCOPE), call.keys.get("expires"))
    except ApiKeyError as error:
        raise CommandError(str(error)) from None
    await context.spread()
    return [Text(key)]


async def _add(context: Context, call: Call) -> list[Part]:
    try:
        context.api_keys.add(call.keys["key"], call.keys.get("scope", DEFAULT_SCOPE), call.keys.get("expires"))
    except ApiKeyError as error:
        raise CommandError(str(error)) from None
    await context.spread()
    return [DONE]


async def _delete(context: Context, call: Call) -> list[Part]:
    try:
        context.api_keys.delete(call.keys["key"], call.keys.get("scope"))
    except ApiKeyError as error:
        raise CommandError(str(error)) from None
    await context.spread()
    return [DONE]


async def _show(context: Context, call: Call) -> list[Part]:
    keys = context.api_keys
    try:
        found = keys.rows(call.keys.get("scope"))
    except ApiKeyError as error:
        raise CommandError(str(error)) from None
    rows = [(each.key, each.scope, each.expires, keys.has_expired(each)) for each in found]
    return [Table(("Key", "Scope", "Expires (UTC)", "has expired"), [*rows])]


COMMANDS = (
    Command("api-key create", "Make a key that nobody can guess, and say it.", _create, keys=(_SCOPE, _EXPIRES)),
    Command("api-key add", "Add a key of one's own, or another scope to a key.", _add, keys=(_KEY, _SCOPE, _EXPIRES)),
    Command(
        "api-key delete",
        "Delete a key; it opens nothing any more.",
        _delete,
        keys=(_KEY, Key("scope", "only this scope; default: all that the key has", optional=True)),
    ),
    Command(
        "api-key show",
        "The keys.",
        _show,
        keys=(Key("scope", f"only this one of {_SCOPES}; default: all", optional=True),),
    ),
)
