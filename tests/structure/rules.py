"""The rules of the structure tests, as functions on source text. `test_rules.py` tests each with planted offences."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import PurePath

PRODUCT = "strogoff"
PACKAGES = (
    "mqtt",
    "storage",
    "cluster",
    "netsplit",
    "broker",
    "admin",
    "testing",
    "sim",
    "analytics",
    "configs",
    "judge",
)
"""The packages of the product."""

BROAD = ("Exception", "BaseException")


def module_of(file: str) -> str:
    """The module of a file; `file` is its path in the checkout."""
    parts = PurePath(file).with_suffix("").parts
    return ".".join([PRODUCT, *(parts[:-1] if parts[-1] == "__init__" else parts)])


def package_of(file: str) -> str:
    """The package that the relative imports of a file begin from."""
    return ".".join([PRODUCT, *PurePath(file).parent.parts])


@dataclass(frozen=True)
class Import:
    """One import: `target` is an absolute module, for our own ones without the names that are taken from it."""

    target: str
    line: int
    type_only: bool


@cache
def imports(source: str, package: str, modules: frozenset[str] = frozenset()) -> tuple[Import, ...]:
    """All imports of a module in `package`, also those in functions. `modules` are ours: a name that is taken from a
    package counts as the module that it is."""
    found: list[Import] = []
    for node, type_only in _with_type_checking(ast.parse(source), False):
        if isinstance(node, ast.Import):
            found += [Import(alias.name, node.lineno, type_only) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            targets = {f"{base}.{alias.name}" for alias in node.names if f"{base}.{alias.name}" in modules}
            if len(targets) < len(node.names):
                targets.add(base)
            found += [Import(target, node.lineno, type_only) for target in sorted(targets)]
    return tuple(found)


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    return ".".join([*parts[: len(parts) - node.level + 1], *((node.module or "").split(".") if node.module else [])])


def _with_type_checking(node: ast.AST, type_only: bool) -> Iterator[tuple[ast.AST, bool]]:
    yield node, type_only
    for child in ast.iter_child_nodes(node):
        guarded = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and child in node.body
        yield from _with_type_checking(child, type_only or guarded)


def graph(sources: Mapping[str, str], type_only: bool) -> dict[str, frozenset[str]]:
    """Returns module -> the modules of `sources` (path in the checkout -> text) that it imports. With `type_only` also
    the imports for types.
    """
    modules = frozenset(map(module_of, sources))
    found = {}
    for file, source in sources.items():
        wanted = [each.target for each in imports(source, package_of(file), modules) if type_only or not each.type_only]
        found[module_of(file)] = modules & set(wanted)
    return found


def circles(graph: Mapping[str, Iterable[str]]) -> list[tuple[str, ...]]:
    """Returns the groups of modules that import each other, one sorted tuple for each (Tarjan's algorithm)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[tuple[str, ...]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for target in graph.get(name, ()):
            if target not in graph:
                continue
            if target not in order:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], order[target])
        if low[name] == order[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1 or name in graph[name]:
                found.append(tuple(sorted(group)))

    for name in graph:
        if name not in order:
            visit(name)
    return sorted(found)


def sleeps(source: str) -> list[int]:
    """Returns the lines that wait for time to pass. `sleep(0)` only yields and is not reported."""
    found: list[int] = []
    if "sleep" not in source and "Event(" not in source:
        return found
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        given = [*node.args, *[each.value for each in node.keywords]]
        if _called(node) == "sleep":
            if not (len(given) == 1 and isinstance(given[0], ast.Constant) and given[0].value == 0):
                found.append(node.lineno)
        elif _called(node) == "wait" and given and _is_nameless_event(node.func):
            found.append(node.lineno)
    return found


def _is_nameless_event(function: ast.expr) -> bool:
    """Whether an expression is an event without a name, which no other code can set."""
    made = function.value if isinstance(function, ast.Attribute) else None
    return isinstance(made, ast.Call) and _called(made) == "Event"


def _called(node: ast.Call) -> str:
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def swallowed(source: str) -> list[int]:
    """Returns the lines that catch every error and do nothing with it."""
    if "except" not in source and "suppress" not in source:
        return []
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ExceptHandler | ast.Call)]
    return [node.lineno for node in nodes if _swallows(node)]


def _swallows(node: ast.ExceptHandler | ast.Call) -> bool:
    if isinstance(node, ast.ExceptHandler):
        return _is_broad(node.type) and all(map(_does_nothing, node.body))
    return _called(node) == "suppress" and any(map(_is_broad, node.args))


def _is_broad(caught: ast.expr | None) -> bool:
    if caught is None:
        return True
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(ast.unparse(name).rpartition(".")[2] in BROAD for name in names)


def _does_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Pass | ast.Continue | ast.Break):
        return True
    if isinstance(statement, ast.Return):
        return statement.value is None or isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def forgets_errors(source: str) -> list[int]:
    """Returns the lines of handlers that catch errors of msgspec, and not those of text that is no UTF-8 or of arrays
    in arrays in arrays.

    msgspec raises `UnicodeDecodeError` and `RecursionError` for these, which are no `MsgspecError`. Each array with
    fields may have further elements, so each may be deep.
    """
    found: list[int] = []
    if "MsgspecError" not in source and "DecodeError" not in source:
        return found
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ExceptHandler) and node.type is not None:
            names = {
                each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in _caught(node)
            }
            if names & {"MsgspecError", "DecodeError"} and not {"UnicodeDecodeError", "RecursionError"} <= names:
                found.append(node.lineno)
    return found


def _caught(node: ast.ExceptHandler) -> list[ast.expr]:
    assert node.type is not None
    return list(node.type.elts) if isinstance(node.type, ast.Tuple) else [node.type]


def attributes(source: str) -> dict[str, int]:
    """Return the number of attributes of each class, by class name.

    Attributes are the names that methods assign to `self`, and the names in `__slots__`.
    """
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            stored = [each for each in ast.walk(node) if isinstance(each, ast.Attribute)]
            names = {each.attr for each in stored if isinstance(each.ctx, ast.Store) and _is_self(each.value)}
            found[node.name] = len(names | set(_slots(node)))
    return found


def _is_self(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id == "self"


def _slots(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__slots__":
            yield from (str(each.value) for each in ast.walk(statement.value) if isinstance(each, ast.Constant))
