"""The handshake: peers without the cookie are refused, and parts of one handshake are useless in another."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from strogoff.cluster.transport.handshake import (
    CALL,
    NONCE_BYTES,
    STREAM,
    WINDOW,
    Answering,
    Asking,
    NotProven,
    Session,
    decode_request,
    decode_verdict,
    encode_request,
    encode_verdict,
    key_of,
)

OURS, THEIRS = key_of("ours"), key_of("theirs")


def nonces(first: int = 1) -> Callable[[], bytes]:
    numbers = count(first)
    return lambda: next(numbers).to_bytes(NONCE_BYTES, "big")


NONCE = nonces(1000)


def both(answering: Answering, kind: bytes = STREAM) -> tuple[Session, Session]:
    """Run a successful handshake; returns the dialer's session and the acceptor's."""
    asking = Asking(OURS, kind, NONCE())
    answer, acceptors = answering.admit(kind, asking.proof(answering.challenge()))
    return asking.check(answer), acceptors


def test_two_that_know_the_cookie() -> None:
    """Each reads the sealed data of the other."""
    dialers, acceptors = both(Answering(OURS, nonces()))
    assert acceptors.open(dialers.seal(b"hello")) == b"hello"
    assert dialers.open(acceptors.seal(b"")) == b""


def test_a_dialer_with_another_cookie() -> None:
    answering = Answering(OURS, nonces())
    with pytest.raises(NotProven, match="its proof is wrong"):
        answering.admit(STREAM, Asking(THEIRS, STREAM, NONCE()).proof(answering.challenge()))


def test_an_acceptor_with_another_cookie() -> None:
    """The acceptor could accept the dialer, but the dialer sends it nothing."""
    asking = Asking(OURS, STREAM, NONCE())
    proof = asking.proof(Answering(THEIRS, nonces()).challenge())
    with pytest.raises(NotProven, match="its proof is wrong"):
        asking.check(b"\0" * 32)
    with pytest.raises(NotProven):
        asking.check(proof[-32:])  # what it was given, sent back


def test_a_proof_is_valid_once() -> None:
    """A recorded handshake opens nothing, also while the first one is under way."""
    answering = Answering(OURS, nonces())
    proof = Asking(OURS, STREAM, NONCE()).proof(answering.challenge())
    answering.admit(STREAM, proof)
    with pytest.raises(NotProven, match="used up"):
        answering.admit(STREAM, proof)


def test_a_proof_is_invalid_at_another_process() -> None:
    """Nor at the same node after a restart: each process makes challenges of its own."""
    proof = Asking(OURS, STREAM, NONCE()).proof(Answering(OURS, nonces(1)).challenge())
    with pytest.raises(NotProven, match="did not set"):
        Answering(OURS, nonces(2)).admit(STREAM, proof)


def test_a_proof_for_a_stream_opens_no_call() -> None:
    answering = Answering(OURS, nonces())
    with pytest.raises(NotProven, match="its proof is wrong"):
        answering.admit(CALL, Asking(OURS, STREAM, NONCE()).proof(answering.challenge()))


def test_a_challenge_expires() -> None:
    """Otherwise the acceptor would have to remember each answered challenge. The set of these is bounded."""
    answering = Answering(OURS, nonces())
    late = Asking(OURS, STREAM, NONCE()).proof(answering.challenge())
    for _ in range(WINDOW):
        both(answering)
    with pytest.raises(NotProven, match="used up"):
        answering.admit(STREAM, late)
    both(answering)
    assert len(answering._used) <= WINDOW


def test_strangers_that_ask_for_challenges_cost_no_memory() -> None:
    answering = Answering(OURS, nonces())
    for _ in range(3 * WINDOW):
        answering.challenge()
    assert answering._used == set()
    both(answering)


@pytest.mark.parametrize("where", range(0, 73, 8))
def test_a_proof_that_was_changed(where: int) -> None:
    answering = Answering(OURS, nonces())
    proof = bytearray(Asking(OURS, STREAM, NONCE()).proof(answering.challenge()))
    proof[where] ^= 1
    with pytest.raises(NotProven):
        answering.admit(STREAM, bytes(proof))


@pytest.mark.parametrize("junk", [b"", b"\x02", b"x" * 200, bytes(73), b"\xff" * 73])
def test_junk_for_a_proof(junk: bytes) -> None:
    with pytest.raises(NotProven):
        Answering(OURS, nonces()).admit(STREAM, junk)


@pytest.mark.parametrize("junk", [b"", b"\x01" + bytes(24), b"\x02", bytes(100)])
def test_junk_for_a_challenge(junk: bytes) -> None:
    """A node of another version is distinguished from one with another cookie."""
    with pytest.raises(NotProven, match="version of the protocol"):
        Asking(OURS, STREAM, NONCE()).proof(junk)


def test_content_of_another_handshake_or_direction() -> None:
    """A recorded answer is invalid for the same question later, and a recorded answer is invalid as a question."""
    answering = Answering(OURS, nonces())
    dialers, acceptors = both(answering, CALL)
    again, _ = both(answering, CALL)
    answer = acceptors.seal(b"settings")
    assert dialers.open(answer) == b"settings"
    for session in (again, acceptors):
        with pytest.raises(NotProven, match="lacks the authentication code"):
            session.open(answer)
    for changed in (answer[:-1] + b"!", answer + b"!", answer[:20], b""):
        with pytest.raises(NotProven):
            dialers.open(changed)


def test_a_repeated_nonce_gives_new_session_keys() -> None:
    """The nonce of the dialer alone does not determine the keys, nor does the challenge."""
    answering, nonce = Answering(OURS, nonces()), bytes(NONCE_BYTES)
    sessions = []
    for _ in range(2):
        asking = Asking(OURS, STREAM, nonce)
        answer, _ = answering.admit(STREAM, asking.proof(answering.challenge()))
        sessions.append(asking.check(answer))
    with pytest.raises(NotProven):
        sessions[1].open(sessions[0].seal(b"x"))


def test_verdicts_and_requests() -> None:
    assert decode_verdict(encode_verdict(True, b"welcome")) == (True, b"welcome")
    assert decode_verdict(encode_verdict(False, b"no")) == (False, b"no")
    assert decode_request(encode_request("join", b"\0")) == ("join", b"\0")
    for decode in (decode_verdict, decode_request):
        with pytest.raises(NotProven, match="of 4 bytes cannot be read"):
            decode(b"junk")


def test_keys_of_cookies_differ() -> None:
    assert len({key_of("a"), key_of("b"), key_of(""), key_of("a ")}) == 4
