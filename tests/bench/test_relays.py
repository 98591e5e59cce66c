"""Links through relays: bytes pass, wait during a cut, and a relay knows who has dialled."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace

from bench import relays
from bench.relays import RelayedNode, Relays


def nodes(folder: Path) -> list[RelayedNode]:
    """Returns two nodes whose processes are this one and none."""
    made = [RelayedNode(folder, number) for number in (1, 2)]
    made[0].process = SimpleNamespace(pid=os.getpid())  # type: ignore[assignment]
    return made


def run(folder: Path, scenario: Callable[[Relays, RelayedNode], Awaitable[None]]) -> None:
    """Run a scenario with a node 2 that sends back what it gets."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data)
        writer.close()

    async def all_of_it() -> None:
        made = nodes(folder)
        links = Relays(made)
        await links.start()
        server = await asyncio.start_server(echo, made[1].host, made[1].links)
        try:
            async with asyncio.timeout(20):
                await scenario(links, made[1])
        finally:
            server.close()
            await links.close()

    asyncio.run(all_of_it())


async def dial(node: RelayedNode) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a node as other nodes do."""
    host, _, port = node.address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def silent(reader: asyncio.StreamReader) -> bool:
    """Whether nothing comes for a moment."""
    try:
        await asyncio.wait_for(reader.readexactly(1), 0.2)
    except TimeoutError:
        return True
    return False


def test_bytes_wait_during_a_cut_and_pass_after_it(tmp_path: Path) -> None:
    async def scenario(links: Relays, node: RelayedNode) -> None:
        reader, writer = await dial(node)
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        links.isolate(1)
        writer.write(b"two")
        assert await silent(reader)
        late_reader, late_writer = await dial(node)  # opens, and gets no answer
        late_writer.write(b"new")
        assert await silent(late_reader)
        links.heal()
        assert await reader.readexactly(3) == b"two"
        assert await late_reader.readexactly(3) == b"new"
        for each in (writer, late_writer):
            each.close()

    run(tmp_path, scenario)


def test_a_cut_of_other_nodes_does_not_concern_a_link(tmp_path: Path) -> None:
    """The process of node 1 has dialled; a node 3 is cut off."""

    async def scenario(links: Relays, node: RelayedNode) -> None:
        links.nodes.append(RelayedNode(tmp_path, 3))
        reader, writer = await dial(node)
        links.isolate(3)
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        writer.close()

    run(tmp_path, scenario)


def test_an_end_passes(tmp_path: Path) -> None:
    async def scenario(_: Relays, node: RelayedNode) -> None:
        reader, writer = await dial(node)
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()

    run(tmp_path, scenario)


def test_the_socket_of_a_process_is_found_also_one_of_ipv6() -> None:
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::ffff:127.0.0.1")):
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(family) as client:
            client.connect((host, server.getsockname()[1]))
            inode = relays._inode(("127.0.0.1", client.getsockname()[1]), server.getsockname())
            assert inode == str(os.fstat(client.fileno()).st_ino)
            assert relays._has(os.getpid(), inode)
            assert not relays._has(os.getppid(), inode)
    assert relays._inode(("127.0.0.9", 1), ("127.0.0.1", 1)) == ""


def test_other_sockets_with_the_same_port_are_told_apart() -> None:
    """One has another end, and one has ended and waits for late packets."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        with socket.socket() as ended:
            ended.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            ended.bind(("127.0.0.1", 0))
            own = ended.getsockname()
            ended.connect(one.getsockname())
            accepted, _ = one.accept()
        accepted.recv(1)
        accepted.close()
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            client.bind(own)
            client.connect(two.getsockname())
            assert relays._inode(own, two.getsockname()) == str(os.fstat(client.fileno()).st_ino)
            assert relays._inode(own, one.getsockname()) == ""
