"""Asking and telling plugins: order, answers, errors, asynchronous plugins, the v3 form for v5 clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from strogoff.broker.plugins.hooks import (
    BROKEN,
    NEXT,
    Allow,
    Hooks,
    PluginError,
    Refuse,
    Subscriber,
    Verdict,
    load_plugin,
)

SUB = Subscriber("", "c1")
PUBLISH = ("ann", SUB, 1, "a/b", b"x", False)
REGISTER = (("127.0.0.1", 4711), SUB, "ann", b"secret", True)


class Errors(list[tuple[str, str, BaseException]]):
    def __call__(self, plugin: str, hook: str, error: BaseException) -> None:
        self.append((plugin, hook, error))


class Publish:
    """A plugin that answers every publish alike and remembers what it was asked."""

    def __init__(self, answer: object, log: list[Any] | None = None, name: str = "") -> None:
        self.answer, self.log, self.name = answer, log if log is not None else [], name

    def auth_on_publish(self, *args: Any) -> object:
        self.log.append((self.name, args))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class AsyncPublish(Publish):
    async def auth_on_publish(self, *args: Any) -> object:
        await asyncio.sleep(0)
        return super().auth_on_publish(*args)


def hooks(**plugins: object) -> Hooks:
    made = Hooks(on_error=Errors())
    for name, plugin in plugins.items():
        made.add(name, plugin)
    return made


def errors(of: Hooks) -> Errors:
    assert isinstance(of._on_error, Errors)
    return of._on_error


def verdict(answer: Verdict | Awaitable[Verdict]) -> Verdict:
    if isinstance(answer, (Allow, Refuse)):
        return answer

    async def wait() -> Verdict:
        return await answer

    return asyncio.run(wait())


@pytest.mark.parametrize("kind", [Publish, AsyncPublish])
def test_till_ok_stops_at_the_first_plugin_that_answers(kind: type[Publish]) -> None:
    log: list[Any] = []
    h = hooks(
        a=kind(NEXT, log, "a"), b=Publish(None, log, "b"), c=kind({"qos": 0}, log, "c"), d=Publish(False, log, "d")
    )
    assert verdict(h.ask("auth_on_publish", *PUBLISH)) == Allow({"qos": 0})
    assert [name for name, _ in log] == ["a", "b", "c"]
    assert log[0][1] == PUBLISH


def test_a_refusal_stops_the_chain_too() -> None:
    h = hooks(a=Publish(Refuse("enough", 0x97)), b=Publish(True))
    assert h.ask("auth_on_publish", *PUBLISH) == Refuse("enough", 0x97)


def test_no_plugins_and_no_plugins_left() -> None:
    assert hooks().ask("auth_on_publish", *PUBLISH) == Refuse("no_matching_hook_found")
    assert verdict(hooks(a=Publish(None), b=AsyncPublish("next")).ask("auth_on_publish", *PUBLISH)) == Refuse(
        "plugin_chain_exhausted"
    )
    assert not hooks().has("auth_on_publish")
    assert hooks(a=Publish(None)).has("auth_on_publish")
    with pytest.raises(KeyError, match="on_nothing"):
        hooks().ask("on_nothing")


def test_priority_orders_and_equal_ones_keep_the_order_of_adding() -> None:
    h = hooks(b=Publish(True), a=Publish(True))
    h.add("late", Publish(True), priority=9)
    h.add("early", Publish(True), priority=-1)
    assert h.names == ("early", "b", "a", "late")


def test_a_listeners_chain_names_plugins_and_order() -> None:
    h = hooks(a=Publish(True), b=Publish(False), c=Publish(None))
    assert h.ask("auth_on_publish", *PUBLISH, chain=["c", "b", "a"]) == Refuse("not_authorized")
    assert h.ask("auth_on_publish", *PUBLISH, chain=("c",)) == Refuse("plugin_chain_exhausted")
    assert h.ask("auth_on_publish", *PUBLISH, chain=()) == Refuse("no_matching_hook_found")
    h.check_chain(["c", "a"])
    with pytest.raises(PluginError, match="no plugin named 'x' is enabled; enabled are: a, b, c"):
        h.check_chain(["a", "x"])
    with pytest.raises(PluginError, match="'a' is named twice"):
        h.check_chain(["a", "b", "a"])


@pytest.mark.parametrize("kind", [Publish, AsyncPublish])
@pytest.mark.parametrize(
    "wrong", [RuntimeError("boom"), 3, "yes", {"colour": 1}, {"qos": 3}, Allow({"colour": 1}), Refuse("no", 0x10)]
)
def test_an_error_of_a_plugin_refuses_and_is_reported(kind: type[Publish], wrong: object) -> None:
    h = hooks(bad=kind(wrong), good=Publish(True))
    assert verdict(h.ask("auth_on_publish", *PUBLISH)) == Refuse("plugin_error")
    assert [(plugin, hook) for plugin, hook, _ in errors(h)] == [("bad", "auth_on_publish")]


def test_the_answer_comes_at_once_unless_an_async_plugin_was_asked() -> None:
    h = hooks(a=Publish(True), b=AsyncPublish(False))
    assert h.ask("auth_on_publish", *PUBLISH) == Allow()


def test_an_async_answer_has_a_limit_of_time() -> None:
    class Stuck:
        async def auth_on_publish(self, *args: Any) -> bool:
            await asyncio.Event().wait()
            return True

    seen = Errors()
    h = Hooks(on_error=seen, within=lambda work: asyncio.wait_for(work, 0.01))
    h.add("stuck", Stuck())
    assert verdict(h.ask("auth_on_publish", *PUBLISH)) == Refuse("plugin_error")
    assert isinstance(seen[0][2], TimeoutError)


def test_cancelling_the_caller_is_no_error_of_the_plugin() -> None:
    h = hooks(a=AsyncPublish(True))

    async def run() -> None:
        answer = h.ask("auth_on_publish", *PUBLISH)
        assert not isinstance(answer, (Allow, Refuse))
        task = asyncio.ensure_future(answer)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert not errors(h)


def test_cacheable_only_if_every_plugin_asked_would_always_say_the_same() -> None:
    yes = Publish(Allow(cacheable=True))
    assert hooks(a=yes).ask("auth_on_publish", *PUBLISH) == Allow(cacheable=True)
    looks_at_the_payload = Publish(NEXT)
    assert hooks(a=looks_at_the_payload, b=yes).ask("auth_on_publish", *PUBLISH) == Allow()
    steady = Publish(NEXT)
    steady.cacheable_hooks = {"auth_on_publish"}  # type: ignore[attr-defined]
    assert hooks(a=steady, b=yes).ask("auth_on_publish", *PUBLISH) == Allow(cacheable=True)
    assert verdict(hooks(a=AsyncPublish(NEXT), b=yes).ask("auth_on_publish", *PUBLISH)) == Allow()


def test_epoch_changes_with_plugins_and_on_demand() -> None:
    h = hooks()
    seen = [h.epoch]
    h.add("a", Publish(True))
    seen.append(h.epoch)
    h.invalidate()
    seen.append(h.epoch)
    h.remove("a")
    seen.append(h.epoch)
    assert len(set(seen)) == 4
    assert h.ask("auth_on_publish", *PUBLISH) == Refuse("no_matching_hook_found")


# -- the v3 form for v5 clients


class Old:
    """A plugin with v3 forms only."""

    def __init__(self, answer: object) -> None:
        self.answer, self.seen = answer, list[tuple[Any, ...]]()

    def auth_on_register(self, peer: Any, subscriber: Any, user: Any, password: Any, clean_session: bool) -> object:
        self.seen.append((peer, subscriber, user, password, clean_session))
        return self.answer

    def auth_on_subscribe(self, user: Any, subscriber: Any, subscriptions: Any) -> object:
        self.seen.append((user, subscriber, subscriptions))
        return self.answer

    def on_publish(self, *args: Any) -> None:
        self.seen.append(args)

    def on_deliver(self, *args: Any) -> object:
        self.seen.append(args)
        return b"other"


def test_v3_register_serves_v5() -> None:
    old = Old({"clean_session": False, "max_inflight_messages": 5})
    answer = hooks(old=old).ask("auth_on_register_m5", *REGISTER, {"receive_maximum": 9}, {"listener": "x"})
    assert answer == Allow({"clean_start": False, "max_inflight_messages": 5})
    assert old.seen == [REGISTER]


def test_v3_subscribe_serves_v5_and_keeps_the_options() -> None:
    old = Old([("a", 1), ("c", "not_allowed")])
    asked = [("a", {"qos": 2, "no_local": True}), ("b", {"qos": 0, "no_local": False})]
    answer = hooks(old=old).ask("auth_on_subscribe_m5", "ann", SUB, asked, {})
    assert answer == Allow({"topics": [("a", {"qos": 1, "no_local": True}), ("c", 0x80)]})
    assert old.seen == [("ann", SUB, [("a", 2), ("b", 0)])]


def test_v3_notification_and_delivery_serve_v5() -> None:
    old = Old(None)
    h = hooks(old=old)
    h.notify("on_publish_m5", *PUBLISH, {"content_type": "x"})
    assert h.ask("on_deliver_m5", *PUBLISH, {"content_type": "x"}) == Allow({"payload": b"other"})
    assert old.seen == [PUBLISH, (*PUBLISH, {"content_type": "x"})]
    assert h.implemented_by("old") == ("auth_on_register", "auth_on_subscribe", "on_publish", "on_deliver")


def test_v5_only_modifiers_are_not_known_to_the_v3_form() -> None:
    h = hooks(old=Old({"session_expiry_interval": 5}))
    assert h.ask("auth_on_register_m5", *REGISTER, {}) == Refuse("plugin_error")


def test_the_v5_form_is_preferred_and_alone_does_not_serve_v3() -> None:
    class New:
        def auth_on_publish_m5(self, *args: Any) -> dict[str, Any]:
            return {"properties": {"content_type": "y"}}

    class Both(New):
        def auth_on_publish(self, *args: Any) -> bool:
            return False

    assert hooks(n=Both()).ask("auth_on_publish_m5", *PUBLISH, {}) == Allow({"properties": {"content_type": "y"}})
    assert hooks(n=New()).ask("auth_on_publish", *PUBLISH) == Refuse("no_matching_hook_found")


def test_connection_options_reach_only_plugins_that_take_them() -> None:
    class Wants:
        def auth_on_register(
            self, peer: Any, subscriber: Any, user: Any, password: Any, clean: bool, opts: Any = None
        ) -> bool:
            return bool(opts)

    assert hooks(w=Wants()).ask("auth_on_register", *REGISTER, {"cn": "x"}) == Allow()
    assert hooks(w=Wants()).ask("auth_on_register", *REGISTER) == Refuse("not_authorized")


# -- telling


def test_notify_calls_every_plugin_despite_errors() -> None:
    told: list[str] = []

    class Listener:
        def __init__(self, name: str) -> None:
            self.name = name

        def on_client_gone(self, subscriber: Subscriber) -> bool:
            told.append(self.name)
            if self.name == "b":
                raise RuntimeError("boom")
            return False

    h = hooks(a=Listener("a"), b=Listener("b"), c=Listener("c"))
    h.notify("on_client_gone", SUB)
    assert told == ["a", "b", "c"]
    assert [(plugin, hook) for plugin, hook, _ in errors(h)] == [("b", "on_client_gone")]


def test_without_a_spawn_port_an_async_notification_is_an_error_not_a_crash() -> None:
    class Listener:
        async def on_client_gone(self, subscriber: Subscriber) -> None: ...

    h = hooks(a=Listener())
    h.notify("on_client_gone", SUB)
    assert "spawn" in str(errors(h)[0][2])


def test_without_an_error_port_errors_are_python_warnings() -> None:
    h = Hooks()
    h.add("a", Publish(RuntimeError("boom")))
    with pytest.warns(RuntimeWarning, match="'a' failed in auth_on_publish.*boom"):
        assert h.ask("auth_on_publish", *PUBLISH) == Refuse("plugin_error")


# -- plugins that cannot be added


def method(function: Callable[..., object]) -> object:
    return type("P", (), {function.__name__: function})()


def test_plugins_that_cannot_be_used_are_refused_with_a_reason() -> None:
    def on_publsh(self: Any) -> None: ...

    def on_publish(self: Any, topic: str) -> None: ...

    def on_client_gone(self: Any, subscriber: Any, more: Any) -> None: ...

    h = hooks(a=Publish(True))
    before = h.epoch
    for name, plugin, text in [
        ("a", Publish(True), "already there"),
        ("b", object(), "implements no hook"),
        ("b", method(on_publsh), "on_publsh is no hook; hooks are: auth_on_register"),
        ("b", method(on_publish), r"on_publish must be a method with the arguments \(user, subscriber, qos, topic"),
        ("b", method(on_client_gone), r"with the arguments \(subscriber\)"),
        ("b", type("P", (), {"on_publish": 3})(), "on_publish must be a method"),
    ]:
        with pytest.raises(PluginError, match=text):
            h.add(name, plugin)
    assert h.names == ("a",)
    assert h.epoch == before


def test_load_plugin_is_part_of_the_interface() -> None:
    assert callable(load_plugin)


class Leaves:
    """A plugin that raises an error other than `Exception`."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def auth_on_register(self, peer: Any, subscriber: Any, user: Any, password: Any, clean: Any) -> bool:
        raise self.error

    def on_client_gone(self, subscriber: Any) -> None:
        raise self.error


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit, GeneratorExit])
def test_a_plugin_that_raises_a_base_exception_refuses_and_is_reported(error: type[BaseException]) -> None:
    """Before, the client got no answer, and the error reached the event loop."""
    errors: list[tuple[str, str]] = []
    hooks = Hooks(on_error=lambda plugin, hook, error: errors.append((plugin, hook)))
    hooks.add("leaves", Leaves(error))
    assert hooks.ask("auth_on_register", ("127.0.0.1", 1), Subscriber("", "c"), "u", b"p", True) == BROKEN
    hooks.notify("on_client_gone", Subscriber("", "c"))
    assert errors == [("leaves", "auth_on_register"), ("leaves", "on_client_gone")]
    hooks.add("stops", Leaves(KeyboardInterrupt), -1)
    with pytest.raises(KeyboardInterrupt):
        hooks.ask("auth_on_register", ("127.0.0.1", 1), Subscriber("", "c"), "u", b"p", True)
    with pytest.raises(KeyboardInterrupt):
        hooks.notify("on_client_gone", Subscriber("", "c"))
