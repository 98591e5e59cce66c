"""When a listener reads its revocation list again, and when the earlier list stays in force."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from strogoff.broker.listeners.listener import Listener
from strogoff.broker.listeners.tls import make_context
from strogoff.configs import ListenerSettings

from ...harness.listeners import Authority, ListenerHarness, both_loops, revocations, with_listeners


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def watched(harness: ListenerHarness, authority: Authority) -> tuple[Path, Listener]:
    """Start a listener with an empty revocation list. Returns the file of the list, and the listener."""
    crlfile = authority.folder / "crl.pem"
    crlfile.write_bytes(revocations(authority))
    await harness.open(authority.settings(require_certificate=True, crlfile=str(crlfile)))
    return crlfile, harness.listeners.find("ssl.default")


@both_loops
def test_a_revocation_list_that_changes_while_the_certificate_is_renewed(
    loop: str, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener fails to read the list while the new key is not there. Then it tries again, and uses the list."""

    async def test(harness: ListenerHarness) -> None:
        crlfile, listener = await watched(harness, authority)
        before = listener._current_context()
        read: list[ListenerSettings] = []

        def counted(settings: ListenerSettings) -> ssl.SSLContext:
            read.append(settings)
            return make_context(settings)

        monkeypatch.setattr("strogoff.broker.listeners.listener.make_context", counted)
        renewed = authority.ca.issue_cert("127.0.0.1")
        renewed.cert_chain_pems[0].write_to_path(authority.certfile)
        crlfile.write_bytes(revocations(authority, 4711))
        await harness.until(lambda: len(read) > 2)
        renewed.private_key_pem.write_to_path(authority.keyfile)
        await harness.until(lambda: listener._current_context() is not before)
        assert sum("from before stays in force" in line for line in harness.lines) == 1

    with_listeners(test, loop, crl_refresh_interval_s=0.02)


@both_loops
def test_a_revocation_list_may_change_while_the_listener_starts(loop: str, authority: Authority) -> None:
    """The watch compares with the list that was loaded, not with the first list that it sees."""

    async def test(harness: ListenerHarness) -> None:
        crlfile, listener = await watched(harness, authority)
        before = listener._current_context()
        crlfile.write_bytes(revocations(authority, 4711))
        await harness.until(lambda: listener._current_context() is not before)

    with_listeners(test, loop, crl_refresh_interval_s=0.02)
