"""The handshake before a stream or a call: both ends prove that they know the cookie, and neither sends it.

    dialer                                      acceptor
      ask                              ->
                                       <-       challenge: a number of the acceptor that is used once
      proof over challenge and nonce   ->       wrong or used before: the acceptor refuses and sends nothing else
                                       <-       proof over the same
      content and its code             ->       a hello, or a call
                                       <-       answer and its code

The proofs are HMACs (RFC 2104) with SHA-256. They cover the role of the sender, whether a stream or a call is opened,
the challenge and the nonce, so a proof is invalid in the other direction, for another purpose or a second time. Content
and answer carry an authentication code, whose key only this handshake has. The dialer proves first, so a stranger gets
nothing that depends on the cookie. Frames of an open stream carry no code.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from functools import lru_cache
from hashlib import pbkdf2_hmac

import msgspec

STREAM = b"stream"
CALL = b"call"

NONCE_BYTES = 16
"""Length of a nonce, in bytes. A port for nonces returns unpredictable bytes that never repeat."""

FORMAT = b"\x03"
"""The first byte of a challenge and of a proof: the version of this handshake."""

WINDOW = 4096
"""A challenge is valid until dialers have requested this many further ones."""

ROUNDS = 50_000
"""Rounds of hashing the cookie: an attacker with a recorded handshake has this cost for each guess."""

_CODE_BYTES = 32
_NUMBER_BYTES = 8
_CHALLENGE_BYTES = 1 + _NUMBER_BYTES + NONCE_BYTES
_PROOF_BYTES = _CHALLENGE_BYTES + NONCE_BYTES + _CODE_BYTES

Nonce = Callable[[], bytes]


class NotProven(Exception):
    """The other end did not prove that it knows the cookie. The text is the reason and contains no secret."""


@lru_cache(maxsize=64)
def key_of(cookie: str) -> bytes:
    """Returns the key derived from a cookie."""
    return pbkdf2_hmac("sha256", cookie.encode(), b"strogoff distributed_cookie", ROUNDS)


class Session:
    """The state of one end after the handshake: makes and checks the authentication codes of its messages."""

    __slots__ = ("_key", "_mine", "_theirs")

    CODE_BYTES = _CODE_BYTES
    """Length of the authentication code in front of the content, in bytes."""

    def __init__(self, key: bytes, mine: bytes, theirs: bytes) -> None:
        self._key = key
        self._mine = mine
        self._theirs = theirs

    def seal(self, content: bytes) -> bytes:
        """Returns the content with its authentication code in front."""
        return _code(self._key, self._mine, content) + content

    def open(self, data: bytes) -> bytes:
        """Check a message that the other end sealed and return its content. Raises `NotProven`."""
        content = data[_CODE_BYTES:]
        if not hmac.compare_digest(data[:_CODE_BYTES], _code(self._key, self._theirs, content)):
            raise NotProven("the message lacks the authentication code of this handshake")
        return content


class Asking:
    """The dialer's side of one handshake."""

    def __init__(self, key: bytes, kind: bytes, nonce: bytes) -> None:
        self._key = key
        self._kind = kind
        self._nonce = nonce
        self._said: tuple[bytes, bytes] = (b"", b"")

    def proof(self, challenge: bytes) -> bytes:
        """Returns the dialer's proof for a challenge. Raises `NotProven` if the challenge is malformed."""
        if len(challenge) != _CHALLENGE_BYTES or challenge[:1] != FORMAT:
            raise NotProven("it does not speak this version of the protocol between nodes")
        self._said = (challenge, self._nonce)
        return challenge + self._nonce + _code(self._key, b"dialer", self._kind, *self._said)

    def check(self, answer: bytes) -> Session:
        """Check the acceptor's proof. Returns the dialer's session. Raises `NotProven`."""
        challenge, nonce = self._said
        assert challenge, "the acceptor cannot have answered yet"
        if not hmac.compare_digest(answer, _code(self._key, b"acceptor", self._kind, challenge, nonce)):
            raise NotProven("its proof is wrong")
        return Session(_code(self._key, b"session", self._kind, challenge, nonce), b"dialer", b"acceptor")


class Answering:
    """The acceptor's side of all handshakes of one process. It stores no data of an unproven dialer."""

    def __init__(self, key: bytes, nonce: Nonce) -> None:
        self._key = key
        self._secret = nonce()
        self._issued = 0
        self._used: set[int] = set()

    def challenge(self) -> bytes:
        """Returns a new challenge, valid for one proof."""
        self._issued += 1
        number = self._issued.to_bytes(_NUMBER_BYTES, "big")
        return FORMAT + number + _code(self._secret, b"challenge", number)[:NONCE_BYTES]

    def admit(self, kind: bytes, proof: bytes) -> tuple[bytes, Session]:
        """Check a dialer's proof. Returns the acceptor's proof and its session. Raises `NotProven`."""
        if len(proof) != _PROOF_BYTES or proof[:1] != FORMAT:
            raise NotProven("no proof came with it")
        challenge = proof[:_CHALLENGE_BYTES]
        nonce, code = proof[_CHALLENGE_BYTES:-_CODE_BYTES], proof[-_CODE_BYTES:]
        number = challenge[1 : 1 + _NUMBER_BYTES]
        mine = _code(self._secret, b"challenge", number)[:NONCE_BYTES]
        if not hmac.compare_digest(challenge[1 + _NUMBER_BYTES :], mine):
            raise NotProven("it answers a challenge that this process did not set")
        if not hmac.compare_digest(code, _code(self._key, b"dialer", kind, challenge, nonce)):
            raise NotProven("its proof is wrong")
        self._use(int.from_bytes(number, "big"))
        session = Session(_code(self._key, b"session", kind, challenge, nonce), b"acceptor", b"dialer")
        return _code(self._key, b"acceptor", kind, challenge, nonce), session

    def _use(self, number: int) -> None:
        if number in self._used or number <= self._issued - WINDOW:
            raise NotProven("it answers a challenge that is used up")
        if len(self._used) >= WINDOW:
            self._used = {each for each in self._used if each > self._issued - WINDOW}
        self._used.add(number)


def _code(key: bytes, *parts: bytes) -> bytes:
    return hmac.digest(key, msgspec.msgpack.encode(parts), "sha256")


_verdict = msgspec.msgpack.Decoder(tuple[bool, bytes])


def encode_verdict(accepted: bool, content: bytes) -> bytes:
    """Encode the acceptor's answer: a welcome or the answer to a call if it accepts, else the reason as text."""
    return msgspec.msgpack.encode((accepted, content))


def decode_verdict(data: bytes) -> tuple[bool, bytes]:
    """Decode the acceptor's answer. Raises `NotProven`, also for a peer of another version that knows the cookie."""
    try:
        return _verdict.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NotProven(f"its answer of {len(data)} bytes cannot be read: {error}") from error


_call = msgspec.msgpack.Decoder(tuple[str, bytes])


def encode_request(method: str, request: bytes) -> bytes:
    """Returns the bytes of a call, for `Session.seal`."""
    return msgspec.msgpack.encode((method, request))


def decode_request(data: bytes) -> tuple[str, bytes]:
    """Decode a call into (method, request). Raises `NotProven`."""
    try:
        return _call.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NotProven(f"its call of {len(data)} bytes cannot be read: {error}") from error
