"""Tests of the structure: import direction, I/O in shells only, a test module for each module, sizes, no sleeping."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from tests.structure import rules
from tests.structure.rules import PACKAGES

ROOT = Path(__file__).resolve().parent.parent

TOOLS = ("mutants",)
"""Packages that are not installed with the product, and import nothing of it."""

MAY_IMPORT: dict[str, set[str]] = {
    "mqtt": set(),
    "configs": set(),
    "storage": {"mqtt", "configs"},
    "cluster": {"storage", "configs"},
    "netsplit": {"cluster", "storage", "configs"},
    "broker": {"netsplit", "cluster", "storage", "mqtt", "configs", "analytics"},
    "admin": {"broker", "netsplit", "cluster", "storage", "mqtt", "configs"},
    "judge": {"cluster", "mqtt"},
    "testing": {"broker", "netsplit", "cluster", "storage", "mqtt", "configs", "analytics", "judge"},
    "sim": {"broker", "netsplit", "cluster", "storage", "mqtt", "configs", "analytics", "judge"},
    "analytics": {"judge", "mqtt"},
}
"""Package -> packages below it (docs/architecture.md). Of analytics, others may import `schema` alone."""

IN_BROKER: dict[str, set[str]] = {
    "reporting": set(),
    "plugins": set(),
    "queues": set(),
    "routing": {"queues"},
    "sessions": {"routing", "queues"},
    "connection": {"sessions", "routing", "queues", "plugins", "reporting"},
    "gateway": {"connection", "sessions"},
    "": {"gateway", "connection", "sessions", "routing", "queues", "plugins", "reporting"},
    "listeners": {"connection", "reporting"},
    "discovery": set(),
    "clustering": {"", "connection", "sessions", "routing", "queues", "discovery"},
    "process": {"clustering", "listeners", "", "connection", "routing", "queues", "plugins", "reporting"},
}
"""The same within the broker; "" is what is in no package of its own: the node and its settings."""

BELOW_ALL_OF_BROKER = frozenset(
    ("cluster_port", "environment", "failed_logins", "observer", "operation_policy", "options", "remembered", "timers")
)
"""Modules of `broker/` itself that every package in it may import."""

SHELLS = {
    package: set(names.split())
    for package, names in {
        "mqtt": "",
        "storage": "files leveldb leveldb_damage lock_owner reset_cli",
        "cluster": """
            transport/__init__ transport/data_listener transport/data_stream transport/grpc_stream
            transport/grpc_wire transport/memory_asyncio transport/pinning
        """,
        "netsplit": "",
        "broker": """
            clustering/asking clustering/config_calls clustering/discovery clustering/leaving
            clustering/listening clustering/neighbours clustering/runtime clustering/slot_evacuation
            discovery/configured_nodes discovery/host_names discovery/kubernetes discovery/s3 discovery/srv
            discovery/worker
            listeners/alerts listeners/connection listeners/handshake listeners/listener listeners/listeners
            listeners/revocations listeners/sockets listeners/tls listeners/unix_paths listeners/websocket
            plugins/builtin plugins/passwd_cli plugins/watched_file process/container process/conversion process/daemon
            process/eventlog process/eventlog_files process/eventlog_key process/eventlog_packing process/eventlog_ring
            process/log_compression process/logs process/ownership process/process_end process/server
            process/service_manager
        """,
        "admin": """
            cli client context dispatch fan_out figures http_listeners http_pages local_commands local_node loop_lag
            metrics recent_answer server unix_socket
        """,
        "testing": """
            broker_process capture client faults/fault_gate faults/faulty_transport faults/network_faults
            faults/packet_drops inbox reserved_port runtime/clock runtime/convergence runtime/idle runtime/in_process
            runtime/loop_thread runtime/node_handle runtime/node_links runtime/running_cluster
        """,
        "sim": "commands engine/tasks step_commands",
        "analytics": "follow/command interrupts java log_sources manifest spark stream/mqtt_sender",
        "configs": "checks commands",
        "judge": "",
    }.items()
}
"""Modules that act, by their path in the package. All others are cores: they decide, and are handed what they need."""

IO_MODULES = {"asyncio", "socket", "ssl", "os", "time", "random", "uuid", "logging", "threading", "subprocess"}

SIZE_LIMIT = 600

ATTRIBUTES = 15

TOO_MANY_ATTRIBUTES: dict[str, dict[str, int]] = {
    "it joins the parts of a node or process, and has little logic of its own": {
        "broker/clustering/adapter.py:ClusterAdapter": 16,
        "broker/clustering/runtime.py:ClusterRuntime": 28,
        "broker/process/server.py:Server": 29,
        "cluster/membership/consensus.py:Consensus": 17,
        "cluster/membership/lease_service.py:LeaseService": 16,
        "cluster/node.py:ClusterNode": 25,
        "cluster/replicated_map/map.py:ReplicatedMap": 28,
        "sim/engine/host.py:Host": 25,
        "sim/engine/machine.py:Machine": 18,
        "testing/runtime/node_handle.py:NodeHandle": 17,
    },
    "every message passes it: one more object would cost a lookup for each": {
        "broker/connection/connection.py:ClientConnection": 27,
        "broker/connection/output_buffer.py:OutputBuffer": 18,
        "cluster/links/inbound_stream.py:InboundStream": 23,
        "cluster/links/outbound_stream.py:OutboundStream": 33,
        "sim/engine/pipe.py:Stream": 16,
        "storage/store.py:Store": 20,
    },
    "its attributes are the fields of one state that a standard, a paper or the disk defines": {
        "broker/sessions/session.py:Session": 25,
        "cluster/membership/lease.py:LeaseHolder": 16,
        "cluster/raft/core.py:Raft": 16,
        "netsplit/incidents.py:IncidentLog": 16,
        "sim/workload/client.py:ModelClient": 23,
        "testing/client.py:Client": 17,
    },
    "it has two jobs, and is to be split": {
        "broker/process/eventlog.py:EventLog": 18,
        "cluster/membership/coordinator.py:MembershipCoordinator": 24,
    },
}
"""Reason -> class -> how many it has today."""


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def all_modules() -> list[Path]:
    return sorted(ROOT.glob("*.py")) + [
        path for found in sorted(ROOT.glob("*/__init__.py")) for path in modules(found.parent.name)
    ]


def python_files() -> list[Path]:
    beside = [path for place in ("tests", "bench", "docs", "deploy") for path in sorted((ROOT / place).rglob("*.py"))]
    return [*all_modules(), *beside, *sorted((ROOT / "dev").glob("*.py"))]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


SOURCES = {name_of(path): path.read_text() for path in all_modules()}

MODULES = frozenset(map(rules.module_of, SOURCES))


def imports(path: Path) -> tuple[rules.Import, ...]:
    return rules.imports(SOURCES[name_of(path)], rules.package_of(name_of(path)), MODULES)


def test_every_package_is_in_the_tables() -> None:
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} == {*PACKAGES, *TOOLS}
    assert set(MAY_IMPORT) == set(SHELLS) == set(PACKAGES)
    assert {path.parent.name for path in (ROOT / "broker").glob("*/__init__.py")} == set(IN_BROKER) - {""}


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_down(package: str) -> None:
    wrong = []
    for path in modules(package):
        for each in imports(path):
            parts = each.target.split(".")
            if parts[0] != "strogoff" or len(parts) < 2 or parts[1] == package or parts[1] not in PACKAGES:
                continue
            if parts[1] not in MAY_IMPORT[package]:
                wrong.append(f"{name_of(path)}:{each.line} imports {each.target}")
            if parts[1] == "analytics" and parts[2] not in ("schema", "event_lines"):
                wrong.append(f"{name_of(path)}:{each.line} imports {each.target}: others may use schema and lines only")
    assert wrong == []


def test_the_engine_of_the_simulator_knows_nothing_above_it() -> None:
    """Test harnesses use the engine without clients, faults and history of the simulator."""
    wrong = []
    for path in (ROOT / "sim" / "engine").glob("*.py"):
        for each in imports(path):
            parts = each.target.split(".")
            if parts[:2] == ["strogoff", "sim"] and parts[2:3] != ["engine"]:
                wrong.append(f"{name_of(path)}:{each.line} imports {each.target}")
    assert wrong == []


@pytest.mark.parametrize("package", sorted(IN_BROKER))
def test_imports_point_down_within_the_broker(package: str) -> None:
    wrong = []
    for path in (ROOT / "broker" / package).glob("*.py"):
        for each in imports(path):
            parts = each.target.split(".")
            if parts[:2] != ["strogoff", "broker"] or each.type_only:
                continue
            other = parts[2] if len(parts) > 2 and parts[2] in IN_BROKER else ""
            if not other and parts[2:3] and parts[2] in BELOW_ALL_OF_BROKER:
                continue
            if other != package and other not in IN_BROKER[package]:
                wrong.append(f"{name_of(path)}:{each.line} imports {each.target}")
    assert wrong == []


def test_no_circular_imports() -> None:
    assert rules.circles(rules.graph(SOURCES, type_only=False)) == []


@pytest.mark.parametrize(
    ("low", "top"),
    [
        ("sim/commands.py", "cli.py"),
        ("cli.py", "__main__.py"),
        ("configs/checks.py", "configs/__init__.py"),
        ("mutants/catalogue.py", "mutants/page.py"),
    ],
)
def test_a_planted_circle_is_found(low: str, top: str) -> None:
    """All kinds of modules are checked: the command line, the entry of a program, a package, a tool."""
    planted = {**SOURCES, low: f"{SOURCES[low]}\nimport {rules.module_of(top)}\n"}
    (circle,) = rules.circles(rules.graph(planted, type_only=False))
    assert {rules.module_of(low), rules.module_of(top)} <= set(circle)


def test_no_circles_of_types() -> None:
    """A circle of imports for types is a circular dependency as well."""
    assert rules.circles(rules.graph(SOURCES, type_only=True)) == []


def io_of(path: Path) -> list[tuple[str, int]]:
    """Returns the imports of a module that are I/O, with their lines. The simulator and planted logs get their
    randomness as `Random`."""
    own = {"random"} if name_of(path).startswith(("sim/", "judge/planted/")) else set()
    return [(each.target, each.line) for each in imports(path) if each.target.split(".")[0] in IO_MODULES - own]


@pytest.mark.parametrize("package", PACKAGES)
def test_io_only_in_shells(package: str) -> None:
    """A shell that is deleted, or that imports no I/O any more, must leave the list."""
    found = {str(path.relative_to(ROOT / package).with_suffix("")): io_of(path) for path in modules(package)}
    acting = {module: io for module, io in found.items() if io}
    assert set(acting) == SHELLS[package], {
        "not in a core": {module: io for module, io in acting.items() if module not in SHELLS[package]},
        "no shell any more": SHELLS[package] - set(acting),
    }


def test_every_module_has_a_test_module() -> None:
    missing = []
    for path in all_modules():
        if path.name == "__init__.py":
            continue
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
    found = [(path, line) for path in sorted((ROOT / "tests").rglob("*.py")) for line in rules.sleeps(path.read_text())]
    assert [f"{name_of(path)}:{line}" for path, line in found] == []


def test_no_class_gets_more_attributes() -> None:
    """Beyond 15 a class has two jobs. The listed numbers may only become smaller, until the class leaves the list."""
    found = {
        f"{name_of(path)}:{name}": number
        for path in all_modules()
        for name, number in rules.attributes(path.read_text()).items()
        if number > ATTRIBUTES
    }
    assert found == {name: number for classes in TOO_MANY_ATTRIBUTES.values() for name, number in classes.items()}


def test_nothing_is_left_for_later() -> None:
    marks = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|Not" + r"ImplementedError)\b")
    found = []
    for path in python_files():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if marks.search(line):
                found.append(f"{name_of(path)}:{number} {line.strip()[:80]}")
    assert found == []


def test_no_error_is_swallowed() -> None:
    found = [(path, line) for path in all_modules() for line in rules.swallowed(path.read_text())]
    assert [f"{name_of(path)}:{line}" for path, line in found] == []


def test_a_decoder_reports_text_that_is_no_utf_8_and_deep_arrays() -> None:
    found = [(path, line) for path in all_modules() for line in rules.forgets_errors(path.read_text())]
    assert [f"{name_of(path)}:{line}" for path, line in found] == []


def ruff(*words: str, source: str | None = None) -> list[dict[str, Any]]:
    """Returns the complaints of ruff: each with `code` and `filename`."""
    command = [sys.executable, "-m", "ruff", "check", "--output-format", "json", "--exit-zero", *words]
    ran = subprocess.run(command, cwd=ROOT, input=source, capture_output=True, check=True, text=True, timeout=60)
    return list(json.loads(ran.stdout))


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("", "D100"),
        ("class Some: ...", "D101"),
        ("class Some:\n    def act(self): ...", "D102"),
        ("def act(): ...", "D103"),
        ("def act(given):\n    return 1", "ARG001"),
        ("def act(a, b, c, d, e, f, g): ...", "PLR0913"),
        ("def act(a):\n" + "    if a: print()\n" * 10, "C901"),
        ("class some: ...", "N801"),
        ("try:\n    print()\nexcept OSError as error:\n    raise error", "TRY201"),
    ],
)
def test_ruff_finds_a_planted_offence(source: str, code: str) -> None:
    assert code in {found["code"] for found in ruff("--stdin-filename", "cluster/planted.py", "-", source=source)}


def test_each_exemption_of_ruff_is_needed() -> None:
    """A rule that is off, everywhere or for some files, would report something there."""
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    found = ruff("--select", ",".join(lint["select"]), "--config", "lint.per-file-ignores = {}", ".")
    places = {(name_of(Path(each["filename"])), str(each["code"])) for each in found}
    exempt = [("*", code) for code in lint["ignore"]]
    exempt += [(files, code) for files, codes in lint["per-file-ignores"].items() for code in codes]
    idle = [
        f"{files}: {code}"
        for files, code in exempt
        if not any(fnmatch(path, files) and broken.startswith(code) for path, broken in places)
    ]
    assert idle == []


def test_the_collector_skips_only_objects_that_are_in_no_cycle() -> None:
    """A struct with `gc=False` holds plain values and others of its kind: a cycle through it is never freed."""
    values = {"int", "str", "bytes", "bool", "float", "None", "tuple", "frozenset", "list", "dict"}
    plain = {*values, "Any", "Properties", "Natural", "Place", "_QoS", "_Count", "BootNumber", "NodeName"}
    skipped: dict[str, set[str]] = {}
    texts = [path.read_text() for package in ("mqtt", "storage", "cluster", "broker") for path in modules(package)]
    for text in [text for text in texts if "gc=False" in text]:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and any(ast.unparse(each) == "gc=False" for each in node.keywords):
                fields = [each.annotation for each in node.body if isinstance(each, ast.AnnAssign)]
                skipped[node.name] = {
                    word for each in fields for word in re.findall(r"[A-Za-z_]\w*", ast.unparse(each))
                }
    assert len(skipped) > 20
    wrong = {name: words - plain - set(skipped) for name, words in skipped.items() if words - plain - set(skipped)}
    assert wrong == {}
