"""docs/protocol.md has every message, field, kind and version that the code has, and no other."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import struct
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

import strogoff.broker.clustering
import strogoff.broker.gateway
import strogoff.cluster
from strogoff.admin import fan_out
from strogoff.broker.clustering import forward_codec, runtime
from strogoff.broker.connection import handshake as connection_handshake
from strogoff.broker.gateway import messages as relay
from strogoff.cluster import node
from strogoff.cluster.links.frames import decode_frame
from strogoff.cluster.links.hello import NEWEST
from strogoff.cluster.links.settings import LinkSettings
from strogoff.cluster.links.tunnel import NUMBERS
from strogoff.cluster.membership import commands, inbox
from strogoff.cluster.ports import Datagram
from strogoff.cluster.raft.messages import HardState, MessageKind
from strogoff.cluster.replicated_map import messages as replicated_map
from strogoff.cluster.replicated_map import persistence
from strogoff.cluster.transport import handshake
from strogoff.cluster.transport.data_stream import LENGTH_BYTES
from tests.harness.scripts import load_script

ROOT = Path(__file__).resolve().parents[2]

NOT_SENT = {
    HardState,
    commands._Start,
    persistence._KeyContext,
    persistence._Record,
    persistence._Seen,
    replicated_map._LooseBatch,
    replicated_map._LoosePart,
    replicated_map._LooseWrites,
}
"""Types that are only on the disk, are the base of others, or decode what others have encoded."""


script = load_script("docs/protocol_page.py")
PAGE: str = script.PAGE.read_text(encoding="utf-8")


def modules() -> Iterator[ModuleType]:
    """Returns the modules that can have types of messages."""
    yield from (fan_out, connection_handshake)
    for package in (strogoff.cluster, strogoff.broker.clustering, strogoff.broker.gateway):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(found.name)


def array_types() -> set[type[msgspec.Struct]]:
    """Returns the types that are arrays in msgpack."""
    return {
        kind
        for module in modules()
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, msgspec.Struct)
        if kind.__module__ == module.__name__ and kind.__struct_config__.array_like
    }


def cells(name: str) -> list[list[str]]:
    """Returns the rows of a table of the page."""
    rows: list[list[str]] = script.rows_in(script.part_of(PAGE, name)[1])
    return rows


def compared_with(function: Callable[..., object], name: str) -> set[str]:
    """Returns the values that a function compares with its argument `name`."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    names = vars(inspect.getmodule(function))
    return {
        names[each.comparators[0].id]
        for each in ast.walk(tree)
        if isinstance(each, ast.Compare) and isinstance(each.left, ast.Name) and each.left.id == name
        if isinstance(each.comparators[0], ast.Name)
    }


def test_the_page_is_up_to_date() -> None:
    assert script.renewed(PAGE) == PAGE, "python docs/protocol_page.py"
    assert script.main(["--check"]) == 0


def test_the_page_has_no_other_tables() -> None:
    assert sorted(script.marks(PAGE)) == sorted(script.TABLES)


@pytest.mark.parametrize("name", list(script.TABLES))
def test_each_row_is_explained(name: str) -> None:
    rows = cells(name)
    assert rows
    assert [row for row in rows if not all(row) or len(row) != len(script.TABLES[name].head)] == []


@pytest.mark.parametrize("name", [name for name, table in script.TABLES.items() if table.head[-1] == "since"])
def test_each_message_and_field_has_appeared_in_a_version(name: str) -> None:
    assert [row for row in cells(name) if not 1 <= int(row[-1]) <= NEWEST] == []


def test_all_types_on_the_wire_are_in_the_page() -> None:
    assert array_types() - NOT_SENT == set(script.NAMES)


def test_all_kinds_of_relay_messages_are_in_the_page() -> None:
    (kinds,) = [
        [each.id for each in targets.elts if isinstance(each, ast.Name)]
        for assign in ast.parse(inspect.getsource(relay)).body
        if isinstance(assign, ast.Assign) and isinstance(targets := assign.targets[0], ast.Tuple)
    ]
    assert list(script.RELAY_KINDS) == kinds
    assert [row[1] for row in cells("relay messages")] == [str(getattr(relay, name)) for name in kinds]


def test_all_calls_are_in_the_page() -> None:
    answered = compared_with(runtime.ClusterRuntime._answer, "method") | compared_with(
        node.ClusterNode.answer_call, "method"
    )
    assert set(script.CALLS) == answered


def test_all_datagrams_have_a_receiver() -> None:
    source = inspect.getsource(node.ClusterNode.datagram) + inspect.getsource(inbox.MembershipInbox)
    assert set(re.findall(r"Datagram\.(\w+)", source)) == {each.name for each in Datagram}


def test_all_versions_are_in_the_page() -> None:
    found = {
        f"`{path.relative_to(ROOT).with_suffix('').as_posix().replace('/', '.')}.{target.id}`"
        for path in [*ROOT.glob("cluster/**/*.py"), *ROOT.glob("broker/**/*.py"), ROOT / "storage" / "directory.py"]
        for assign in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(assign, ast.Assign) and isinstance(assign.value, ast.Constant)
        if isinstance(target := assign.targets[0], ast.Name)
        if re.search(r"VERSION|FORMAT|NEWEST|OLDEST", target.id)
    }
    assert {row[0] for row in cells("versions")} == found


def test_the_page_names_the_types_that_refuse_further_fields() -> None:
    strict = {name for kind, name in script.NAMES.items() if kind.__struct_config__.forbid_unknown_fields}
    said = re.search(r"ignores it\. (.*) must have exactly their fields", PAGE)
    assert said is not None
    assert set(re.findall(r"`(\w+)`", said[1])) == strict


def test_the_page_has_the_numbers_of_versions_in_order() -> None:
    history = PAGE.partition("| version | what came with it |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| (\d+) \|", history, re.MULTILINE) == [str(number + 1) for number in range(NEWEST)]


def test_the_layouts_have_their_sizes() -> None:
    challenge = handshake.Answering(b"", lambda: bytes(handshake.NONCE_BYTES)).challenge()
    proof = handshake.Asking(b"", handshake.STREAM, bytes(handshake.NONCE_BYTES)).proof(challenge)
    assert f"| challenge, {len(challenge)} |" in PAGE
    assert f"| proof of the dialer, {len(proof)} |" in PAGE
    assert f"| proof of the acceptor, {handshake.Session.CODE_BYTES} |" in PAGE
    assert f"{handshake.ROUNDS:,} rounds" in PAGE
    assert f"{LENGTH_BYTES} bytes of length, big endian" in PAGE
    assert f"Each has {relay.HEAD_BYTES} bytes, little endian" in PAGE
    assert struct.calcsize("<QQ") == NUMBERS.size == 2 * 8
    settings = LinkSettings()
    assert f"{settings.flight_units} units" in PAGE
    windows = {settings.replica_window_bytes, settings.append_window_bytes, settings.publish_window_bytes}
    assert windows == {8 << 20} and "in flight: 8 MiB" in PAGE


def test_the_head_of_a_copy_has_the_bytes_of_its_table() -> None:
    table = PAGE.partition("| bytes of the head, big endian | content |")[2].partition("\n\n")[0]
    sizes = [int(size) for size in re.findall(r"^\| (\d+)", table, re.MULTILINE)]
    head = forward_codec.head_with_slots(1, True, (3, 4), 5, 6)
    assert len(head) == sum(sizes[:-1]) + 2 * sizes[-1]
    assert len(forward_codec.head_without_slots(1, True)) == sum(sizes[:2])


def test_the_dump_is_a_frame() -> None:
    block = PAGE.partition("## Reading a dump")[2].partition("```\n")[2].partition("```")[0]
    parts = [re.match(r"(?:[0-9a-f]{2} ?\b)+", line.strip()) for line in block.splitlines()]
    data = bytes.fromhex("".join(part[0] for part in parts if part is not None))
    size, frame = int.from_bytes(data[:LENGTH_BYTES], "big"), data[LENGTH_BYTES:]
    assert size == len(frame)
    (run,) = decode_frame(frame, size).runs
    head, body = forward_codec.split_head(run.payloads[0])
    assert head == forward_codec.Head(3, True, (17,), 41, 52)
    record = forward_codec._decoder.decode(body)
    assert (record.topic, record.payload, record.publisher) == ("a/b", b"hi", "pump-7")
    assert (record.node, record.boot, record.counter) == ("n1", 5, 12)


def test_the_page_names_only_what_the_sources_have() -> None:
    """Names in code style are modules, or words of the sources; paths exist."""
    sources = [path for place in ("cluster", "broker", "admin", "storage") for path in (ROOT / place).rglob("*.py")]
    known = set(re.findall(r"\w+", " ".join(path.read_text(encoding="utf-8") for path in sources)))
    names = {path.relative_to(ROOT).as_posix() for path in sources} | {path.name for path in sources}
    quoted = set(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)))
    paths = {each.partition(":")[0] for each in quoted if re.match(r"[\w/]+\.py\b", each)}
    assert paths - names == {"docs/protocol_page.py", "tests/docs/test_protocol_page.py"}
    words = {word for each in quoted for word in re.findall(r"[A-Z]\w+", each)}
    assert words - known == {"PORT"} - known


def test_the_sequences_name_messages() -> None:
    text = " ".join(re.findall(r"```\n(.*?)```", PAGE.partition("## Sequences")[2], re.DOTALL))
    known = {each.name for each in (*Datagram, *MessageKind, *script.Lane)} | set(script.RELAY_KINDS)
    mqtt = {"CONNECT", "CONNACK", "DISCONNECT", "PUBLISH", "PUBACK", "TCP"}
    assert set(re.findall(r"\b[A-Z][A-Z_]{2,}\b", text)) <= known | mqtt


# --- the script itself ---


def table_of(*rows: list[str]) -> object:
    return script.Table(["name", "size", "meaning"], lambda: [list(row) for row in rows], 1)


TEXT = "| name | size | meaning |\n| --- | --- | --- |\n| a | 1 | the first |\n| b | 2 | the second |"


def test_written_cells_stay_with_their_row() -> None:
    made = script.renewed_table(table_of(["b", "3"], ["a", "1"]), TEXT)
    assert script.rows_in(made) == [["b", "3", "the second"], ["a", "1", "the first"]]


def test_a_new_row_has_empty_cells() -> None:
    made = script.renewed_table(table_of(["a", "1"], ["c", "4"]), TEXT)
    assert script.rows_in(made) == [["a", "1", "the first"], ["c", "4", ""]]


def test_rows_with_the_same_key_keep_their_order() -> None:
    made = script.renewed_table(table_of(["a", "1"], ["a", "2"]), TEXT.replace("| b |", "| a |"))
    assert script.rows_in(made) == [["a", "1", "the first"], ["a", "2", "the second"]]


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="has no part between"):
        script.renewed("# A page")


class Sample(msgspec.Struct, array_like=True, tag=7):
    number: int
    texts: tuple[str, ...] = ()


def test_fields_are_read_from_a_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(script.STRUCTS, "sample", {"Sample": Sample})
    assert script.fields_of("sample") == [
        ["Sample", "`number`", "1", "int"],
        ["Sample", "`texts`", "2", "[text], optional"],
    ]
    assert script.tagged("sample")() == [["`Sample`", "7"]]
