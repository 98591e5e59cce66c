"""Make the virtual environment for `make run` and `make test`, and make it again when it is broken.

    python3 dev/venv.py .venv run      # installs the broker
    python3 dev/venv.py .venv test     # installs the broker and the dependencies of the tests

The script runs on any Python 3, because it tells the user when a Python is too old. It installs nothing if `.venv`
already has the dependencies of this pyproject.toml.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Version = tuple[int, int]
    Run = Callable[[list[str]], object]

OLDEST = (3, 11)
"""The oldest Python that pyproject.toml allows."""

NEWEST = (3, 14)
"""The newest Python for which every dependency has wheels."""

EXTRAS = {"run": ".", "test": ".[test,analytics,dev]"}
"""Word of the command line -> what pip installs. "test" contains "run"."""

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def unfit_python(version: "Version", has_ensurepip: bool) -> str:
    """Return the reason why this Python cannot run Strogoff, and the remedy; "" if it can."""
    name = "Python {}.{}".format(*version[:2])
    allowed = "Python {}.{} to {}.{}".format(*(OLDEST + NEWEST))
    if not OLDEST <= tuple(version[:2]) <= NEWEST:
        return "Strogoff needs {}, and python3 is {}. Name another one: make PYTHON=/path/to/python3.11 ...".format(
            allowed, name
        )
    if not has_ensurepip:
        return "{} cannot make virtual environments. On Debian and Ubuntu: apt install python{}.{}-venv".format(
            name, *version[:2]
        )
    return ""


def unfit_venv(folder: str, version: "Version") -> str:
    """Return the reason why the virtual environment at `folder` cannot be used; "" if it can."""
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(python):
        return "it has no Python, or a link to a Python that does not exist"
    try:
        code = "import pip, sys; print(sys.version_info[0], sys.version_info[1], sys.prefix)"
        ran = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        return "its Python does not run: {}".format(error)
    if ran.returncode != 0:
        return "its Python or its pip does not run"
    major, minor, prefix = ran.stdout.decode().rstrip("\n").split(" ", 2)
    if (int(major), int(minor)) != tuple(version[:2]):
        return "it was made with Python {}.{}".format(major, minor)
    if os.path.realpath(prefix) != os.path.realpath(folder):
        return "its Python belongs to another environment"
    if not _scripts_point_into(folder):
        return "it was made in another folder"
    return ""


def _scripts_point_into(folder: str) -> bool:
    """Whether the script `pip`, which has its interpreter in the first line, has the interpreter of `folder`."""
    try:
        with open(os.path.join(folder, "bin", "pip")) as script:
            first = script.readline()
    except (OSError, UnicodeDecodeError):
        return False
    return os.path.abspath(folder) in first or "/bin/sh" in first


def fingerprint(what: str, version: "Version") -> str:
    """Return a text that changes with the version of Python, the word `what`, and pyproject.toml."""
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    return "{}.{} {} {}\n".format(version[0], version[1], what, digest)


def is_installed(folder: str, what: str, version: "Version") -> bool:
    """Whether a previous run of this script has installed `what`, or more, with this pyproject.toml."""
    words = ("run", "test") if what == "run" else ("test",)
    try:
        with open(os.path.join(folder, "installed")) as file:
            found = file.read()
    except OSError:
        return False
    return found in [fingerprint(word, version) for word in words]


def make_ready(folder: str, what: str, version: "Version", run: "Run") -> None:
    """Make the environment if no usable one exists, and install into it. `run` executes a command or raises."""
    if os.path.lexists(folder):
        reason = unfit_venv(folder, version)
        if reason:
            print("Making {} again: {}".format(folder, reason), flush=True)
            os.unlink(folder) if os.path.islink(folder) else shutil.rmtree(folder)
    if not os.path.exists(folder):
        run([sys.executable, "-m", "venv", folder])
    if is_installed(folder, what, version):
        return
    pip = [os.path.join(folder, "bin", "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run([*pip, "install", "--prefer-binary", "-e", EXTRAS[what]])
    with open(os.path.join(folder, "installed"), "w") as file:
        file.write(fingerprint(what, version))


def main(arguments: "list[str]") -> int:
    """Run the command line. Return the exit status."""
    if len(arguments) != 2 or arguments[1] not in EXTRAS:
        print(__doc__)
        return 2
    folder, what = arguments
    version = (sys.version_info[0], sys.version_info[1])
    has_ensurepip = importlib.util.find_spec("ensurepip") is not None
    reason = unfit_python(version, has_ensurepip)
    if reason:
        print(reason)
        return 1
    try:
        make_ready(folder, what, version, lambda command: subprocess.run(command, check=True, cwd=ROOT))
    except subprocess.CalledProcessError as error:
        command = " ".join(error.cmd[:4])
        print("{} failed with status {}. Fix the error above and run make again.".format(command, error.returncode))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
