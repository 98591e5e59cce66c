"""`strogoff analytics pack`: what the workers of a Spark cluster need, as files for `spark-submit`.

The archive has the packages that jobs import, and none of the libraries: msgspec, pandas and PyArrow must be installed
on the workers.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from .trouble import Trouble

ARCHIVE: Final = "strogoff.zip"
JOB: Final = "strogoff_job.py"
PACKAGES: Final = ("analytics", "judge", "cluster", "mqtt")
"""The packages that jobs import."""

_TOP: Final = ("__init__.py", "cli.py")
_BEGIN: Final = (1980, 1, 1, 0, 0, 0)
_SCRIPT: Final = """\
\"\"\"Runs `strogoff analytics` under spark-submit.\"\"\"

import sys

from strogoff.cli import main

sys.exit(main(["analytics", *sys.argv[1:]]))
"""


def add(jobs: Any) -> None:
    """Add the arguments of `pack`."""
    pack = jobs.add_parser("pack", help="write the package as an archive for spark-submit --py-files")
    pack.set_defaults(check=_check, alone=_run)
    pack.add_argument("directory", metavar="DIR", help=f"where to write {ARCHIVE} and {JOB}")


def pack(directory: Path) -> tuple[Path, Path]:
    """Write the archive and the script of a job, the same bytes for the same package. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    package = Path(__file__).parents[1]
    paths = [package / name for name in _TOP]
    for name in PACKAGES:
        paths += sorted(path for path in (package / name).rglob("*") if path.is_file() and path.suffix != ".pyc")
    archive, job = directory / ARCHIVE, directory / JOB
    with ZipFile(archive, "w", ZIP_DEFLATED) as file:
        for path in paths:
            file.writestr(ZipInfo(f"strogoff/{path.relative_to(package)}", _BEGIN), path.read_bytes(), ZIP_DEFLATED)
    job.write_text(_SCRIPT)
    return archive, job


def _check(arguments: argparse.Namespace) -> None:
    if Path(arguments.directory).is_file():
        raise Trouble(f"{arguments.directory} is a file; give a directory")


def _run(arguments: argparse.Namespace) -> int:
    try:
        archive, job = pack(Path(arguments.directory))
    except OSError as error:
        raise Trouble(f"{arguments.directory}: {error.strerror or error}") from None
    print(f"spark-submit --master URL --py-files {archive} {job} JOB ...")
    return 0
