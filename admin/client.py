"""Clients of vmq-admin: one for the unix socket of a local node, one for the management API of any node."""

from __future__ import annotations

import socket
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from ..broker.listeners.unix_paths import unix_address
from .wire import Refusal, TruncatedResult

ANSWER_S = 600.0
"""Time limit for a node that has begun its answer and sends nothing, in seconds."""
CONNECT_S = 10.0
"""Time limit for opening a connection, and then for the begin of the answer, in seconds. A node sends the headers
before it runs the command."""
API_PATH = "/api/v1"


class Unreachable(Exception):
    """vmq-admin cannot get a result from the node. The text is a sentence for the operator."""


class NodeClient(Protocol):
    """Sends command lines to one node. `name` is the node in messages."""

    name: str

    def run(self, words: list[str]) -> Iterator[bytes]:
        """Yields the lines of the node's result as they arrive. Raises `Unreachable` or `TruncatedResult`."""
        ...


class _UnixConnection(HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, answer_s: float) -> None:
        super().__init__("localhost", timeout=answer_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        with unix_address(self._path) as address:
            self.sock.connect(address)


class UnixSocketClient:
    """The client of a node on this machine, over its unix socket.

    The node may be silent for `answer_s` seconds, by default for `CONNECT_S` before its answer, and for `ANSWER_S` in
    it. `busy` is a sentence about the process of a node that does not answer, "" if no process is known.
    """

    def __init__(
        self, node: str, path: Path, answer_s: float | None = None, busy: Callable[[], str] = lambda: ""
    ) -> None:
        self.name = f"Node '{node}'"
        self._node = f"node '{node}'"
        self._path = path
        self._begin_s, self._answer_s = answer_s or CONNECT_S, answer_s or ANSWER_S
        self._busy = busy

    def run(self, words: list[str]) -> Iterator[bytes]:
        """See `NodeClient`."""
        connection = _UnixConnection(str(self._path), self._begin_s)
        try:
            response = self._post(connection, words)
            if response.status != 200:
                said = response.read().decode(errors="replace").strip()
                raise Unreachable(f"{self.name} rejected the request: {said}")
            yield from _lines(self.name, response, self._answer_s)
        finally:
            connection.close()

    def _post(self, connection: HTTPConnection, words: list[str]) -> HTTPResponse:
        down, path = f"{self.name} not responding to pings.", self._path.absolute()
        try:
            connection.request("POST", "/command", msgspec.json.encode({"words": words}))
            return _begun(connection, self._answer_s)
        except FileNotFoundError:
            none = f"There is no {path}: the node does not run, or it has another data directory."
            raise Unreachable(f"{down} {self._busy() or none}") from None
        except PermissionError:
            raise Unreachable(f"You may not open {path}: be the user that runs {self._node}, or root.") from None
        except ConnectionRefusedError:
            killed = f"No process listens on {path}: the node was killed."
            raise Unreachable(f"{down} {self._busy() or killed}") from None
        except TimeoutError:
            said = f"{down} The node sent no answer within {self._begin_s:g} s. {self._busy()}"
            raise Unreachable(said.rstrip()) from None
        except (OSError, HTTPException) as error:
            raise Unreachable(f"{down} {path}: {error}") from None


class HttpClient:
    """The client of a node over one of its HTTP listeners.

    `cafile` has the trusted CA certificates; if it is empty, those of the system are trusted. Raises `Unreachable` for
    a malformed URL or an unreadable file.
    """

    def __init__(self, url: str, api_key: str, cafile: str) -> None:
        self.name = url
        self._api_key = api_key
        wrong = f"--url: {url!r} is malformed: http://HOST:PORT or https://HOST:PORT is expected."
        try:
            parts = urlsplit(url)
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError:
            raise Unreachable(wrong) from None
        if parts.scheme not in ("http", "https") or not self._host or parts.username is not None or parts.query:
            raise Unreachable(wrong)
        self._path = parts.path.rstrip("/").removesuffix(API_PATH) + API_PATH
        self._tls = _tls_context(cafile) if parts.scheme == "https" else None
        if cafile and self._tls is None:
            raise Unreachable("--cafile is for https URLs.")

    def run(self, words: list[str]) -> Iterator[bytes]:
        """See `NodeClient`."""
        connection: HTTPConnection
        if self._tls is None:
            connection = HTTPConnection(self._host, self._port, timeout=CONNECT_S)
        else:
            connection = HTTPSConnection(self._host, self._port, timeout=CONNECT_S, context=self._tls)
        try:
            self._connect(connection)
            response = self._post(connection, words)
            self._check(response)
            yield from _lines(self.name, response, ANSWER_S)
        finally:
            connection.close()

    def _connect(self, connection: HTTPConnection) -> None:
        down = f"{self.name} cannot be reached:"
        try:
            connection.connect()
        except (socket.gaierror, UnicodeError):
            raise Unreachable(f"{down} there is no host {self._host}.") from None
        except ConnectionRefusedError:
            raise Unreachable(f"{down} no process listens on this port.") from None
        except TimeoutError:
            raise Unreachable(f"{down} no answer within {CONNECT_S:.0f} s.") from None
        except ssl.SSLCertVerificationError as error:
            said = f"{self.name} shows a certificate that is not trusted: {error.verify_message}."
            raise Unreachable(f"{said} --cafile=FILE names the trusted CA certificates.") from None
        except ssl.SSLError as error:
            raise Unreachable(f"{self.name} does not answer with TLS ({error.reason}); is it http?") from None
        except OSError as error:
            raise Unreachable(f"{down} {error.strerror or error}.") from None

    def _post(self, connection: HTTPConnection, words: list[str]) -> HTTPResponse:
        headers = {"Content-Type": "application/json"}
        if self._api_key:
            headers["Authorization"] = f"Basic {b64encode(f'{self._api_key}:'.encode()).decode()}"
        try:
            connection.request("POST", self._path, msgspec.json.encode({"words": words}), headers)
            return _begun(connection, ANSWER_S)
        except TimeoutError:
            raise Unreachable(f"{self.name} did not answer within {CONNECT_S:.0f} s.") from None
        except (OSError, HTTPException) as error:
            hung_up = isinstance(error, OSError)
            said = f"{self.name} {'closed the connection' if hung_up else 'answered with something that is not HTTP'}"
            hint = "" if self._tls is not None else "; is it https?"
            raise Unreachable(f"{said} ({type(error).__name__}){hint}") from None

    def _check(self, response: HTTPResponse) -> None:
        """Raise `Unreachable` unless this is a response of the management API."""
        kind = response.headers.get_content_type()
        if response.status == 200 and kind == "application/x-ndjson":
            return
        body = response.read(1 << 16)
        if response.status == 401:
            raise Unreachable(f"{self.name}: {_refusal(body)}")
        if response.status in (400, 408, 413) and kind == "text/plain":
            raise Unreachable(f"{self.name} rejected the request: {body.decode(errors='replace').strip()}")
        raise Unreachable(
            f"{self.name} is not the management API of a node (it answered {response.status}). The node must have "
            "vmq_http_mgmt_api among the http_modules of this listener."
        )


def _refusal(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=Refusal).text
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "this API key is not accepted."


def _tls_context(cafile: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=cafile or None)
    except ssl.SSLError:
        raise Unreachable(f"--cafile: {cafile} holds no certificates.") from None
    except OSError as error:
        raise Unreachable(f"--cafile: {cafile}: {(error.strerror or str(error)).lower()}.") from None


def _begun(connection: HTTPConnection, answer_s: float) -> HTTPResponse:
    """The answer that the node has begun. Its rest may take `answer_s` seconds from one piece to the next."""
    reading = connection.sock  # the connection forgets it if it ends with this answer
    response = connection.getresponse()
    reading.settimeout(answer_s)
    return response


def _lines(name: str, response: HTTPResponse, answer_s: float) -> Iterator[bytes]:
    try:
        yield from response
    except TimeoutError:
        raise Unreachable(f"{name} went silent: it sent nothing for {answer_s:g} s.") from None
    except (OSError, HTTPException) as error:
        raise TruncatedResult(str(error)) from None
