"""Plugins that a configuration loads, their files, and changed or wrong files."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from strogoff.broker.plugins.builtin import BuiltinPlugins, PluginFileError, check_plugin_files
from strogoff.broker.plugins.hooks import Hooks, Refuse
from strogoff.broker.plugins.loader import PluginError
from strogoff.broker.plugins.passwords import SALT_BYTES, hashed
from strogoff.broker.plugins.verdicts import NO, Subscriber
from strogoff.configs import load

ME = Subscriber("", "client")
PEER = ("127.0.0.1", 5555)


class Case:
    """Hooks with the plugins of some settings, and the log."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.lines: list[str] = []
        self.hooks = Hooks()
        wanted = {name.replace("__", "."): value for name, value in settings.items()}
        self.logged = asyncio.Event()
        self.plugins = BuiltinPlugins(load(None, {}, wanted), self.hooks, self._log)

    def _log(self, level: str, text: str) -> None:
        self.lines.append(f"{level}: {text}")
        self.logged.set()

    def login(self, user: str, password: bytes) -> object:
        """The chain's answer to a CONNECT."""
        return self.hooks.ask("auth_on_register", PEER, ME, user, password, True)

    def publish(self, topic: str) -> bool:
        """Whether the chain allows the publish."""
        answer = self.hooks.ask("auth_on_publish", "user", ME, 0, topic, b"", False)
        return not isinstance(answer, Refuse)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without any files."""
    monkeypatch.chdir(tmp_path)


def line(user: str, password: bytes) -> str:
    """A line of a password file."""
    return f"{user}:{hashed(password, os.urandom(SALT_BYTES))}\n"


def test_without_files_all_may_publish_and_no_password_is_valid(tmp_path: Path) -> None:
    """VerneMQ installs an ACL file that grants everything; there is no password, and warnings say both."""
    case = Case(tmp_path)
    assert case.publish("any/thing")
    assert isinstance(case.login("alice", b"wonder"), Refuse)
    passwords, rules = case.lines
    assert passwords.startswith(
        f"warning: vmq_passwd.password_file: there is no {tmp_path / 'etc' / 'vmq.passwd'}: no client can"
    )
    assert rules == (
        f"warning: vmq_acl.acl_file: there is no {tmp_path / 'etc' / 'vmq.acl'}: every client that is let in may "
        "publish and subscribe everything. Write rules into that file; it is read as soon as it exists"
    )


def test_allow_anonymous_needs_no_passwords(tmp_path: Path) -> None:
    """There is no warning about passwords then."""
    assert all("vmq_acl" in line for line in Case(tmp_path, allow_anonymous="on").lines)


def test_files_at_their_usual_place_are_found(tmp_path: Path) -> None:
    """The files in ./etc are used, as in VerneMQ's installation."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "vmq.passwd").write_text(line("alice", b"wonder"))
    (tmp_path / "etc" / "vmq.acl").write_text("topic open/#\n")
    case = Case(tmp_path)
    assert case.lines == []
    assert not isinstance(case.login("alice", b"wonder"), Refuse)
    assert case.login("alice", b"wrong") == Refuse("invalid_credentials")
    assert case.publish("open/x") and not case.publish("closed/x")


def test_a_configured_file_that_is_missing_counts_as_empty(tmp_path: Path) -> None:
    """A stock vernemq.conf names ./etc/vmq.passwd, which does not exist yet: VerneMQ starts, and
    refuses all clients.
    """
    case = Case(tmp_path, vmq_passwd__password_file="./etc/none", vmq_acl__acl_file=str(tmp_path / "none"))
    assert case.login("ann", b"secret") == Refuse("plugin_chain_exhausted") and not case.publish("t")
    passwords, rules = case.lines
    assert passwords == (
        f"warning: vmq_passwd.password_file: there is no {tmp_path / 'etc' / 'none'}: no client can log in with a "
        "password; it is read as soon as it exists"
    )
    assert rules.startswith(f"warning: vmq_acl.acl_file: there is no {tmp_path / 'none'}: no client may publish or")
    still = Case(tmp_path, vmq_passwd__password_file="none", vmq_passwd__password_reload_interval="0")
    assert still.lines[0].endswith("create it and start the node again")


def test_an_existing_file_must_be_valid(tmp_path: Path) -> None:
    """The error names the key, the file and the line."""
    with pytest.raises(PluginFileError, match=f"^vmq_passwd.password_file: {tmp_path}: Is a directory$"):
        Case(tmp_path, vmq_passwd__password_file=str(tmp_path))
    wrong = tmp_path / "wrong"
    wrong.write_text("topic ok\nnonsense\n")
    with pytest.raises(PluginFileError, match=f"^vmq_acl.acl_file: {wrong}:2: "):
        Case(tmp_path, vmq_acl__acl_file=str(wrong))
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "vmq.acl").write_text("nonsense")
    with pytest.raises(PluginFileError, match=r"^vmq_acl.acl_file: .*etc/vmq.acl:1: "):
        Case(tmp_path)


@pytest.mark.parametrize(("key", "name"), [("vmq_acl.acl_file", "vmq.acl"), ("vmq_passwd.password_file", "vmq.passwd")])
def test_a_link_to_nothing_is_not_a_missing_file(tmp_path: Path, key: str, name: str) -> None:
    """Its rules may only be out of reach for now, so the node does not start without them."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / name).symlink_to("gone")
    with pytest.raises(PluginFileError) as error:
        Case(tmp_path)
    assert str(error.value) == f"{key}: etc/{name}: No such file or directory (a link to gone)"


def test_a_file_that_its_folder_hides_is_not_a_missing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows then whether there are rules. The tests may run as root, who enters each folder."""
    (tmp_path / "etc").touch()
    with pytest.raises(PluginFileError, match=r"vmq_passwd.password_file: etc/vmq.passwd: Not a directory$"):
        Case(tmp_path)

    def denied(path: Path, **_: object) -> os.stat_result:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "etc").unlink()
    monkeypatch.setattr(Path, "stat", denied)
    monkeypatch.setattr(Path, "lstat", denied)
    with pytest.raises(PluginFileError, match=r"vmq_acl.acl_file: etc/vmq.acl: Permission denied$"):
        Case(tmp_path, plugins__vmq_passwd="off")


def test_a_file_that_this_user_may_not_read_is_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user of the node may read it. A file that does not exist is no such file."""
    (tmp_path / "wrong").write_text("nonsense")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    warnings: list[str] = []
    settings = load(None, {}, {"vmq_acl.acl_file": "wrong", "vmq_passwd.password_file": "none"})
    assert list(check_plugin_files(settings, lambda _, text: warnings.append(text))) == []
    passwords, rules = warnings
    assert passwords.startswith(f"vmq_passwd.password_file: there is no {tmp_path / 'none'}")
    assert rules == "vmq_acl.acl_file: wrong was not checked: this user may not read it"


def test_plugins_can_be_switched_off(tmp_path: Path) -> None:
    """Without any plugin no client is allowed."""
    case = Case(tmp_path, plugins__vmq_passwd="off", plugins__vmq_acl="off")
    assert case.hooks.names == () and case.lines == []


PLUGIN = """\
class {name}:
    def auth_on_register(self, peer, subscriber, username, password, clean_session):
        return username == "{user}"
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, str], None]:
    """Writes a module with a plugin that lets one user in."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(module: str, name: str, user: str) -> None:
        (tmp_path / f"{module}.py").write_text(PLUGIN.format(name=name, user=user))
        sys.modules.pop(module, None)

    return write


def test_python_plugins_in_their_order(tmp_path: Path, modules: Callable[[str, str, str], None]) -> None:
    """By priority; those without one come last, as they stand in the file. The first answer counts."""
    modules("first_plugin_of_test", "One", "alice")
    modules("second_plugin_of_test", "Two", "bob")
    case = Case(
        tmp_path,
        plugins__vmq_passwd="off",
        plugins__vmq_acl="off",
        plugins__python__late="first_plugin_of_test:One",
        plugins__python__early="second_plugin_of_test:Two",
        plugins__python__early__priority="3",
    )
    assert case.hooks.names == ("early", "late")
    assert not isinstance(case.login("bob", b""), Refuse)
    assert case.login("alice", b"") == NO


def test_the_password_file_and_the_acl_file_have_places_in_the_chain(
    tmp_path: Path, modules: Callable[[str, str, str], None]
) -> None:
    """Their priority is 0, so a plugin with a negative one is asked before them."""
    modules("first_plugin_of_test", "One", "alice")
    python = {"plugins__python__mine": "first_plugin_of_test:One", "plugins__python__mine__priority": "-1"}
    assert Case(tmp_path, **python).hooks.names == ("mine", "vmq_passwd", "vmq_acl")
    places = {"plugins__vmq_passwd__priority": "2000", "plugins__vmq_acl__priority": "-2"}
    assert Case(tmp_path, **python, **places).hooks.names == ("vmq_acl", "mine", "vmq_passwd")


def test_a_plugin_that_does_not_exist(tmp_path: Path) -> None:
    """The error comes at the start, not with the first client."""
    with pytest.raises(PluginError, match="no_such_module"):
        Case(tmp_path, plugins__python__mine="no_such_module:Plugin")


def test_the_chains_of_listeners_are_known_to_the_hooks(tmp_path: Path) -> None:
    """A listener with plugins of its own starts."""
    chain = {"listener__tcp__default": "127.0.0.1:0", "listener__tcp__default__auth_plugins": "vmq_passwd"}
    assert Case(tmp_path, **chain).hooks.names == ("vmq_passwd", "vmq_acl")


def test_changed_files_are_used_and_broken_ones_are_not(tmp_path: Path) -> None:
    """Files are checked at every interval; a broken file is an error in the log, and the old rules stay in force."""

    async def test() -> None:
        acl = tmp_path / "my.acl"
        acl.write_text("topic a\n")
        case = Case(tmp_path, plugins__vmq_passwd="off", vmq_acl__acl_file=str(acl), vmq_acl__acl_reload_interval="1")
        case.plugins.start()

        async def until(text: str) -> None:
            while not any(text in line for line in case.lines):
                case.logged.clear()
                await case.logged.wait()

        async with asyncio.timeout(20):
            acl.write_text("nonsense\n")
            await until("the old rules stay")
            assert case.publish("a") and not case.publish("b")
            acl.write_text("topic b\n")
            await until("read again")
            assert case.publish("b") and not case.publish("a")
        await case.plugins.close()

    asyncio.run(test())


def test_a_reload_reads_changed_files_although_nobody_watches_them(tmp_path: Path) -> None:
    """A broken file is an error in the log, and the old rules stay in force."""

    async def test() -> None:
        acl = tmp_path / "my.acl"
        acl.write_text("topic a\n")
        case = Case(tmp_path, plugins__vmq_passwd="off", vmq_acl__acl_file=str(acl), vmq_acl__acl_reload_interval="0")
        acl.write_text("nonsense\n")
        await case.plugins.reload()
        assert case.publish("a") and not case.publish("b")
        acl.write_text("topic b\n")
        await case.plugins.reload()
        assert case.publish("b") and not case.publish("a")
        await case.plugins.reload()
        broken, read = case.lines
        assert broken.endswith("the old rules stay") and read == f"info: {acl}: read again"

    asyncio.run(test())


def test_rules_that_come_after_the_start_replace_the_open_ones(tmp_path: Path) -> None:
    """Without an ACL file at its usual place all may do everything; the file counts as soon as it is there."""

    async def test() -> None:
        case = Case(tmp_path, plugins__vmq_passwd="off", vmq_acl__acl_reload_interval="1")
        case.plugins.start()
        assert case.publish("a") and case.publish("b")
        (tmp_path / "etc").mkdir()
        (tmp_path / "etc" / "vmq.acl").write_text("topic b\n")
        async with asyncio.timeout(20):
            while not any("read again" in line for line in case.lines):
                case.logged.clear()
                await case.logged.wait()
        assert case.publish("b") and not case.publish("a")
        await case.plugins.close()

    asyncio.run(test())


def test_close_stops_the_watching(tmp_path: Path) -> None:
    """No task is left; closing twice, or without a start, is no error."""

    async def test() -> None:
        case = Case(tmp_path)
        await case.plugins.close()
        case.plugins.start()
        assert len(asyncio.all_tasks()) == 3
        await case.plugins.close()
        await case.plugins.close()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(test())
