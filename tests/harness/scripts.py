"""Scripts of the repository that belong to no package, as modules."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def load_script(path: str) -> ModuleType:
    """Run a script, named by its path in the repository, and return its module. Each call makes a new module."""
    name = path.removesuffix(".py").replace("/", "_") + "_script"
    spec = spec_from_file_location(name, ROOT / path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # classes of the script look for it there
    spec.loader.exec_module(module)
    return module
