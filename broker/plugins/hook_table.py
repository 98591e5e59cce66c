"""The hooks: their names, their arguments, how the broker calls them, and the modifiers that each hook knows.

`all` hooks tell every plugin and take no answer. `till_ok` hooks ask one plugin after the other until one allows or
refuses. A name ending in `_m5` is the form for MQTT 5 clients; `v4` in its entry names the older form that is called
when a plugin has only that one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ...mqtt.properties import encode_properties
from ...mqtt.reasons import ALLOWED, ReasonCode
from ...mqtt.topics import valid_topic_name
from ...mqtt.wire import encode_utf8

ALL: Final = "all"
TILL_OK: Final = "till_ok"

CODES: Final = frozenset(int(code) for code in ReasonCode)
FAILURES: Final = frozenset(code for code in CODES if code >= 0x80)

NOT_ALLOWED: Final = 0x80
"""The QoS that refuses one filter of a SUBSCRIBE; the word `not_allowed` means the same."""


class HookSpec(NamedTuple):
    """One hook. The last `optional` of its `arguments` may be missing, both in the call and in the plugin's method."""

    name: str
    arguments: tuple[str, ...]
    style: str
    modifiers: Mapping[str, Kind]
    optional: int = 0
    v4: str = ""

    @property
    def packets(self) -> tuple[str, ...]:
        """The packets, as classes of `mqtt.packets`, that may carry the properties of a plugin's answer."""
        return _PACKETS.get(self.name.removesuffix("_m5"), ())


class Kind(NamedTuple):
    """What the value of a modifier must be: the words for an error message, and the test."""

    text: str
    fits: Callable[[Any], bool]


def _is_int(value: Any) -> bool:
    return type(value) is int


def _is_text(value: Any) -> bool:
    """Whether a packet of MQTT can carry it."""
    with suppress(ValueError):
        return bool(encode_utf8(value, "the value"))
    return False


def _is_subscriber(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(map(_is_text, value)) and value[1] != ""


def _is_topic(value: Any) -> bool:
    return isinstance(value, str) and valid_topic_name(value)


BOOL = Kind("True or False", lambda v: isinstance(v, bool))
INT = Kind("an integer", _is_int)
COUNT = Kind("an integer, 0 or more", lambda v: _is_int(v) and v >= 0)
TEXT = Kind("text (str)", lambda v: isinstance(v, str))
BYTES = Kind("bytes", lambda v: isinstance(v, bytes))
QOS = Kind("0, 1 or 2", lambda v: _is_int(v) and 0 <= v <= 2)
CODE = Kind("a reason code of MQTT 5", lambda v: isinstance(v, int) and v in CODES)
TOPIC = Kind("a topic without wildcards (str)", _is_topic)
SUBSCRIBER = Kind("a pair (mountpoint, client id), the client id not empty", _is_subscriber)
PROPERTIES = Kind("a dict of properties", lambda v: isinstance(v, Mapping))
LIST = Kind("a list", lambda v: isinstance(v, list))
OPTIONS = Kind("a dict of options", lambda v: isinstance(v, Mapping))
POLICY = Kind('True, False, "on", "off" or "majority"', lambda v: isinstance(v, bool) or v in ("on", "off", "majority"))
SHARING = Kind(
    "prefer_local, random, local_only or prefer_online_before_local",
    lambda v: v in ("prefer_local", "random", "local_only", "prefer_online_before_local"),
)
ORDER = Kind("fifo or lifo", lambda v: v in ("fifo", "lifo"))

SESSION: Final = {
    "subscriber_id": SUBSCRIBER,
    "username": TEXT,
    "reg_view": TEXT,
    "max_message_size": COUNT,
    "max_message_rate": COUNT,
    "max_inflight_messages": COUNT,
    "retry_interval": COUNT,
    "upgrade_qos": BOOL,
    "shared_subscription_policy": SHARING,
    "max_connection_lifetime": COUNT,
    "allow_register": POLICY,
    "allow_publish": POLICY,
    "allow_subscribe": POLICY,
    "allow_unsubscribe": POLICY,
    "queue_deliver_mode": TEXT,
    "queue_type": ORDER,
    "queue_replicas": COUNT,
    "max_online_messages": INT,
    "max_offline_messages": INT,
    "allow_multiple_sessions": BOOL,
    "max_drain_time": COUNT,
    "max_msgs_per_drain_step": COUNT,
    "tcp_opts": OPTIONS,
}
SESSION_M5: Final = SESSION | {
    "clean_start": BOOL,
    "session_expiry_interval": COUNT,
    "fc_receive_max_client": COUNT,
    "fc_receive_max_broker": COUNT,
    "topic_alias_max": COUNT,
    "max_packet_size": COUNT,
    "request_problem_info": BOOL,
    "properties": PROPERTIES,
}
PUBLISH: Final = {
    "topic": TOPIC,
    "payload": BYTES,
    "qos": QOS,
    "retain": BOOL,
    "mountpoint": TEXT,
    "throttle": COUNT,
}
DELIVER: Final = {"topic": TOPIC, "payload": BYTES}
TOPICS: Final = {"topics": LIST}
WITH_PROPERTIES: Final = {"properties": PROPERTIES}

_CONNECT = ("peer", "subscriber", "user", "password")
_CLIENT = ("user", "subscriber")
_MESSAGE = ("qos", "topic", "payload", "retain")

_SPECS = (
    HookSpec(
        "auth_on_register",
        (*_CONNECT, "clean_session", "conn_opts"),
        TILL_OK,
        SESSION | {"clean_session": BOOL},
        optional=1,
    ),
    HookSpec("auth_on_publish", (*_CLIENT, *_MESSAGE), TILL_OK, PUBLISH),
    HookSpec("auth_on_subscribe", (*_CLIENT, "subscriptions"), TILL_OK, TOPICS),
    HookSpec("on_register", ("peer", "subscriber", "user"), ALL, {}),
    HookSpec("on_publish", (*_CLIENT, *_MESSAGE), ALL, {}),
    HookSpec("on_subscribe", (*_CLIENT, "subscriptions"), ALL, {}),
    HookSpec("on_unsubscribe", (*_CLIENT, "topics"), TILL_OK, TOPICS),
    HookSpec("on_deliver", (*_CLIENT, *_MESSAGE, "properties"), TILL_OK, DELIVER, optional=1),
    HookSpec("on_offline_message", ("subscriber", *_MESSAGE), ALL, {}),
    HookSpec("on_client_wakeup", ("subscriber",), ALL, {}),
    HookSpec("on_client_offline", ("subscriber",), ALL, {}),
    HookSpec("on_client_gone", ("subscriber",), ALL, {}),
    HookSpec("on_session_expired", ("subscriber",), ALL, {}),
    HookSpec("on_topic_unsubscribed", ("subscriber", "topics"), ALL, {}),
    HookSpec("on_message_drop", ("subscriber", "message", "reason"), ALL, {}),
    HookSpec("change_config", ("changed",), ALL, {}),
    HookSpec(
        "auth_on_register_m5",
        (*_CONNECT, "clean_start", "properties", "conn_opts"),
        TILL_OK,
        SESSION_M5,
        optional=1,
        v4="auth_on_register",
    ),
    HookSpec(
        "auth_on_publish_m5",
        (*_CLIENT, *_MESSAGE, "properties"),
        TILL_OK,
        PUBLISH | WITH_PROPERTIES,
        v4="auth_on_publish",
    ),
    HookSpec(
        "auth_on_subscribe_m5",
        (*_CLIENT, "subscriptions", "properties"),
        TILL_OK,
        TOPICS | WITH_PROPERTIES,
        v4="auth_on_subscribe",
    ),
    HookSpec(
        "on_auth_m5",
        (*_CLIENT, "properties"),
        TILL_OK,
        {"reason_code": CODE, "username": TEXT} | WITH_PROPERTIES,
    ),
    HookSpec("on_register_m5", ("peer", "subscriber", "user", "properties"), ALL, {}, v4="on_register"),
    HookSpec("on_publish_m5", (*_CLIENT, *_MESSAGE, "properties"), ALL, {}, v4="on_publish"),
    HookSpec("on_subscribe_m5", (*_CLIENT, "subscriptions", "properties"), ALL, {}, v4="on_subscribe"),
    HookSpec(
        "on_unsubscribe_m5",
        (*_CLIENT, "topics", "properties"),
        TILL_OK,
        TOPICS | WITH_PROPERTIES,
        v4="on_unsubscribe",
    ),
    HookSpec(
        "on_deliver_m5",
        (*_CLIENT, *_MESSAGE, "properties"),
        TILL_OK,
        DELIVER | WITH_PROPERTIES,
        v4="on_deliver",
    ),
)

HOOKS: Final[Mapping[str, HookSpec]] = {spec.name: spec for spec in _SPECS}


_PACKETS: Final = {
    "auth_on_register": ("Connack",),
    "auth_on_publish": ("Puback",),
    "auth_on_subscribe": ("Suback",),
    "on_auth": ("Auth", "Connack", "Disconnect"),
    "on_unsubscribe": ("Unsuback",),
}
_MESSAGES: Final = ("Publish", "Will")


def check_properties(spec: HookSpec, properties: Mapping[str, Any], message: bool) -> None:
    """ValueError if no packet that these properties may go to can carry them; `message`: they are the message's own."""
    if "authentication_data" in properties:
        properties = {"authentication_method": "", **properties}  # the broker itself names the method
    problem: Exception | None = None
    for packet in _MESSAGES if message else spec.packets:
        try:
            encode_properties(dict(properties), packet)
        except (ValueError, TypeError, AttributeError) as error:
            problem = problem or error
        else:
            return
    raise ValueError(f"{spec.name}: {problem or 'it has no properties'}")


def refusals(spec: HookSpec) -> frozenset[int]:
    """The reason codes with which a plugin may refuse [MQTT5-3.2.2-8] [MQTT5-3.4.2-1] [MQTT5-3.9.3-2]."""
    legal = [ALLOWED[packet] for packet in spec.packets]
    return FAILURES.intersection(frozenset().union(*legal)) if legal else FAILURES


def checked_modifiers(spec: HookSpec, args: tuple[Any, ...], modifiers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the modifiers. Raises ValueError for an unknown name, with the known names, and for a wrong value."""
    for name, value in modifiers.items():
        kind = spec.modifiers.get(name)
        if kind is None:
            known = ", ".join(sorted(spec.modifiers)) or "none"
            raise ValueError(f"{spec.name} does not know the modifier {name!r}; known are: {known}")
        if not kind.fits(value):
            raise ValueError(f"{spec.name}: the modifier {name!r} must be {kind.text}, not {value!r}")
    checked = dict(modifiers)
    if "properties" in checked:
        check_properties(spec, checked["properties"], "payload" in spec.arguments)
    if "topics" in checked:
        asked = args[spec.arguments.index("subscriptions" if "subscriptions" in spec.arguments else "topics")]
        checked["topics"] = _checked_topics(spec, asked, checked["topics"])
    return checked


def _checked_topics(spec: HookSpec, asked: list[Any], topics: list[Any]) -> list[Any]:
    """One entry for each that was asked: SUBACK and v5 UNSUBACK answer filter by filter [MQTT-3.8.4-5]."""
    if len(topics) != len(asked):
        raise ValueError(f"{spec.name} returned {len(topics)} topics for {len(asked)} that were asked")
    if "subscriptions" not in spec.arguments:
        for topic in topics:
            if not isinstance(topic, str) or not topic:
                raise ValueError(f"{spec.name}: {topic!r} is no topic filter")
        return list(topics)
    return [_checked_subscription(spec, entry) for entry in topics]


def _checked_subscription(spec: HookSpec, entry: Any) -> tuple[str, Any]:
    if isinstance(entry, (tuple, list)) and len(entry) == 2:
        topic, wanted = entry
        if wanted == "not_allowed":
            wanted = NOT_ALLOWED
        qos: Any = wanted.get("qos") if isinstance(wanted, Mapping) else wanted
        if isinstance(topic, str) and topic and isinstance(qos, int) and (0 <= qos <= 2 or qos in ALLOWED["Suback"]):
            return topic, wanted
    raise ValueError(f"{spec.name}: {entry!r} is no pair of a topic filter and a QoS, a refusal code or options")
