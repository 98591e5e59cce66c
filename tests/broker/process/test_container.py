"""`strogoff start --container`: the variables and files of VerneMQ's image; the preparation, and real starts."""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bench.broker_process import BrokerProcess, free_port
from bench.steady import SteadyClient
from strogoff.broker.plugins.passwords import SALT_BYTES, hashed
from strogoff.broker.process import container, daemon
from strogoff.broker.process.container import address_of, not_on_a_volume, prepare
from strogoff.cli import main
from strogoff.configs import ConfigError, Settings, load
from strogoff.storage.directory import DataDirectory


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The image's folder, with etc as it is shipped."""
    (tmp_path / "etc").mkdir()
    return tmp_path


def settings(home: Path, **environ: str) -> Settings:
    """Returns the settings of a container with these variables."""
    return load(*prepare(environ, home))


def addresses(loaded: Settings) -> dict[str, str]:
    """The listeners."""
    return {each.key: each.address for each in loaded.listeners()}


def test_without_variables(home: Path) -> None:
    """Listeners on all addresses, data below the home, the log on the console. No client may connect."""
    loaded = settings(home)
    assert addresses(loaded) == {
        "listener.tcp.default": "0.0.0.0:1883",
        "listener.ws.default": "0.0.0.0:8080",
        "listener.http.metrics": "0.0.0.0:8888",
        "listener.vmq.clustering": "127.0.0.1:44053",
    }
    assert loaded["cluster.address"] not in ("", "0.0.0.0") and loaded["cluster.data_port"] == 44054
    assert loaded["platform_data_dir"] == str(home / "data")
    assert (loaded["log.console"], loaded["log.error"], loaded["allow_anonymous"]) == ("console", False, False)
    assert list((home / "etc").iterdir()) == []


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("DOCKER_VERNEMQ_DISTRIBUTED_COOKIE", "5f0c"),
        ("DOCKER_VERNEMQ_DISCOVERY_NODE", "strogoff"),
        ("DOCKER_VERNEMQ_CLUSTER__ALLOW_DEFAULT_COOKIE", "on"),
    ],
)
def test_the_cluster_port_opens_if_other_nodes_are_configured(home: Path, variable: str, value: str) -> None:
    """With the default cookie it is open on loopback only: any stranger that reached it would count as a node."""
    assert addresses(settings(home))["listener.vmq.clustering"] == "127.0.0.1:44053"
    assert addresses(settings(home, **{variable: value}))["listener.vmq.clustering"] == "0.0.0.0:44053"
    (home / "etc" / "vernemq.conf").write_text("distributed_cookie = 5f0c\n")
    assert addresses(settings(home))["listener.vmq.clustering"] == "0.0.0.0:44053"


def test_a_configured_port_is_kept(home: Path) -> None:
    loaded = settings(home, DOCKER_VERNEMQ_LISTENER__VMQ__CLUSTERING="10.0.0.9:44053")
    assert addresses(loaded)["listener.vmq.clustering"] == "10.0.0.9:44053"


def test_variables_are_keys(home: Path) -> None:
    """Any key, the address of the container, a data directory, a log file."""
    loaded = settings(
        home,
        DOCKER_IP_ADDRESS="10.1.2.3",
        DOCKER_VERNEMQ_ALLOW_ANONYMOUS="on",
        DOCKER_VERNEMQ_LISTENER__TCP__MORE="true",
        DOCKER_VERNEMQ_LOG__CONSOLE="file",
        DOCKER_VERNEMQ_MAX_INFLIGHT_MESSAGES="33",
        STROGOFF_DATA_DIR="/somewhere",
    )
    assert addresses(loaded)["listener.tcp.default"] == "10.1.2.3:1883"
    assert addresses(loaded)["listener.tcp.more"] == "10.1.2.3:1884"
    values = [loaded[key] for key in ("allow_anonymous", "max_inflight_messages", "log.console", "platform_data_dir")]
    assert values == [True, 33, "file", "/somewhere"]


def test_a_file_is_used_and_variables_override_it(home: Path) -> None:
    """etc/vernemq.conf may be mounted into the container."""
    (home / "etc" / "vernemq.conf").write_text("retry_interval = 5\nmax_client_id_size = 50\n")
    loaded = settings(home, DOCKER_VERNEMQ_RETRY_INTERVAL="6")
    assert (loaded["retry_interval"], loaded["max_client_id_size"]) == (6, 50)


@pytest.mark.parametrize("file", ["vernemq.conf", "conf.d/mine.conf"])
def test_files_override_the_defaults_of_the_image(home: Path, file: str) -> None:
    """Defaults of the image for log, node name and address. Before, they gave way to variables only, or to one of the
    files.
    """
    (home / "etc" / "conf.d").mkdir()
    (home / "etc" / "vernemq.conf").write_text("# the defaults\n")
    (home / "etc" / file).write_text("log.console = both\nnodename = n1@here\ncluster.address = 10.0.0.7\n")
    loaded = settings(home)
    found = [loaded[key] for key in ("log.console", "log.error", "nodename", "cluster.address")]
    assert found == ["both", True, "n1@here", "10.0.0.7"]


@pytest.mark.parametrize(
    ("line", "metrics"),
    [
        ("listener.http.mine = 0.0.0.0:8888", None),
        ("listener.http.mine = [::]:8888", None),
        ("listener.http.mine = 10.0.0.7:8888", None),
        ("listener.http.mine = 127.0.0.1:8888", "10.0.0.7:8888"),
        ("listener.http.mine = [::1]:8888", "0.0.0.0:8888"),
        ("listener.http.metrics = 127.0.0.1:9999", "0.0.0.0:8888"),
        ("listener.http.mine = 127.0.0.1:18888", "0.0.0.0:8888"),
    ],
)
def test_a_listener_of_the_image_makes_room_for_one_in_a_file(
    home: Path, monkeypatch: pytest.MonkeyPatch, line: str, metrics: str | None
) -> None:
    """Two listeners cannot have one port at the same address, such as those of a file that was made for a host."""
    monkeypatch.setattr(socket, "gethostbyname", lambda _: "10.0.0.7")
    (home / "etc" / "vernemq.conf").write_text(f"{line}\n")
    loaded = settings(home)
    assert addresses(loaded).get("listener.http.metrics") == metrics
    said = [each for each in loaded.notices if "listener.http.metrics" in each]
    assert len(said) == (metrics != "0.0.0.0:8888" or "metrics" in line), said


def test_a_listener_in_a_file_that_the_image_overrides_is_reported(home: Path) -> None:
    """As in VerneMQ's image, whose default file has 127.0.0.1:1883."""
    (home / "etc" / "vernemq.conf").write_text("listener.tcp.default = 127.0.0.1:1899\n")
    said = "listener.tcp.default = 127.0.0.1:1899 in a file has no effect in a container: "
    assert f"{said}DOCKER_VERNEMQ_LISTENER__TCP__DEFAULT sets this listener" in settings(home).notices
    loaded = settings(home, DOCKER_VERNEMQ_LISTENER__TCP__DEFAULT="127.0.0.1:1898")
    assert addresses(loaded)["listener.tcp.default"] == "127.0.0.1:1898"
    assert [each for each in loaded.notices if each.startswith(said)] == []


def test_without_an_address_of_its_own_a_listener_makes_room(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the network of the host its name may stand for loopback. Only one of the two addresses can be open."""
    monkeypatch.setattr(socket, "gethostbyname", lambda _: "127.0.1.1")
    loaded = settings(home, DOCKER_VERNEMQ_LISTENER__TCP__LOCALHOST="127.0.0.1:1883")
    assert "listener.tcp.default" not in addresses(loaded)
    said = "listener.tcp.default of the image is not opened: listener.tcp.localhost has its port 1883"
    assert [each for each in loaded.notices if "listener.tcp.default" in each] == [said]


def test_a_local_file_replaces_everything(home: Path) -> None:
    """Variables and all; ###IPADDRESS### is the container's. Written to etc/vernemq.conf, as in VerneMQ's image."""
    (home / "etc" / "vernemq.conf").write_text("retry_interval = 5\n")
    (home / "etc" / "vernemq.conf.local").write_text("listener.tcp.mine = ###IPADDRESS###:1999\n")
    loaded = settings(
        home, DOCKER_VERNEMQ_RETRY_INTERVAL="6", DOCKER_VERNEMQ_USER_EVE="x", DOCKER_IP_ADDRESS="10.9.8.7"
    )
    assert loaded["retry_interval"] == 20
    assert addresses(loaded) == {"listener.tcp.mine": "10.9.8.7:1999"}
    assert (home / "etc" / "vernemq.conf").read_text() == "listener.tcp.mine = 10.9.8.7:1999\n"
    assert not (home / "etc" / "vmq.passwd").exists()


def test_a_local_file_gets_the_address_of_its_own_container(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, it was 0.0.0.0, so all nodes of a cluster had one name."""
    (home / "etc" / "vernemq.conf.local").write_text("nodename = VerneMQ@###IPADDRESS###\n")
    monkeypatch.setattr(socket, "gethostbyname", lambda _: "10.0.0.7")
    assert settings(home)["nodename"] == "VerneMQ@10.0.0.7"
    assert settings(home, DOCKER_IP_ADDRESS="10.0.0.8")["nodename"] == "VerneMQ@10.0.0.8"
    monkeypatch.setattr(socket, "gethostbyname", lambda _: "127.0.1.1")
    assert settings(home)["nodename"] == "VerneMQ@0.0.0.0"


@pytest.mark.parametrize("file", ["vernemq.conf", "vernemq.conf.local", "conf.d/mine.conf"])
def test_files_with_other_encodings_are_read_as_everywhere(home: Path, file: str) -> None:
    """A mark for UTF-8 at the start, as editors write it, hides no key. What is not UTF-8 is named with its line."""
    (home / "etc" / "conf.d").mkdir()
    (home / "etc" / "vernemq.conf").write_text("# the defaults\n")
    (home / "etc" / file).write_bytes(b"\xef\xbb\xbfnodename = n1@here\n")
    assert settings(home)["nodename"] == "n1@here"
    (home / "etc" / file).write_bytes(b"allow_anonymous = on\n# caf\xe9\n")
    with pytest.raises(ConfigError, match=f"{file.removesuffix('.local')}:2: this is not UTF-8"):
        settings(home)


def test_a_file_that_the_user_of_the_image_may_not_read_is_named_with_the_remedy(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """For example a file of root with a secret, mounted as the configuration."""
    conf = home / "etc" / "vernemq.conf"
    conf.write_text("")
    owner, read = conf.stat().st_uid, Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path == conf:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return read(path)

    monkeypatch.chdir(home)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", refuse)
        patched.setattr(os, "geteuid", lambda: owner + 1)
        assert main(["start", "--container"]) == 1
    assert f"'{conf}': {conf} belongs to user {owner} and has the mode " in capsys.readouterr().err


def test_users_become_lines_of_the_password_file(home: Path) -> None:
    """Names are in lower case; existing users stay; a new password replaces the old line; only the owner may read the
    file.
    """
    file = home / "etc" / "vmq.passwd"
    file.write_text(f"old:{hashed(b'1', os.urandom(SALT_BYTES))}\nalice:{hashed(b'2', os.urandom(SALT_BYTES))}\n")
    before = file.read_text().splitlines()
    loaded = settings(home, DOCKER_VERNEMQ_USER_ALICE="wonder", DOCKER_VERNEMQ_USER_BOB="a=b c")
    assert loaded["vmq_passwd.password_file"] == str(file)
    after = file.read_text().splitlines()
    assert [line.split(":")[0] for line in after] == ["old", "alice", "bob"]
    assert after[0] == before[0] and after[1] != before[1]
    assert "wonder" not in file.read_text() and "a=b c" not in file.read_text()
    file.unlink()
    settings(home, DOCKER_VERNEMQ_USER_ALICE="wonder")
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_full_disk_does_not_empty_the_password_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other users of the file stay, and the start says what it lacks."""
    file = home / "etc" / "vmq.passwd"
    file.write_text(f"old:{hashed(b'1', os.urandom(SALT_BYTES))}\n")
    before = file.read_text()

    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match=r"\(alice\) cannot be written: .*No space left"):
        settings(home, DOCKER_VERNEMQ_USER_ALICE="wonder")
    assert file.read_text() == before and [each.name for each in file.parent.iterdir()] == ["vmq.passwd"]


def test_a_mounted_password_file_is_written_in_place(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mount point cannot be replaced."""

    def busy(*_: object) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(os, "replace", busy)
    settings(home, DOCKER_VERNEMQ_USER_ALICE="wonder")
    assert (home / "etc" / "vmq.passwd").read_text().startswith("alice:$6$")


def test_the_name_of_the_node_comes_from_its_data(home: Path) -> None:
    """Unless a variable names the node: then the start checks that the name fits the data."""
    DataDirectory(home / "data", "VerneMQ@172.17.0.2", lambda: "id").close()
    assert settings(home)["nodename"] == "VerneMQ@172.17.0.2"
    assert settings(home, DOCKER_VERNEMQ_NODENAME="172.17.0.3")["nodename"] == "VerneMQ@172.17.0.3"
    (home / "etc" / "vernemq.conf").write_text("nodename = mine@here\n")
    assert settings(home)["nodename"] == "mine@here"
    (home / "etc" / "vernemq.conf").write_text("# nodename = mine@here\n")
    assert settings(home)["nodename"] == "VerneMQ@172.17.0.2"
    (home / "data" / "strogoff.json").write_text("[]")
    assert settings(home)["nodename"] == f"VerneMQ@{socket.gethostname()}"  # no other container has that one


def test_unsupported_options_give_a_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An etc directory that cannot be written, an invalid user: status 1."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCKER_VERNEMQ_USER_ALICE", "wonder")
    assert main(["start", "--container"]) == 1
    said = capsys.readouterr().err
    assert f"No such file or directory: '{tmp_path}/etc/vmq.passwd'" in said
    assert "(alice) cannot be written: " in said and f"mount a writable {tmp_path}/etc" in said
    (tmp_path / "etc").mkdir()
    monkeypatch.setenv("DOCKER_VERNEMQ_USER_A:B", "wonder")
    assert main(["start", "--container"]) == 1
    assert "a:b" in capsys.readouterr().err


class Container(BrokerProcess):
    """A process with its home in `folder` and these variables, as the image starts it."""

    def __init__(self, folder: Path, **environ: str) -> None:
        super().__init__(folder / "data", free_port())
        self.folder = folder
        self.environ = environ

    def command(self) -> list[str]:
        """`strogoff start --container` on a port of this machine alone."""
        words = {
            "DOCKER_IP_ADDRESS": "127.0.0.1",
            "DOCKER_VERNEMQ_LISTENER__TCP__DEFAULT": f"127.0.0.1:{self.port}",
            "DOCKER_VERNEMQ_LISTENER__WS__DEFAULT": "127.0.0.1:0",
            "DOCKER_VERNEMQ_LISTENER__HTTP__METRICS": "127.0.0.1:0",
            "DOCKER_VERNEMQ_LISTENER__VMQ__CLUSTERING": f"127.0.0.1:{free_port()}",
            "DOCKER_VERNEMQ_CLUSTER__DATA_PORT": "0",
            **self.environ,
        }
        given = [f"{name}={value}" for name, value in words.items()]
        return ["env", *given, sys.executable, "-m", "strogoff", "start", "--container"]


def in_container(container: Container, work: Callable[[Container], Awaitable[None]]) -> None:
    """Start the container, run the test, stop it: exit 0 and no error in the log."""

    async def run() -> None:
        async with asyncio.timeout(40):
            await container.start()
            try:
                await work(container)
            finally:
                status = await container.stop()
            assert status == 0

    asyncio.run(run())
    assert container.tracebacks() == []


@pytest.mark.slow
@pytest.mark.system
def test_a_start_with_users_and_a_restart_with_another_address(home: Path) -> None:
    """Users log in, other clients do not; sessions and the node's name are kept at the next start."""

    async def first(container: Container) -> None:
        alice = SteadyClient("a", container.port, username="alice", password=b"wonder")
        assert not (await alice.connect()).session_present
        await alice.disconnect()
        with pytest.raises(ConnectionRefusedError, match="Connack"):
            await SteadyClient("b", container.port, username="alice", password=b"wrong").connect()

    async def second(container: Container) -> None:
        alice = SteadyClient("a", container.port, username="alice", password=b"wonder")
        assert (await alice.connect()).session_present
        await alice.disconnect()

    users = {"DOCKER_VERNEMQ_USER_ALICE": "wonder"}
    in_container(Container(home, **users, DOCKER_VERNEMQ_NODENAME="172.17.0.2"), first)
    in_container(Container(home, **users), second)
    log = (home / "data.log").read_text()
    assert log.count("node VerneMQ@172.17.0.2, boot ") == 2
    assert "wonder" not in log


@pytest.mark.system
def test_a_start_with_a_local_file(home: Path) -> None:
    """Only what it says is opened."""
    container = Container(home, DOCKER_VERNEMQ_ALLOW_ANONYMOUS="off")
    (home / "etc" / "vernemq.conf.local").write_text(
        f"allow_anonymous = on\nlistener.tcp.mine = ###IPADDRESS###:{container.port}\n"
        "log.console = console\nlog.error = off\n"
    )

    async def work(container: Container) -> None:
        client = SteadyClient("c", container.port)
        await client.connect()
        await client.disconnect()

    in_container(container, work)
    assert (home / "data.log").read_text().count(": listening on ") == 1


def test_a_pod_of_a_stateful_set_looks_at_its_headless_service(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the full name of the host, or by the namespace of the service account and the named service."""
    monkeypatch.setattr(socket, "getfqdn", lambda: "vmq-0.vmq-headless.prod.svc.cluster.local")
    more = {"DOCKER_VERNEMQ_DISTRIBUTED_COOKIE": "5f0c", "DOCKER_VERNEMQ_DISCOVERY__EXPECTED_NODES": "3"}
    loaded = settings(home, DOCKER_VERNEMQ_DISCOVERY_KUBERNETES="1", **more)
    assert loaded["discovery.nodes"] == "vmq-headless.prod.svc.cluster.local"
    monkeypatch.setattr(socket, "getfqdn", lambda: "vmq-0")
    monkeypatch.setattr(container, "NAMESPACE_FILE", home / "namespace")
    (home / "namespace").write_text("prod\n")
    service = {"DOCKER_VERNEMQ_KUBERNETES_SUBDOMAIN": "mine"}
    loaded = settings(home, DOCKER_VERNEMQ_DISCOVERY_KUBERNETES="1", **service, **more)
    assert loaded["discovery.nodes"] == "mine.prod.svc.cluster.local"


@pytest.mark.parametrize("named", ["/mnt/data", "other"])
def test_a_data_directory_that_the_container_would_not_use_stops_the_start(home: Path, named: str) -> None:
    """In a variable or in a file. Before, the node wrote into the container, and not to the volume mounted there."""
    said = f"platform_data_dir = {named}: .* set STROGOFF_DATA_DIR={named} instead, or mount the volume at {home}/data"
    with pytest.raises(ValueError, match=f"^DOCKER_VERNEMQ_PLATFORM_DATA_DIR: {said}"):
        prepare({"DOCKER_VERNEMQ_PLATFORM_DATA_DIR": named}, home)
    (home / "etc" / "vernemq.conf").write_text(f"\nplatform_data_dir = {named}  # a volume\n")
    with pytest.raises(ValueError, match=f"^{home}/etc/vernemq.conf:2: {said}"):
        prepare({}, home)
    assert settings(home, STROGOFF_DATA_DIR=str(home / named))["platform_data_dir"] == str(home / named)


def test_data_in_the_container_itself_is_reported(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also before the node makes the directory. /proc stands for a volume: it is a file system of its own."""
    monkeypatch.setattr(container, "ROOT", home)
    said = [f"{home}/data is on no volume: the data of this node is lost with its container. Mount a volume there"]
    assert not_on_a_volume(home / "data") == said
    (home / "data").mkdir()
    assert not_on_a_volume(home / "data") == said
    assert not_on_a_volume(Path("/proc")) == []
    monkeypatch.chdir(home)
    parser = argparse.ArgumentParser()
    daemon.register(parser)
    assert said[0] in daemon.read_settings(parser.parse_args(["--container"])).notices


def test_a_data_directory_may_be_named_as_in_files_of_vernemq(home: Path) -> None:
    """`./data`, as in its default file, or a link of the image, as in its packages."""
    (home / "data").mkdir()
    (home / "link").symlink_to(home / "data")
    (home / "etc" / "vernemq.conf").write_text("platform_data_dir = ./data\n")
    assert settings(home)["platform_data_dir"] == str(home / "data")
    assert settings(home, DOCKER_VERNEMQ_PLATFORM_DATA_DIR=f"{home}/link")["platform_data_dir"] == str(home / "data")


def test_a_network_interface_names_the_address(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    _, environ, _ = prepare({"DOCKER_NET_INTERFACE": "lo"}, tmp_path)
    assert environ == {"DOCKER_IP_ADDRESS": "127.0.0.1"} and address_of("") == "0.0.0.0"
    _, environ, _ = prepare({"DOCKER_NET_INTERFACE": "lo", "DOCKER_IP_ADDRESS": "10.0.0.1"}, tmp_path)
    assert environ["DOCKER_IP_ADDRESS"] == "10.0.0.1"
    with pytest.raises(ValueError, match="DOCKER_NET_INTERFACE = none0: it has no IPv4 address here"):
        prepare({"DOCKER_NET_INTERFACE": "none0"}, tmp_path)


def test_the_name_of_the_pod_names_a_new_node(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    assert prepare({"MY_POD_NAME": "vmq-0"}, tmp_path)[2]["nodename"] == "VerneMQ@vmq-0"
