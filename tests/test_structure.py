"""The structure is a test: import direction, I/O in shells alone, a test module for each module, sizes, no sleeping."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

ROOMS = ("mqtt", "storage", "cluster", "netsplit", "broker", "admin", "testing", "sim", "analytics", "configs")

MAY_IMPORT: dict[str, set[str]] = {
    "mqtt": set(),
    "configs": set(),
    "storage": {"mqtt", "configs"},
    "cluster": {"storage", "configs"},
    "netsplit": {"cluster", "storage", "configs"},
    "broker": {"netsplit", "cluster", "storage", "mqtt", "configs", "analytics"},
    "admin": {"broker", "netsplit", "cluster", "storage", "mqtt", "configs"},
    "testing": {"broker", "netsplit", "cluster", "storage", "mqtt", "configs", "analytics"},
    "sim": {"broker", "netsplit", "cluster", "storage", "mqtt", "configs", "analytics"},
    "analytics": set(),
}
"""Room -> rooms below it (docs/architecture.md). Of analytics, others may import `schema` alone."""

IN_BROKER: dict[str, set[str]] = {
    "reporting": set(),
    "plugins": set(),
    "queues": set(),
    "routing": {"queues"},
    "sessions": {"routing", "queues"},
    "connection": {"sessions", "routing", "queues", "plugins", "reporting"},
    "": {"connection", "sessions", "routing", "queues", "plugins", "reporting"},
    "listeners": {"connection"},
    "clustering": {"", "connection", "sessions", "routing", "queues"},
    "process": {"clustering", "listeners", "", "connection", "routing", "queues", "plugins", "reporting"},
}
"""The same within the broker; "" is what is in no package of its own: the node and its settings."""

SHELLS = {
    "storage": {"files", "leveldb", "leveldb_damage", "leveldb_folder", "leveldb_log", "directory", "repair"}
    | {"repair_cli", "reset_cli"},
    "cluster": {"data_listener", "data_stream", "grpc_stream", "grpc_wire", "memory_asyncio", "pinning"},
    "netsplit": set(),
    "mqtt": set(),
    "sim": {"commands"},
    "testing": {"activity", "bridged", "capture", "client", "cluster", "faults", "fixtures", "hosting", "loop_thread"}
    | {"faulty", "gate", "line", "neighbourhood", "node", "plugin", "process", "running", "steady", "sync", "trace"}
    | {"wiring"},
    "broker": {"builtin", "passwd_cli", "watched_file"}
    | {"config_calls", "discovery", "dns", "listening", "runtime"}
    | {"connection", "alerts", "handshake", "listener", "listeners", "sockets", "tls", "unix_paths", "websocket"}
    | {"container", "daemon", "descriptors", "eventlog", "eventlog_files", "logs", "server"},
}
"""Modules that act. Everything else in these rooms is a core: it decides, and is handed what it needs."""

IO_MODULES = {"asyncio", "socket", "ssl", "os", "time", "random", "uuid", "logging", "threading", "subprocess"}

SIZE_LIMIT = 600


def modules(room: str) -> list[Path]:
    return sorted(path for path in (ROOT / room).rglob("*.py") if path.name != "__init__.py")


def all_modules() -> list[Path]:
    return [path for room in ROOMS for path in modules(room)] + [ROOT / "cli.py", ROOT / "__main__.py"]


def python_files() -> list[Path]:
    places = [ROOT / room for room in (*ROOMS, "tests", "bench", "docs")]
    return [path for place in places for path in sorted(place.rglob("*.py"))] + [ROOT / "cli.py"]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(path: Path) -> list[tuple[str, int]]:
    """What a module imports, as `room.module` for our own and the bare name for others, TYPE_CHECKING left out."""
    room_parts = path.relative_to(ROOT).parent.parts
    found: list[tuple[str, int]] = []
    for node in _without_type_checking(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0:
                found.append((node.module or "", node.lineno))
            else:
                base = [*room_parts][: len(room_parts) - node.level + 1]
                stem = ".".join(["strogoff", *base, *(node.module or "").split(".")]).rstrip(".")
                if node.module and len(stem.split(".")) > 2:
                    found.append((stem, node.lineno))
                else:
                    found += [(f"{stem}.{alias.name}", node.lineno) for alias in node.names]
    return found


def _without_type_checking(tree: ast.Module) -> list[ast.AST]:
    nodes: list[ast.AST] = []
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop(0)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo += node.orelse
            continue
        nodes.append(node)
        todo += ast.iter_child_nodes(node)
    return nodes


@pytest.mark.parametrize("room", ROOMS)
def test_imports_point_down(room: str) -> None:
    wrong = []
    for path in modules(room):
        for target, line in imports(path):
            parts = target.split(".")
            if parts[0] != "strogoff" or len(parts) < 2 or parts[1] == room or parts[1] not in ROOMS:
                continue
            if parts[1] not in MAY_IMPORT[room]:
                wrong.append(f"{name_of(path)}:{line} imports {target}")
            if parts[1] == "analytics" and parts[2:3] != ["schema"]:
                wrong.append(f"{name_of(path)}:{line} imports {target}: of analytics only schema may be imported")
    assert wrong == []


@pytest.mark.parametrize("room", sorted(IN_BROKER))
def test_imports_point_down_within_the_broker(room: str) -> None:
    wrong = []
    for path in (ROOT / "broker" / room).glob("*.py"):
        for target, line in imports(path):
            parts = target.split(".")
            if parts[:2] != ["strogoff", "broker"]:
                continue
            other = parts[2] if len(parts) > 2 and parts[2] in IN_BROKER else ""
            if other != room and other not in IN_BROKER[room]:
                wrong.append(f"{name_of(path)}:{line} imports {target}")
    assert wrong == []


def test_no_circular_imports() -> None:
    graph: dict[str, set[str]] = {}
    for path in all_modules():
        name = ".".join(["strogoff", *path.relative_to(ROOT).with_suffix("").parts])
        graph[name] = {target for target, _ in imports(path) if target.startswith("strogoff.")}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join([*trail[trail.index(name) :], name])
        if name in done:
            return
        for target in sorted(graph.get(name, ())):
            visit(target, (*trail, name))
        done.add(name)

    for name in sorted(graph):
        visit(name, ())


@pytest.mark.parametrize("room", sorted(SHELLS))
def test_io_only_in_shells(room: str) -> None:
    wrong = []
    for path in modules(room):
        if path.stem in SHELLS[room]:
            continue
        for target, line in imports(path):
            if target.split(".")[0] in IO_MODULES and not (room == "sim" and target == "random"):
                wrong.append(f"{name_of(path)}:{line} imports {target}: not in a core")
    assert wrong == []


def test_every_module_has_a_test_module() -> None:
    missing = []
    for path in all_modules():
        relative = path.relative_to(ROOT)
        expected = ROOT / "tests" / relative.parent / f"test_{relative.stem.strip('_')}.py"
        if not expected.exists():
            missing.append(f"{relative} wants {expected.relative_to(ROOT)}")
    assert missing == []


def test_sizes() -> None:
    large = []
    for path in python_files():
        lines = path.read_text().count("\n")
        if lines > SIZE_LIMIT:
            large.append(f"{name_of(path)}: {lines} lines")
    assert large == []


def test_functions_fit_a_screen() -> None:
    long = []
    for path in all_modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                span = (node.end_lineno or node.lineno) - node.lineno + 1
                if span > 80:
                    long.append(f"{name_of(path)}:{node.lineno} {node.name}: {span} lines")
    assert long == []


def test_tests_never_sleep() -> None:
    sleeping = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") != "sleep":
                continue
            if node.args and not (isinstance(node.args[0], ast.Constant) and node.args[0].value == 0):
                sleeping.append(f"{name_of(path)}:{node.lineno}")
    assert sleeping == []


def test_nothing_is_left_for_later() -> None:
    marks = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|Not" + r"ImplementedError)\b")
    found = []
    for path in python_files():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if marks.search(line):
                found.append(f"{name_of(path)}:{number} {line.strip()[:80]}")
    assert found == []


def test_no_error_is_swallowed() -> None:
    silent = []
    for path in all_modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ExceptHandler):
                continue
            broad = node.type is None or ast.unparse(node.type) in ("Exception", "BaseException")
            if broad and all(isinstance(statement, ast.Pass) for statement in node.body):
                silent.append(f"{name_of(path)}:{node.lineno}")
    assert silent == []


def test_public_names_have_docstrings() -> None:
    missing = []
    for path in all_modules():
        tree = ast.parse(path.read_text())
        if ast.get_docstring(tree) is None:
            missing.append(name_of(path))
        for node in tree.body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name.startswith("_"):
                continue
            if ast.get_docstring(node) is None:
                missing.append(f"{name_of(path)}:{node.lineno} {node.name}")
    assert missing == []
