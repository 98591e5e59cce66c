"""The start in a container: the files and defaults of VerneMQ's image (docs/container.md).

`vernemq.conf.local` in the `etc` folder replaces configuration and variables; `DOCKER_VERNEMQ_USER_NAME=password`
becomes a line of `etc/vmq.passwd`; the log goes to the console. Listeners are open on all addresses of the container
unless DOCKER_IP_ADDRESS or DOCKER_NET_INTERFACE names one; the listener for other nodes is open only if a cookie or
another node is named. A node without a configured name keeps the name in its data, so that a container that comes back
with another address is still the same node. A new node is named after its pod or host and advertises its address to the
others.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import struct
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path

from ...configs.environment import conf_text, from_environment
from ...configs.orchestrators import ADDRESS, INTERFACE, OWN_ADDRESS, POD_NAME, from_pod
from ...configs.syntax import read_lines
from ...storage.directory import MARKER
from ..plugins.passwd_cli import replace_file
from ..plugins.passwords import SALT_BYTES, check_name, hashed, with_user

ALL_ADDRESSES = "0.0.0.0"
CLUSTERING = "listener.vmq.clustering"
NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
ROOT = Path("/")
CLOSED = "127.0.0.1:44053"
DATA_PORT = "44054"
_SIOCGIFADDR = 0x8915
"""The request for the address of an interface, netdevice(7)."""
_FOR_A_CLUSTER = (
    CLUSTERING, "distributed_cookie", "discovery.nodes", "discovery.srv", "discovery.kubernetes.selector",
    "discovery.s3.bucket", "cluster.allow_default_cookie",
)  # fmt: skip


def prepare(environ: Mapping[str, str], home: Path) -> tuple[Path | None, dict[str, str], dict[str, str]]:
    """The configuration file, the environment and the overrides with which to load the settings.

    Writes `etc/vmq.passwd` and, for a `vernemq.conf.local`, `etc/vernemq.conf`. OSError where that is not allowed,
    ValueError for a user whose name cannot stand in a password file, for an interface without an address, and for a
    data directory that is not the one of the container.
    """
    etc = home / "etc"
    address = environ.get(ADDRESS, "")
    if not address:
        address = address_of(environ.get(INTERFACE, ""))
        environ = {name: text for name, text in environ.items() if name != INTERFACE}
    own = own_address(address)
    environ = from_pod({**environ, ADDRESS: address}, socket.getfqdn(), _namespace())
    if address == ALL_ADDRESSES and own and not ip_address(own).is_loopback:
        environ[OWN_ADDRESS] = own
    overrides = {"platform_data_dir": environ.get("STROGOFF_DATA_DIR", str(home / "data"))}
    conf = etc / "vernemq.conf"
    local = etc / "vernemq.conf.local"
    if local.exists():
        text = local.read_bytes().decode(errors="surrogateescape")
        text = conf_text("", text, {ADDRESS: environ.get(OWN_ADDRESS) or address})
        conf.write_bytes(text.encode(errors="surrogateescape"))
        environ = {}
    wanted = from_environment(environ)
    _check_data_dir(etc, wanted.values, Path(overrides["platform_data_dir"]))
    if wanted.users:
        overrides["vmq_passwd.password_file"] = str(_write_users(etc / "vmq.passwd", wanted.users))
    if "log.console" not in wanted.values and not local.exists() and not _say(etc, "log.console"):
        overrides["log.console"] = "console"
        overrides["log.error"] = "off"
    if wanted.values.get(CLUSTERING, ("", ""))[1] == "DOCKER_IP_ADDRESS" and not _is_clustered(etc, wanted.values):
        overrides[CLUSTERING] = CLOSED  # the image opens it with a cookie that is public
    if "cluster.address" not in wanted.values and not _say(etc, "cluster.address"):
        overrides["cluster.address"] = own
    if "cluster.data_port" not in wanted.values and not _say(etc, "cluster.data_port"):
        overrides["cluster.data_port"] = DATA_PORT
    if "nodename" not in wanted.values and not _say(etc, "nodename"):
        name = _name_of_data(Path(overrides["platform_data_dir"]))
        overrides["nodename"] = name or f"VerneMQ@{environ.get(POD_NAME) or socket.gethostname()}"
    return conf if conf.exists() else None, dict(environ), overrides


def _namespace() -> str:
    """The namespace of the pod's service account, "" outside of Kubernetes."""
    try:
        return NAMESPACE_FILE.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _check_data_dir(etc: Path, values: Mapping[str, tuple[str, str]], directory: Path) -> None:
    """Raise ValueError if a file or a variable names another data directory than the one that the node and vmq-admin
    use: the data would be in the container, and not on the volume that the operator has mounted there."""
    said, place = values.get("platform_data_dir") or _said(etc, "platform_data_dir")
    named = etc.parent / said
    if said and named.resolve() != directory.resolve():
        raise ValueError(
            f"{place}: platform_data_dir = {said}: in a container the variable STROGOFF_DATA_DIR names the directory "
            f"of the data, and it is {directory}: set STROGOFF_DATA_DIR={said} instead, or mount the volume at "
            f"{directory}"
        )


def not_on_a_volume(directory: Path) -> list[str]:
    """A warning if the directory of the data is in the file system of the container itself."""
    there = next(each for each in (directory, *directory.absolute().parents) if each.exists())
    if there.stat().st_dev != ROOT.stat().st_dev:
        return []
    return [f"{directory} is on no volume: the data of this node is lost with its container. Mount a volume there"]


def _is_clustered(etc: Path, values: Mapping[str, tuple[str, str]]) -> bool:
    """Whether the operator wants other nodes to reach this one; the image itself always opens a port for them."""
    return any(key in values for key in _FOR_A_CLUSTER[1:]) or any(_say(etc, key) for key in _FOR_A_CLUSTER)


def own_address(wanted: str) -> str:
    """The address for other containers: `wanted`, or, if that means all addresses, the address of the host's name."""
    if wanted != ALL_ADDRESSES:
        return wanted
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return ""


def address_of(interface: str) -> str:
    """The IPv4 address of a network interface; all addresses for "". Raises ValueError if it has none."""
    if not interface:
        return ALL_ADDRESSES
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            found = fcntl.ioctl(asked, _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        except OSError as error:
            raise ValueError(f"{INTERFACE} = {interface}: it has no IPv4 address here ({error.strerror})") from None
    return socket.inet_ntoa(found[20:24])


def _write_users(path: Path, users: Mapping[str, str]) -> Path:
    text = path.read_text() if path.exists() else ""
    for name, password in users.items():
        check_name(name)
        text = with_user(text, name, hashed(password.encode(), os.urandom(SALT_BYTES)))
    try:
        try:
            replace_file(path, text)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
                raise
            path.touch(mode=0o600)
            path.write_text(text)  # the file alone is mounted or writable: it cannot be replaced
    except OSError as error:
        way_out = f"mount a writable {path.parent}, or one with a password file, and remove these variables"
        raise OSError(f"the users in variables ({', '.join(users)}) cannot be written: {error}: {way_out}") from error
    return path


def _say(etc: Path, key: str) -> bool:
    """True if the files set the key. If a configured name differs from the name in the data, the start reports it."""
    return _said(etc, key) != ("", "")


def _said(etc: Path, key: str) -> tuple[str, str]:
    """The text to which the files set the key, and the place of that line; both empty if they do not. The load reports
    what is wrong in the files."""
    files = [each for each in (etc / "vernemq.conf", *sorted((etc / "conf.d").glob("*.conf"))) if each.exists()]
    texts = [(str(each), each.read_bytes().decode("utf-8-sig", errors="replace")) for each in files]
    lines = [line for file, text in texts for line in read_lines(text, file)[0] if line.key == key]
    return (lines[-1].text, lines[-1].place) if lines else ("", "")


def _name_of_data(directory: Path) -> str | None:
    """Return the node name in the data directory. The start checks the rest of the marker."""
    try:
        said = json.loads((directory / MARKER).read_text())
    except (OSError, ValueError):
        return None
    name = said.get("node_name") if isinstance(said, dict) else None
    return name if isinstance(name, str) else None
