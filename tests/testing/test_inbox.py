"""The messages that a test has not taken yet: in order, each once, and an error if none can come."""

from __future__ import annotations

import asyncio

import pytest

from strogoff.testing.client_session import Message
from strogoff.testing.inbox import Inbox

ONE, TWO, THREE = (Message("t", text) for text in (b"1", b"2", b"3"))


def test_messages_are_taken_in_order() -> None:
    """One that was put back is the next one."""
    inbox = Inbox()
    for message in (ONE, TWO):
        inbox.put(message)
    assert inbox.take() == [ONE, TWO] and inbox.take() == []
    inbox.put(THREE)
    inbox.put_back(TWO)
    inbox.put_back(ONE)
    assert inbox.take() == [ONE, TWO, THREE]


def test_each_waiter_gets_another_message() -> None:
    """Also one that was put back. A waiter that is woken without a message waits on, or has the error of its check."""
    closed = False

    def check() -> None:
        if closed:
            raise ConnectionError

    async def test() -> None:
        nonlocal closed
        inbox = Inbox()
        waiting = [asyncio.create_task(inbox.next(check)) for _ in range(3)]
        await asyncio.sleep(0)
        inbox.put(TWO)
        inbox.put_back(ONE)
        assert await asyncio.gather(*waiting[:2]) == [ONE, TWO]
        inbox.wake()
        await asyncio.sleep(0)
        assert not waiting[2].done()
        closed = True
        inbox.wake()
        with pytest.raises(ConnectionError):
            await waiting[2]
        inbox.put(THREE)
        assert await inbox.next(check) == THREE

    asyncio.run(test())
