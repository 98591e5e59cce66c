"""A plugin that knows only the v3 form of a hook serves MQTT 5 clients too: here is the translation."""

from __future__ import annotations

from typing import Any

from .hook_table import HOOKS, HookSpec
from .verdicts import Allow, Answer


def args_for_v4(spec: HookSpec, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of the v3 form: no properties, a plain QoS in place of subscription options."""
    if "properties" not in HOOKS[spec.v4].arguments:
        at = spec.arguments.index("properties")
        args = args[:at] + args[at + 1 :]
    if "subscriptions" in spec.arguments:
        at = spec.arguments.index("subscriptions")
        plain = [(topic, _qos_of(wanted)) for topic, wanted in args[at]]
        args = (*args[:at], plain, *args[at + 1 :])
    return args


def answer_from_v4(spec: HookSpec, args: tuple[Any, ...], answer: Answer) -> Answer:
    """The answer of the v3 form as the v5 form would have given it; `args` are those of the v5 form."""
    if not isinstance(answer, Allow) or not answer.modifiers:
        return answer
    modifiers = dict(answer.modifiers)
    if "clean_session" in modifiers:
        modifiers["clean_start"] = modifiers.pop("clean_session")
    if "topics" in modifiers and "subscriptions" in spec.arguments:
        asked = args[spec.arguments.index("subscriptions")]
        modifiers["topics"] = [
            (topic, _with_options(qos, wanted))
            for (topic, qos), (_, wanted) in zip(modifiers["topics"], asked, strict=True)
        ]
    return Allow(modifiers, answer.cacheable)


def _qos_of(wanted: Any) -> int:
    qos: int = wanted if isinstance(wanted, int) else wanted["qos"]
    return qos


def _with_options(qos: Any, wanted: Any) -> Any:
    """The options that the client asked for, with the QoS that the plugin gave; a refusal stays a plain code."""
    if not isinstance(qos, int) or qos > 2 or isinstance(wanted, int):
        return qos
    return {**wanted, "qos": qos}
