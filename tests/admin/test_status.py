"""The figures of a node."""

from __future__ import annotations

from pathlib import Path

from strogoff.admin.status import figures, members, not_running

from .house import House, in_house


def test_figures(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        kept = await house.client("kept", clean=False)
        await kept.subscribe(("a", 1))
        await kept.leave()
        await (await house.client("c")).publish("a", b"x", retain=True)
        found = figures(house.context)
        assert list(found) == [
            "num_online",
            "num_offline",
            "msg_in",
            "msg_out",
            "queue_in",
            "queue_out",
            "queue_drop",
            "queue_unhandled",
            "num_subscriptions",
            "num_retained",
            "matches_local",
            "matches_remote",
            "version",
        ]
        assert list(found.values())[:12] == [1, 1, 1, 0, 1, 0, 0, 0, 1, 1, 1, 0]

    in_house(tmp_path, test)


def test_who_runs(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        assert members(house.context) == {"VerneMQ@127.0.0.1": True}
        assert not_running(house.context) == []
        await house.server.listeners.stop("tcp.default")
        assert not_running(house.context) == [f"listener mqtt 127.0.0.1:{house.port} is stopped"]

    in_house(tmp_path, test)
