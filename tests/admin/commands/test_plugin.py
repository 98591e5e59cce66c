"""`plugin show`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..server_harness import ServerHarness, run_with_server

PLUGIN = """
class Plugin:
    def auth_on_publish(self, username, subscriber, qos, topic, payload, retain):
        return True

    def on_client_gone(self, subscriber):
        pass
"""


def test_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plugin_of_this_test.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)

    async def test(harness: ServerHarness) -> None:
        rows = (await harness.good("plugin", "show", "--format=json")).table
        assert [(row["Plugin"], row["Type"], row["Hook(s)"], row["M:F/A"]) for row in rows] == [
            ("vmq_passwd", "application", "auth_on_register", "vmq_passwd:auth_on_register/5"),
            ("vmq_acl", "application", "auth_on_publish", "vmq_acl:auth_on_publish/6"),
            ("vmq_acl", "application", "auth_on_subscribe", "vmq_acl:auth_on_subscribe/3"),
            ("mine", "module", "auth_on_publish", "mine:auth_on_publish/6"),
            ("mine", "module", "on_client_gone", "mine:on_client_gone/1"),
        ]

        assert (await harness.good("plugin", "show", "--hook=on_client_gone")).out == (
            "+------+------+--------------+---------------------+\n"
            "|Plugin| Type |   Hook(s)    |        M:F/A        |\n"
            "+------+------+--------------+---------------------+\n"
            "| mine |module|on_client_gone|mine:on_client_gone/1|\n"
            "+------+------+--------------+---------------------+\n"
        )

    run_with_server(tmp_path, test, plugins__python__mine="plugin_of_this_test:Plugin")


def test_filters(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        show = ("plugin", "show", "--format=csv")
        assert (await harness.good(*show, "--hook=auth_on_register")).out == (
            "Plugin,Type,Hook(s),M:F/A\nvmq_passwd,application,auth_on_register,vmq_passwd:auth_on_register/5\n"
        )
        assert len((await harness.good(*show, "--plugin=vmq_acl")).out.splitlines()) == 3
        assert len((await harness.good(*show, "--plugin=nobody")).out.splitlines()) == 1

    run_with_server(tmp_path, test)
