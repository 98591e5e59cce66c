"""A loop in a thread: results and errors reach the caller, and tasks left at its end are reported."""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent.futures import Future

import pytest

from strogoff.testing.client_errors import MqttClosed
from strogoff.testing.runtime import loop_thread
from strogoff.testing.runtime.loop_thread import LoopThread
from strogoff.testing.runtime.node_handle import LeakError


def test_results_and_errors_reach_the_caller() -> None:
    """Blocking, by function, and from another loop."""

    async def where() -> str:
        return threading.current_thread().name

    async def fails() -> None:
        raise KeyError("x")

    thread = LoopThread("elsewhere")
    assert thread.call(where()) == "elsewhere" == thread.ask(lambda: threading.current_thread().name)
    assert asyncio.run(thread.bridge(where())) == "elsewhere"
    with pytest.raises(KeyError):
        thread.call(fails())
    thread.stop()
    thread.stop()
    assert "elsewhere" not in {each.name for each in threading.enumerate()}


def test_a_task_left_at_the_end_is_reported() -> None:
    """The thread ends nevertheless."""
    thread = LoopThread("leaky")
    event = asyncio.Event()
    task = thread.ask(lambda: asyncio.ensure_future(event.wait()))
    with pytest.raises(LeakError, match="tasks are left"):
        thread.stop()
    assert not task.done() and "leaky" not in {each.name for each in threading.enumerate()}
    task.get_coro().close()


def test_an_interrupted_call_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C, or a plugin that limits the time of tests: the work is cancelled, and can clean up."""
    thread = LoopThread("interrupted")
    cleaned = []

    async def works() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    def interrupted(self: Future[None], timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Future, "exception", interrupted)
        with pytest.raises(KeyboardInterrupt):
            thread.call(works())
    thread.stop()
    assert cleaned == [True]


def test_it_is_stopped_from_a_running_loop() -> None:
    """A blocking call in an asyncio test works as well."""

    async def test() -> None:
        thread = LoopThread("beside")
        thread.ask(lambda: None)
        thread.stop()
        assert thread._loop.is_closed()

    asyncio.run(test())


def test_a_limit_of_the_caller_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long wait of the caller is not cut short."""
    monkeypatch.setattr(loop_thread, "CALL_S", 0.05)
    thread = LoopThread("slow")

    async def takes_long() -> str:
        done = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.1, done.set_result, "done")
        return str(await done)

    with pytest.raises(TimeoutError, match=r"no end within 0\.05 s: something blocks the thread of the brokers"):
        thread.call(takes_long())
    assert thread.call(takes_long(), 0.1) == "done"
    thread.stop()


def test_a_bridge_needs_asyncio() -> None:
    """The error says what to do in a test for another library."""
    thread = LoopThread("bridged")

    async def work() -> None:
        pass

    with pytest.raises(RuntimeError, match="no asyncio loop runs: in a test for trio use the blocking methods"):
        thread.bridge(work()).send(None)
    thread.stop()


@pytest.mark.filterwarnings("error")
def test_a_thread_that_has_ended_says_so() -> None:
    """A test calls a client of a closed cluster, blocking or from another loop. No coroutine stays unawaited."""
    thread = LoopThread("ended")
    thread.stop()
    started = []

    async def work() -> None:
        started.append(True)

    with pytest.raises(MqttClosed, match=r"^the cluster of this client is closed$"):
        thread.ask(lambda: None)
    for call in (thread.call, lambda work: asyncio.run(thread.bridge(work))):
        coroutine = work()
        with pytest.raises(MqttClosed, match=r"^the cluster of this client is closed$"):
            call(coroutine)
        assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
    assert started == []
