"""A storage with the interface of S3 (moto), in a thread, which a test can make refuse, wait, or lose its bucket."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import make_server

BUCKET = "mqtt"
REGION = "us-east-1"
_REFUSAL = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


class Storage:
    """`requests` has (time, access key, method, path) of each request. `refuses` answers all of them with 403.
    `answers`: while this is not set, requests wait. `delay_s`: how long each of them waits anyway."""

    def __init__(self) -> None:
        self.requests: list[tuple[float, str, str, str]] = []
        self.refuses = False
        self.answers = threading.Event()
        self.answers.set()
        self.delay_s = 0.0
        self.closed = threading.Event()
        self._app = DomainDispatcherApplication(create_backend_app)
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the server, and forget all buckets."""
        self.answers.set()
        self.closed.set()
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()
        self.drop_bucket()

    @property
    def _backend(self) -> Any:
        return s3_backends["123456789012"]["global" if "global" in s3_backends["123456789012"] else "aws"]

    def make_bucket(self) -> None:
        """Make the bucket, empty."""
        self._backend.create_bucket(BUCKET, REGION)

    def drop_bucket(self) -> None:
        """Delete the bucket with all objects."""
        self._backend.buckets.pop(BUCKET, None)
        s3_backends.bucket_accounts.pop(BUCKET, None)

    def keys(self) -> list[str]:
        """The keys in the bucket."""
        return sorted(self._backend.buckets[BUCKET].keys)

    def content(self, key: str) -> bytes:
        """What an object has."""
        return bytes(self._backend.get_object(BUCKET, key).value)

    def put(self, key: str, body: bytes, age_s: float = 0.0) -> None:
        """Write an object, as if it was written some time ago."""
        made = self._backend.put_object(BUCKET, key, body)
        made.last_modified = made.last_modified.__class__.fromtimestamp(made.last_modified.timestamp() - age_s)

    def delete(self, key: str) -> None:
        """Delete an object."""
        self._backend.delete_object(BUCKET, key)

    def of(self, access_key: str) -> list[float]:
        """The times of the requests of one node."""
        return [at for at, key, _, _ in self.requests if key == access_key]

    def _answer(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        said = re.search(r"Credential=([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
        row = (time.monotonic(), said[1] if said else "", environ["REQUEST_METHOD"], environ["PATH_INFO"])
        self.requests.append(row)
        self.answers.wait(30)
        self.closed.wait(self.delay_s)
        if self.refuses:
            start("403 Forbidden", [("Content-Type", "application/xml")])
            return [_REFUSAL]
        found: Iterable[bytes] = self._app(environ, start)
        return found


@contextmanager
def storage(bucket: bool = True) -> Iterator[Storage]:
    """A storage with or without its bucket."""
    made = Storage()
    try:
        if bucket:
            made.make_bucket()
        yield made
    finally:
        made.close()
