"""Resolve host names to addresses by DNS, which may fail for a while, or not answer for half a minute."""

from __future__ import annotations

import asyncio
import socket
import threading

from ...cluster.membership.discovery import written

ANSWER_S = 2.0
"""How long a caller waits. The query continues after that, and the next caller gets its answer."""


class NoAnswerError(OSError):
    """DNS does not answer now, so this node does not know whether the name exists."""


class Resolver:
    """Resolves names. There is at most one query for a name at a time, in a daemon thread: a query cannot be cancelled,
    and the end of the process must not wait for it."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, int], asyncio.Future[list[str] | OSError]] = {}

    async def addresses(self, host: str, port: int) -> list[str]:
        """Return `HOST:PORT` for each address of the name. Raises `NoAnswerError`, or OSError if the name does not
        exist."""
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
        found = OSError("this is no host name: each of its parts must have 1 to 63 characters")
    try:
        answer.get_loop().call_soon_threadsafe(answer.set_result, found)
    except RuntimeError:  # the loop is closed, and its callers have ended
        return
