"""`discovery.s3.bucket`: nodes find each other through a bucket of S3, or of a storage with its interface.

`bucket.py` decides; this module sends one request after the other, at most one a second.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec
from msgspec import Struct

from .bucket import MOST, BadObject, Bucket, Delete, Entry, Founder, Get, List, Put, judged
from .source import Announcement, Say, Seen
from .worker import Worker

PACE_S = 1.05
"""The least time from one request to the next, in seconds."""
CONNECT_S = 5.0
ANSWER_S = 30.0
"""How long the storage may take to accept a connection, and to answer."""
LOOKING_S = 12.0
"""For how long after a look other nodes are looked for."""
MOST_BYTES = 64 * 1024
"""What is read of an object, in bytes."""
CLAIM_S = 10.0
"""How long a node believes what it has read about the founder."""
_EXISTS = ("PreconditionFailed", "ConditionalRequestConflict", "412")


class S3Place(Struct, frozen=True):
    """A bucket. `endpoint` is the URL of the storage, "" for that of AWS. `addressing` is auto, path or virtual.
    Without `access_key` the node uses the credentials of its environment, as AWS's own tools do."""

    bucket: str
    prefix: str
    endpoint: str = ""
    region: str = ""
    addressing: str = "auto"
    access_key: str = ""
    secret_key: str = ""

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"


class S3Bucket(Worker):
    """The nodes that have an object in the bucket. Needs the library of the extra `s3`."""

    key = "discovery.s3.bucket"

    def __init__(self, place: S3Place, pace_s: float = PACE_S) -> None:
        super().__init__(str(place), pace_s)
        self._place = place
        self._turn = asyncio.Lock()
        self._looked_at = float("-inf")
        self._founder: tuple[float, Founder] | None = None
        self._overruled = False
        self._client: Any = None
        self._poke = asyncio.Event()

    def begin(self, me: Announcement, say: Say) -> None:
        """As `Source.begin`."""
        self._me, self._bucket = me, Bucket(me, self._place.prefix)
        self._start(self._run(), say)

    async def look(self) -> Seen:
        """As `Source.look`."""
        self._looked_at = asyncio.get_running_loop().time()
        self._poke.set()
        return self._seen(self._bucket.addresses)

    async def claim(self) -> str:
        """As `Source.claim`: write the object that names the founder, if it does not exist."""
        if self._problem or self._client is None:
            return self._problem
        known = self._founder
        if known is None or asyncio.get_running_loop().time() - known[0] >= CLAIM_S:
            try:
                founder = await self._claimed()
            except Exception as error:  # of the library, the network, or the storage
                self._failed(error)
                return self._problem
            known = self._founder = (asyncio.get_running_loop().time(), founder)
        lives = self._bucket.lives(known[1])
        return judged(known[1], self._me, lives, f"s3://{self._place.bucket}/{self._bucket.founder_key}")

    def overrule(self) -> None:
        """As `Source.overrule`."""
        self._overruled = True
        self._poke.set()

    # -- requests

    async def _run(self) -> None:
        """Work as long as the node lives. Whatever fails is a problem that ends some time."""
        while True:
            try:
                async with _client(self._place) as self._client:
                    while True:
                        await self._step()
            except Exception as error:  # the client cannot be made: a wrong endpoint, for example
                self._failed(error)
            self._client = None
            await asyncio.sleep(max(PACE_S, self._pace.wait_s(asyncio.get_running_loop().time())))

    async def _step(self) -> None:
        """Do what is to be done next, or wait until there is something."""
        now_s = asyncio.get_running_loop().time()
        looking = now_s - self._looked_at < LOOKING_S
        request = self._bucket.next(now_s, looking)
        if request is None and not self._overruled:
            self._poke.clear()
            await self._wait(self._poke, 1.0)
            return
        try:
            if self._overruled:
                await self._ask("put_object", Key=self._bucket.founder_key, Body=self._claim())
                self._overruled, self._founder = False, None
            elif request is not None:
                await self._send(request)
        except Exception as error:  # of the library, the network, or the storage
            self._failed(error)
        else:
            self._problem = "" if self._bucket.was_listed else self._silent

    async def _send(self, request: Put | List | Get | Delete) -> None:
        bucket = self._bucket
        if isinstance(request, Put):
            answer = await self._ask("put_object", Key=request.key, Body=request.body)
            bucket.wrote(asyncio.get_running_loop().time(), str(answer["ETag"]))
        elif isinstance(request, List):
            answer = await self._ask("list_objects_v2", Prefix=request.prefix, MaxKeys=MOST)
            bucket.listed(asyncio.get_running_loop().time(), _entries(answer))
            if bucket.twin:
                self._say(f"{self._where}: another process announces itself as {self._me.node}: stop one of them")
        elif isinstance(request, Get):
            try:
                bucket.read(request, await self._body(request.key))
            except BadObject as error:
                self._say(f"{self._where}: {error}")
        else:
            await self._ask("delete_object", Key=request.key)
            bucket.deleted(request.key)

    async def _claimed(self) -> Founder:
        """Write the object of the founder if it does not exist. Returns its content."""
        try:
            await self._ask("put_object", Key=self._bucket.founder_key, Body=self._claim(), IfNoneMatch="*")
        except Exception as error:
            if _code(error) not in _EXISTS:
                raise
        else:
            return Founder(self._me.node, self._me.disk)
        body = await self._body(self._bucket.founder_key)
        if body is None:
            raise OSError(f"{self._bucket.founder_key} was deleted just now")
        return self._bucket.founder(body)

    def _claim(self) -> bytes:
        at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        return msgspec.json.encode(Founder(self._me.node, self._me.disk, at))

    async def _body(self, key: str) -> bytes | None:
        try:
            answer = await self._ask("get_object", Key=key)
        except Exception as error:
            if _code(error) in ("NoSuchKey", "404"):
                return None
            raise
        return bytes(answer["Content"])

    async def _ask(self, method: str, **arguments: Any) -> Any:
        """Send one request when its turn has come."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            await asyncio.sleep(self._pace.wait_s(loop.time()))
            try:
                answer = await getattr(self._client, method)(Bucket=self._place.bucket, **arguments)
                if "Body" in answer:
                    answer["Content"] = await answer["Body"].read(MOST_BYTES)
                    answer["Body"].close()
            finally:
                self._pace.asked(loop.time())
            self._pace.succeeded()
            return answer


def _client(place: S3Place) -> Any:
    """A client as a context manager. One attempt for each request: `Pace` decides when to try again."""
    from aiobotocore.config import AioConfig  # only nodes with this source need the library
    from aiobotocore.session import get_session

    config = AioConfig(
        connect_timeout=CONNECT_S,
        read_timeout=ANSWER_S,
        retries={"total_max_attempts": 1},
        s3={"addressing_style": place.addressing},
    )
    return get_session().create_client(
        "s3",
        region_name=place.region or None,
        endpoint_url=place.endpoint or None,
        aws_access_key_id=place.access_key or None,
        aws_secret_access_key=place.secret_key or None,
        config=config,
    )


def _entries(answer: Any) -> list[Entry]:
    """Returns the objects of a list. Their ages are by the clock of the storage."""
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    now = parsedate_to_datetime(date) if date else datetime.now(UTC)
    return [
        Entry(each["Key"], each["ETag"], max(0.0, (now - each["LastModified"]).total_seconds()))
        for each in answer.get("Contents", ())
    ]


def _code(error: Exception) -> str:
    """Returns the code of an error of the storage, "" for another error."""
    response = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""
