"""gRPC with dead, stopped and unreachable peers, with several loops, and without output."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from strogoff.cluster.transport.grpc_wire import GrpcTransport
from strogoff.cluster.transport.wire import NOTICE_S, CallFailed

from .relay import Relay
from .wire_server import Recorder, WireServer

CHILD = Path(__file__).with_name("child.py")


@contextmanager
def child(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Returns the process at the other end, and the line that it printed."""
    with subprocess.Popen([sys.executable, str(CHILD), *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@asynccontextmanager
async def transport() -> AsyncIterator[GrpcTransport]:
    made = GrpcTransport()
    try:
        yield made
    finally:
        await made.close()


@pytest.mark.system
@pytest.mark.parametrize("blow", [signal.SIGSTOP, signal.SIGKILL])
def test_a_server_that_stops_is_noticed(blow: signal.Signals) -> None:
    """Stopped or killed, with an idle stream: `closed` within the contract's time."""

    async def main(process: subprocess.Popen[str], address: str) -> float:
        async with transport() as here:
            mine = Recorder()
            here.dial(address, b"me", mine)
            await mine.until("opened")
            started = time.monotonic()
            process.send_signal(blow)
            await mine.until("closed")
            return time.monotonic() - started

    with child("serve") as (process, address):
        assert asyncio.run(main(process, address)) < NOTICE_S


@pytest.mark.system
@pytest.mark.parametrize("blow", [signal.SIGSTOP, signal.SIGKILL])
def test_a_dialer_that_stops_is_noticed(blow: signal.Signals) -> None:
    """The listening side finds out as well, and as fast."""

    async def main() -> float:
        async with transport() as here:
            place = WireServer(here)
            address = await place.open("127.0.0.1:0")
            process = await asyncio.create_subprocess_exec(sys.executable, str(CHILD), "dial", address, stdout=-3)
            try:
                theirs = await place.comes()
                started = time.monotonic()
                process.send_signal(blow)
                await theirs.until("closed")
                return time.monotonic() - started
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()

    assert asyncio.run(main()) < NOTICE_S


def test_a_cut_is_noticed_at_both_ends() -> None:
    """The network drops all packets while both sockets stay open: both ends close in time, without any traffic."""

    async def main() -> tuple[float, float]:
        async with transport() as here, transport() as there:
            place = WireServer(there)
            address = await place.open("127.0.0.1:0")
            cable = Relay(int(address.rpartition(":")[2]))
            mine = Recorder()
            here.dial(await cable.open(), b"me", mine)
            await mine.until("opened")
            theirs = await place.comes()
            started = time.monotonic()
            cable.cut()
            await mine.until("closed")
            first = time.monotonic() - started
            await theirs.until("closed")
            second = time.monotonic() - started
            await cable.close()
            return first, second

    first, second = asyncio.run(main())
    assert first < NOTICE_S and second < NOTICE_S


def test_a_dial_into_silence_ends() -> None:
    """The peer accepts the connection and sends nothing."""

    async def main() -> list[str]:
        silent = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
        here = GrpcTransport(dial_s=0.4)
        mine = Recorder()
        here.dial(f"127.0.0.1:{silent.sockets[0].getsockname()[1]}", b"me", mine)
        closed = await mine.until("closed")
        await here.close()
        silent.close()
        return closed

    (reason,) = asyncio.run(main())
    assert "0.4 s" in reason or "UNAVAILABLE" in reason


def test_an_address_that_is_not_one_of_a_node() -> None:
    """No process listens there; or one that closes the connection, as an MQTT server does, or answers in HTTP/1."""

    async def asked(answer: bytes | None) -> str:
        async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(answer or b"")
            writer.close()

        other = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        address = f"127.0.0.1:{other.sockets[0].getsockname()[1]}"
        if answer is None:
            other.close()
            await other.wait_closed()
        async with transport() as here:
            with pytest.raises(CallFailed) as caught:
                await here.call(address, "who", b"", 5)
        other.close()
        return str(caught.value).replace(address, "HOST:PORT")

    assert asyncio.run(asked(None)) == "nobody answers at HOST:PORT (connection refused)"
    for answer in (b"", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"):
        said = asyncio.run(asked(answer))
        assert said.startswith("HOST:PORT does not speak the protocol between nodes"), said
        assert "Is it the port of listener.vmq?" in said


def test_a_process_that_hangs_is_not_taken_for_a_wrong_port() -> None:
    """While a process is stopped, the kernel accepts connections for it, and the process sends nothing."""

    async def main() -> str:
        accepted: list[asyncio.StreamWriter] = []  # a connection that nobody keeps would end
        silent = await asyncio.start_server(lambda _, writer: accepted.append(writer), "127.0.0.1", 0)
        address = f"127.0.0.1:{silent.sockets[0].getsockname()[1]}"
        async with transport() as here:
            with pytest.raises(CallFailed) as caught:
                await here.call(address, "who", b"", 20)
        silent.close()
        for writer in accepted:
            writer.close()
        return str(caught.value).replace(address, "HOST:PORT")

    said = "HOST:PORT accepts connections, but does not answer: it hangs, is stopped, or is overloaded"
    assert asyncio.run(main()) == said


def test_several_loops_in_one_process() -> None:
    """A transport on each of five loops in one process; they do not affect each other."""

    async def main() -> None:
        async with transport() as here, transport() as there:
            place = WireServer(there)
            mine = Recorder()
            here.dial(await place.open("127.0.0.1:0"), b"me", mine)
            await mine.until("opened")
        # gRPC ends its own tasks in the turns that follow.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left or not (await asyncio.wait(left, timeout=5))[1]

    for _ in range(5):
        asyncio.run(main(), debug=True)


def test_nothing_is_printed_on_stderr() -> None:
    """A process whose peer closes connections and refuses calls prints nothing."""
    program = f"""
import asyncio, sys
sys.path.insert(0, {str(CHILD.parent)!r})
from strogoff.cluster.transport.grpc_wire import GrpcTransport
from strogoff.cluster.transport.wire import Accepted, Refused
from child import Nothing

async def main():
    here, there = GrpcTransport(), GrpcTransport()
    gone = asyncio.Event()
    class Watch(Nothing):
        def closed(self, reason):
            gone.set()
    accept = lambda hello, wire: Refused("no") if hello == b"no" else Accepted(b"", Nothing())
    address = await there.serve("127.0.0.1:0", accept)
    here.dial(address, b"me", Watch())
    here.dial(address, b"no", Nothing())
    here.dial("127.0.0.1:1", b"me", Nothing())
    await there.close()
    await gone.wait()
    await here.close()

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
