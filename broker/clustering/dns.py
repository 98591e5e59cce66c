"""Addresses of names: DNS, which may fail for a while, or say nothing for half a minute."""

from __future__ import annotations

import asyncio
import socket
import threading

from ...cluster.membership.discovery import written

ANSWER_S = 2.0
"""How long a caller waits. The question goes on, and the next caller gets its answer."""


class NoAnswerError(OSError):
    """DNS does not answer now: whether the name exists is not known."""


class Resolver:
    """What names stand for. Each is asked for once at a time, in a thread for which the process does not wait at its
    end: nothing else ends a question before it is answered."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, int], asyncio.Future[list[str] | OSError]] = {}

    async def addresses(self, host: str, port: int) -> list[str]:
        """`HOST:PORT` for each address of the name. Raises `NoAnswerError`, or OSError if there is no such name."""
        answer = self._asked.get((host, port))
        if answer is None:
            answer = self._asked[host, port] = asyncio.get_running_loop().create_future()
            threading.Thread(target=_ask, args=(host, port, answer), name=f"dns {host}", daemon=True).start()
        await asyncio.wait((answer,), timeout=ANSWER_S)
        if not answer.done():
            raise NoAnswerError(f"DNS has not answered within {ANSWER_S:g} s")
        if self._asked.get((host, port)) is answer:
            del self._asked[host, port]
        found = answer.result()
        if isinstance(found, OSError):
            raise found
        return found


def _ask(host: str, port: int, answer: asyncio.Future[list[str] | OSError]) -> None:
    found: list[str] | OSError
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        found = sorted({written(str(info[4][0]), port) for info in infos})
    except socket.gaierror as error:
        found = NoAnswerError(*error.args) if error.errno == socket.EAI_AGAIN else error
    except OSError as error:
        found = error
    except UnicodeError:
        found = OSError("this cannot be a name: its parts have 1 to 63 characters")
    try:
        answer.get_loop().call_soon_threadsafe(answer.set_result, found)
    except RuntimeError:  # the loop is closed, with all callers
        return
