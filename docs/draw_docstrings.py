"""Draws random docstrings of the product, so that a reader can judge how easy they are to understand.

    python docs/draw_docstrings.py --seed 7 --count 10

The same seed draws the same docstrings as long as the code does not change.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from textwrap import indent

ROOT = Path(__file__).resolve().parent.parent

PACKAGES = (
    "admin",
    "analytics",
    "broker",
    "cluster",
    "configs",
    "judge",
    "mqtt",
    "netsplit",
    "sim",
    "storage",
    "testing",
)


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (path:line name, docstring) of the module, its classes and its functions."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                name = "module" if isinstance(node, ast.Module) else node.name
                line = 1 if isinstance(node, ast.Module) else node.lineno
                yield f"{path.relative_to(ROOT)}:{line} {name}", text


@cache
def of_the_product() -> list[tuple[str, str]]:
    """Returns all docstrings of the product, as (path:line name, docstring)."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [each for path in paths for each in docstrings(path)]


def draw(seed: int, count: int) -> list[tuple[str, str]]:
    """Returns so many random ones of them."""
    return Random(seed).sample(of_the_product(), count)


def main() -> None:
    """Run the command line: print the docstrings."""
    parser = argparse.ArgumentParser(description="Draw docstrings at random.")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=10)
    options = parser.parse_args()
    for name, text in draw(options.seed, options.count):
        print(name)
        print(indent(text, "    "))
        print()


if __name__ == "__main__":
    main()
