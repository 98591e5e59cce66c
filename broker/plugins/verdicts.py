"""The answers of plugins: `Allow`, `Refuse` or `NEXT`, and their short forms."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from .hook_table import HookSpec, check_properties, checked_modifiers, refusals


class Subscriber(NamedTuple):
    """The identity of a session: VerneMQ's subscriber id."""

    mountpoint: str
    client_id: str


class Allow(msgspec.Struct, frozen=True):
    """Yes. `modifiers` change the request; `hook_table` has the names that each hook knows.

    `cacheable`: the answer depends on the client (subscriber and user) and the topic alone, so the session may keep it
    until `Hooks.epoch` changes.
    """

    modifiers: Mapping[str, Any] = {}
    cacheable: bool = False


class Refuse(msgspec.Struct, frozen=True):
    """No. `reason_code` (0x80 to 0xFF) and `properties` (`reason_string`, `server_reference`, `user_property`) reach v5
    clients only."""

    reason: str
    reason_code: int | None = None
    properties: Mapping[str, Any] = {}


class _Next(Enum):
    NEXT = "next"

    def __repr__(self) -> str:
        return "NEXT"


NEXT: Final = _Next.NEXT
"""No decision: ask the next plugin."""

Verdict: TypeAlias = Allow | Refuse
Answer: TypeAlias = Allow | Refuse | Literal[_Next.NEXT]

YES: Final = Allow()
NO: Final = Refuse("not_authorized")

SHORT_LISTS: Final = {"auth_on_subscribe", "auth_on_subscribe_m5", "on_unsubscribe", "on_unsubscribe_m5"}
SHORT_BYTES: Final = {"auth_on_publish", "auth_on_publish_m5", "on_deliver", "on_deliver_m5"}


def answer_of(spec: HookSpec, args: tuple[Any, ...], value: object) -> Answer:
    """The answer that a plugin's return value stands for.

    `True` and "ok" allow, `False` refuses, `None` and "next" ask the next plugin, a dict allows with these modifiers,
    a list allows these topics instead (subscribe and unsubscribe), bytes allow this payload instead (publish and
    deliver).
    ValueError or TypeError with a text for the plugin's author if it is none of these or says something impossible.
    """
    if value is NEXT or value is None:
        return NEXT
    if isinstance(value, Allow):
        if not value.modifiers:
            return value
        return Allow(checked_modifiers(spec, args, value.modifiers), value.cacheable)
    if isinstance(value, Refuse):
        return _checked_refusal(spec, value)
    if value is True:
        return YES
    if value is False:
        return NO
    if isinstance(value, Mapping):
        return Allow(checked_modifiers(spec, args, value))
    return _from_short_form(spec, args, value)


def _from_short_form(spec: HookSpec, args: tuple[Any, ...], value: object) -> Answer:
    if isinstance(value, str):
        if value == "ok":
            return YES
        if value == "next":
            return NEXT
    elif isinstance(value, list) and spec.name in SHORT_LISTS:
        return Allow(checked_modifiers(spec, args, {"topics": value}))
    elif isinstance(value, bytes) and spec.name in SHORT_BYTES:
        return Allow(checked_modifiers(spec, args, {"payload": value}))
    raise TypeError(
        f"{spec.name} returned {value!r}; it must return Allow, Refuse, NEXT, True, False, None, "
        '"ok", "next" or a dict of modifiers'
    )


def _checked_refusal(spec: HookSpec, refusal: Refuse) -> Refuse:
    code = refusal.reason_code
    if code is not None and code not in refusals(spec):
        raise ValueError(f"{spec.name} refused with reason code {code:#04x}; MQTT 5 has no such failure there")
    if refusal.properties:
        check_properties(spec, refusal.properties, False)
    return refusal


def connack_code(refusal: Refuse, version: int) -> int:
    """The CONNACK code for a refused registration; `version` is the protocol level, 3, 4 or 5.

    v3: 4 (bad user name or password) for `invalid_credentials`, 5 (not authorised) for everything else. A node
    answers 4, too, to a user name that no plugin knows.
    v5: the refusal's own code, or 0x86, bad user name or password [MQTT5-3.2.2-8].
    """
    if version < 5:
        return 4 if refusal.reason == "invalid_credentials" else 5
    return 0x86 if refusal.reason_code is None else refusal.reason_code
