"""`discovery.kubernetes.selector`: the pods with these labels, from the API of Kubernetes.

The node lists the pods and then watches their changes. The role of its service account needs `get`, `list` and, better,
`watch` for pods; without `watch` the node lists them again and again.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path

import aiohttp
from msgspec import Struct

from ...cluster.membership.discovery import PORT, AddressError, parse_address
from .pods import ListAgain, Malformed, Pods
from .source import Announcement, Say, Seen
from .worker import Worker

PACE_S = 1.0
"""The least time from one request to the next, in seconds."""
ANSWER_S = 10.0
"""How long the API may take to answer a list, and to begin a watch."""
UNSEEN_S = 30.0
"""How often a node that may not watch lists the pods while it looks for nobody, in seconds."""
WATCH_S = 240
"""How long a watch lasts; then the next one begins."""
MOST_BYTES = 16 * 1024 * 1024
"""The longest list, and the longest line of a watch, in bytes."""
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod has the token and the certificate of its service account."""


class KubernetesPlace(Struct, frozen=True):
    """Where the API is, and which pods count. `api` is its URL. `insecure`: do not check its certificate. The token is
    read again for each request, because it is replaced each hour."""

    api: str
    namespace: str
    selector: str
    token_file: Path = ACCOUNT / "token"
    ca_file: Path = ACCOUNT / "ca.crt"
    insecure: bool = False

    def __str__(self) -> str:
        return f"pods with {self.selector} in namespace {self.namespace} ({self.api})"


class _Refused(Exception):
    """The API has answered with another status than 200."""

    def __init__(self, status: int, text: str) -> None:
        hint = ": its service account needs a role with get, list and watch of pods" if status == 403 else ""
        super().__init__(f"status {status}{hint}: {text}")
        self.status = status


class KubernetesPods(Worker):
    """The pods at `place`. A node listens on the same port in each pod as this one does."""

    key = "discovery.kubernetes.selector"

    def __init__(self, place: KubernetesPlace, pace_s: float = PACE_S) -> None:
        super().__init__(str(place), pace_s)
        self._place = place
        self._pods = Pods()
        self._port = PORT
        self._may_watch = True
        self._looked = asyncio.Event()

    def begin(self, me: Announcement, say: Say) -> None:
        """As `Source.begin`."""
        with suppress(AddressError):
            self._port = parse_address(me.address)[1]
        self._start(self._run(), say)

    async def look(self) -> Seen:
        """As `Source.look`."""
        self._looked.set()
        return self._seen(self._pods.at(self._port))

    async def claim(self) -> str:
        """As `Source.claim`: not while the API does not answer, because a cluster may exist."""
        return self._problem

    async def _run(self) -> None:
        """Work as long as the node lives. Whatever fails is a problem that ends some time."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._pace.wait_s(loop.time()))
            self._pace.asked(loop.time())
            try:
                async with aiohttp.ClientSession(read_bufsize=MOST_BYTES // 2) as session:
                    await self._list(session)
                    self._pace.succeeded()
                    self._problem = ""
                    while self._may_watch:
                        await self._watch(session)
                self._looked.clear()
                await self._wait(self._looked, UNSEEN_S)
            except ListAgain:
                continue
            except Exception as error:  # of the network, the API or its answer
                self._failed(error)

    async def _list(self, session: aiohttp.ClientSession) -> None:
        async with asyncio.timeout(ANSWER_S):
            response = await self._get(session, {})
            await _check(response)
            body = await response.content.read(MOST_BYTES)
            while more := await response.content.read(MOST_BYTES - len(body) + 1):
                body += more
                if len(body) > MOST_BYTES:
                    raise Malformed(f"the list of pods is longer than {MOST_BYTES} bytes: use a narrower selector")
            self._pods.listed(body)

    async def _watch(self, session: aiohttp.ClientSession) -> None:
        """Take changes until the watch ends. Raises `ListAgain` if it cannot go on."""
        asked = {
            "watch": "1",
            "resourceVersion": self._pods.version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
        }
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._pace.wait_s(loop.time()))
        self._pace.asked(loop.time())
        async with asyncio.timeout(WATCH_S + ANSWER_S):
            async with asyncio.timeout(ANSWER_S):
                response = await self._get(session, asked)
            try:
                await _check(response)
            except _Refused as error:
                if error.status == 403:
                    self._may_watch = False
                    self._say(f"{self._where}: this node may not watch the pods, so it lists them each second")
                raise ListAgain(str(error)) from None
            while line := await response.content.readline():
                self._pods.changed(line)

    async def _get(self, session: aiohttp.ClientSession, asked: dict[str, str]) -> aiohttp.ClientResponse:
        """Send a request. The caller closes `session`, and with it the response."""
        place = self._place
        context: ssl.SSLContext | bool = True
        if place.api.startswith("https:"):
            context = False if place.insecure else ssl.create_default_context(cafile=place.ca_file)
        token = place.token_file.read_text().strip()
        return await session.get(
            f"{place.api.rstrip('/')}/api/v1/namespaces/{place.namespace}/pods",
            params={"labelSelector": place.selector, **asked},
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
            ssl=context,
        )


async def _check(response: aiohttp.ClientResponse) -> None:
    if response.status != 200:
        text = await response.content.read(1000)
        raise _Refused(response.status, text.decode(errors="replace"))
