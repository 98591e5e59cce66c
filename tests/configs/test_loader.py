"""Files, environment and overrides together."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strogoff import configs
from strogoff.configs.schema import schema

Conf = Callable[[str], configs.Settings]

KEYS = [line.split("\t") for line in (Path(__file__).parent / "vernemq_keys.tsv").read_text().splitlines()]
SANE = {
    "listener.tcp.$name": "127.0.0.1:1883",
    "listener.ssl.$name": "127.0.0.1:8883",
    "listener.ws.$name": "127.0.0.1:8080",
    "listener.wss.$name": "127.0.0.1:8083",
    "listener.tcp.buffer_sizes": "4096,16384,32768",
    "listener.tcp.$name.auth_plugins": "vmq_passwd",
    "listener.tcp.$name.authz_plugins": "vmq_acl",
}


def stock(pem: Path) -> str:
    """All keys of VerneMQ with their defaults. TLS listeners have certificates, as they need them."""
    lines = []
    for key, default in KEYS:
        text = SANE.get(key, default)
        option = key.split(".")[-1]
        if option in ("certfile", "keyfile") and key.startswith("listener."):
            text = str(pem / ("cert.pem" if option == "certfile" else "key.pem"))
        if text != "—":
            name = key.replace("$name", "stock").replace("$module", "module").replace("$topic_id", "1")
            lines.append(f"{name.replace('$script', 'script')} = {'' if text == chr(34) * 2 else text}".strip())
    return "\n".join(lines).replace("use_crls = true", "use_crls = on")


def test_a_stock_conf_with_every_key_at_its_default_loads(conf: Conf, pem: Path) -> None:
    loaded = conf(stock(pem))
    assert len(loaded.listeners()) == 8
    assert [setting.line.key for setting in loaded.not_implemented()] == []
    assert len(loaded.notices) == 1
    assert loaded.notices[0].startswith("accepted, but without effect in this broker: ")
    allowed = {"certfile", "keyfile", "buffer_sizes", "auth_plugins", "authz_plugins", "stock"}
    ours = {"log.console.rotation.size", "log.error.rotation.size"}  # VerneMQ's log files grow without bound
    ours.add("max_message_size")  # VerneMQ's packets may have any size
    ours.add("max_subscriptions_per_client")  # VerneMQ's clients may have any number of filters
    assert {key for key in loaded.changed() if key.split(".")[-1] not in allowed} == ours


def test_an_empty_configuration_has_the_defaults() -> None:
    loaded = configs.load(None)
    assert loaded["max_inflight_messages"] == 20
    assert loaded.source("max_inflight_messages") == "default"
    assert loaded.listeners() == []
    assert loaded.notices == []
    assert loaded.changed() == {}


def test_later_lines_win_and_both_are_named(conf: Conf, tmp_path: Path) -> None:
    loaded = conf("retry_interval = 5\n\nretry_interval = 6\n")
    assert loaded["retry_interval"] == 6
    assert loaded.source("retry_interval") == f"{tmp_path}/vernemq.conf:3"
    at = f"{tmp_path}/vernemq.conf"
    assert loaded.notices == [f"{at}:3: retry_interval is set again: this line counts, {at}:1 does not"]


def test_an_age_in_months_has_a_notice(conf: Conf, tmp_path: Path) -> None:
    """As in VerneMQ, m is a month there. In other keys it is a minute."""
    loaded = conf("persistent_client_expiration = 30m\nmax_last_will_delay = client\n")
    assert loaded.notices == [
        f"{tmp_path}/vernemq.conf:1: persistent_client_expiration = 30m: m is a month of 4 weeks, so this is 840 days; "
        "minutes have to be written as seconds"
    ]


def test_unreadable_files_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example files of another user. Before, a folder was skipped without a notice, and an unreadable file gave a
    traceback.
    """
    monkeypatch.chdir(tmp_path)
    assert configs.usual_file() is None
    (tmp_path / "etc" / "conf.d").mkdir(parents=True)
    (tmp_path / "etc" / "vernemq.conf").write_text("")

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    # the tests may run as root, for whom file modes do not count
    monkeypatch.setattr(Path, "iterdir", denied)
    with pytest.raises(configs.ConfigError) as error:
        configs.load(configs.usual_file())
    assert [str(each) for each in error.value.problems] == ["etc/conf.d: the folder cannot be read: permission denied"]
    monkeypatch.setattr(Path, "exists", denied)
    assert configs.usual_file() == Path("etc/vernemq.conf")


def test_files_in_conf_d_are_read_after_the_file_in_order(conf: Conf, tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "b.conf").write_text("retry_interval = 7")
    (tmp_path / "conf.d" / "a.conf").write_text("retry_interval = 6\nqueue_type = lifo")
    (tmp_path / "conf.d" / "c.txt").write_text("nonsense")
    (tmp_path / "conf.d" / ".hidden.conf").write_text("nonsense")
    (tmp_path / "conf.d" / ".#a.conf").symlink_to("somebody@elsewhere.4711")  # as Emacs does while it edits a.conf
    loaded = conf("retry_interval = 5")
    assert (loaded["retry_interval"], loaded["queue_type"]) == (7, "lifo")
    assert loaded.source("retry_interval") == f"{tmp_path}/conf.d/b.conf:1"
    assert len(loaded.notices) == 2


def test_environment_wins_over_files_and_overrides_over_all(tmp_path: Path) -> None:
    path = tmp_path / "vernemq.conf"
    path.write_text("retry_interval = 5\nqueue_type = lifo\nmax_client_id_size = 23")
    environ = {"DOCKER_VERNEMQ_RETRY_INTERVAL": "6", "DOCKER_VERNEMQ_QUEUE_TYPE": "fifo"}
    loaded = configs.load(path, environ, {"retry_interval": "7"})
    assert (loaded["retry_interval"], loaded["queue_type"], loaded["max_client_id_size"]) == (7, "fifo", 23)
    assert [loaded.source(key) for key in ("retry_interval", "queue_type")] == ["override", "environment"]
    assert loaded.notices == []


def test_an_unknown_key_from_the_environment_carries_the_name_of_its_variable() -> None:
    with pytest.raises(configs.ConfigError) as caught:
        configs.load(None, {"DOCKER_VERNEMQ_ALLOW_ANONYMOUSS": "on"}, {"nothing.like.it": "x"})
    assert str(caught.value) == "\n".join(
        [
            "2 problems in the configuration:",
            "  DOCKER_VERNEMQ_ALLOW_ANONYMOUSS: allow_anonymouss: unknown key",
            "      did you mean allow_anonymous?",
            "  override: nothing.like.it: unknown key",
        ]
    )


def test_references_are_replaced_in_values_and_defaults(conf: Conf) -> None:
    loaded = conf("platform_data_dir = /d\nlog.console.file = $(platform_data_dir)/$(queue_type).log\n")
    assert loaded["log.console.file"] == "/d/fifo.log"
    assert loaded["eventlog.dir"] == "/d/eventlog"
    assert loaded["node.admin_socket"] == "/d/admin.sock"
    assert loaded["vmq_generic_msg_store.store_dir"] == "/d/msgstore"


def test_a_reference_in_a_path_that_is_not_closed_is_refused(conf: Conf, complaint: Callable[[str], str]) -> None:
    """A value that is no path may contain anything."""
    assert "vmq_acl.acl_file: there is a $( without a key and )" in complaint(
        "vmq_acl.acl_file = $(platform_data_dir/x"
    )
    assert conf("distributed_cookie = $(x")["distributed_cookie"] == "$(x"


def test_references_in_a_circle_and_references_that_multiply_are_refused(complaint: Callable[[str], str]) -> None:
    text = complaint("log.error.file = $(log.console.file)\nlog.console.file = $(log.error.file)\n")
    assert "the value refers to itself" in text
    chain = ["log.error.file", "log.console.file", "vmq_acl.acl_file", "vmq_passwd.password_file"]
    doubled = [f"{a} = {f'$({b})' * 9}" for a, b in pairwise(chain)]
    text = complaint("\n".join([*doubled, f"{chain[-1]} = {'x' * 100}"]))
    assert "the value is longer than 8192 characters" in text


def test_leveldb_sync_on_write_asks_for_synchronous_durability(conf: Conf) -> None:
    assert conf("leveldb.sync_on_write = on")["message_store.durability"] == "sync"
    assert conf("leveldb.sync_on_write = off")["message_store.durability"] == "os"
    loaded = conf("leveldb.sync_on_write = on\nmessage_store.durability = os")
    assert loaded["message_store.durability"] == "os"
    assert "leveldb.sync_on_write = on does not count" in loaded.notices[0]


def test_options_without_an_address_are_named(conf: Conf) -> None:
    loaded = conf("listener.http.default.max_connections = 5\nlistener.tcp.max_connections = 5")
    assert loaded.listeners() == []
    assert loaded.notices == ["listener.http.default has options but no address, so it is not opened"]


def test_files_that_cannot_be_read_are_problems(tmp_path: Path) -> None:
    with pytest.raises(configs.ConfigError) as caught:
        configs.load(tmp_path / "none.conf")
    assert caught.value.problems[0].message == "the file cannot be read: no such file or directory"
    with pytest.raises(configs.ConfigError) as caught:
        configs.load(tmp_path)
    assert caught.value.problems[0].message == "the file cannot be read: is a directory"
    path = tmp_path / "latin.conf"
    path.write_bytes(b"queue_type = fifo\n# caf\xe9\n")
    with pytest.raises(configs.ConfigError) as caught:
        configs.load(path)
    (problem,) = caught.value.problems
    assert (problem.line, problem.message) == (2, "this is not UTF-8")


def test_a_file_with_a_byte_order_mark_loads(tmp_path: Path) -> None:
    path = tmp_path / "vernemq.conf"
    path.write_bytes(b"\xef\xbb\xbfqueue_type = lifo\r\n")
    assert configs.load(path)["queue_type"] == "lifo"


WORDS = [*schema().keys, *schema().removed, "=", "on", "off", "127.0.0.1:1883", "$(platform_data_dir)", "#", "'", "\n"]
TEXTS = st.one_of(st.text(max_size=200), st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))


@settings(max_examples=150, deadline=None)
@given(
    content=TEXTS
    | st.lists(st.tuples(st.sampled_from(WORDS), TEXTS), max_size=6).map(lambda p: "\n".join(map(" = ".join, p)))
)
def test_any_text_gives_settings_or_a_config_error(tmp_path_factory: pytest.TempPathFactory, content: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.conf"
    path.write_bytes(content.replace("$name", "mine").encode("utf-8", "surrogatepass"))
    try:
        loaded = configs.load(path)
    except configs.ConfigError as error:
        assert error.problems
        assert str(error)
    else:
        for key in loaded:
            assert loaded.source(key).startswith(str(path))
        loaded.listeners()
        loaded.python_plugins()


def test_check_warns_of_a_short_cookie(conf: Conf) -> None:
    """Whoever records a handshake can guess it. On loopback nobody else can."""
    (notice,) = conf("listener.vmq.default = 0.0.0.0:44053\ndistributed_cookie = 5f0c9a3e7b1d246").notices
    assert notice.startswith("listener.vmq.default can be reached from other machines, and distributed_cookie has less")
    assert "5f0c" not in notice
    assert conf("listener.vmq.default = 127.0.0.1:44053\ndistributed_cookie = short").notices == []
