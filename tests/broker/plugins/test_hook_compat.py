"""Arguments and answers of v3 hooks, translated for MQTT 5 clients."""

from __future__ import annotations

import pytest

from strogoff.broker.plugins.hook_compat import answer_from_v4, args_for_v4
from strogoff.broker.plugins.hook_table import HOOKS
from strogoff.broker.plugins.verdicts import NEXT, Allow, Answer, Refuse


@pytest.mark.parametrize("name", [name for name, spec in HOOKS.items() if spec.v4])
def test_every_v5_hook_gives_its_v3_form_the_arguments_it_declares(name: str) -> None:
    spec = HOOKS[name]
    args = tuple([("a", {"qos": 1})] if a == "subscriptions" else a for a in spec.arguments)
    names = tuple("subscriptions" if a == [("a", 1)] else a for a in args_for_v4(spec, args))
    assert tuple(a.replace("clean_start", "clean_session") for a in names) == HOOKS[spec.v4].arguments


def test_a_plain_qos_stays_plain() -> None:
    spec = HOOKS["auth_on_subscribe_m5"]
    assert args_for_v4(spec, ("u", "s", [("a", 2)], {})) == ("u", "s", [("a", 2)])
    assert answer_from_v4(spec, ("u", "s", [("a", 2)], {}), Allow({"topics": [("a", 1)]})) == Allow(
        {"topics": [("a", 1)]}
    )


@pytest.mark.parametrize("answer", [NEXT, Refuse("no"), Allow(), Allow(cacheable=True)])
def test_answers_without_modifiers_are_the_same_in_both_forms(answer: Answer) -> None:
    assert answer_from_v4(HOOKS["auth_on_publish_m5"], (), answer) is answer


def test_clean_session_is_clean_start_and_a_kept_answer_stays_kept() -> None:
    spec = HOOKS["auth_on_register_m5"]
    assert answer_from_v4(spec, (), Allow({"clean_session": True}, True)) == Allow({"clean_start": True}, True)
