"""The data directory: one owner, one node, a boot number that never repeats."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from strogoff.storage.directory import FORMAT, DataDirectory, note_repair_with_loss
from strogoff.storage.engine import Corrupted, DirectoryInUse, WrongDirectory
from strogoff.storage.leveldb import LevelDBEngine

from .contract import Loop


def uuids() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"uuid-{next(numbers)}"


def start(path: Path, node: str = "a@127.0.0.1") -> DataDirectory:
    return DataDirectory(path, node, uuids())


def use(path: Path) -> None:
    """Start and stop once; both databases exist afterwards."""
    directory = start(path)
    for place in (directory.messages, directory.meta):
        LevelDBEngine(place, Loop().call_threadsafe).close()
    directory.close()


def test_a_new_directory(tmp_path: Path) -> None:
    directory = start(tmp_path / "data" / "a")
    assert (directory.boot, directory.node_name) == (1, "a@127.0.0.1")
    assert directory.format == FORMAT
    assert (directory.cluster_id, directory.disk_uuid) == ("uuid-1", "uuid-2")
    assert directory.messages.is_dir()
    assert directory.meta.is_dir()
    directory.close()


def test_the_boots_of_an_earlier_disk_are_remembered(tmp_path: Path) -> None:
    use(tmp_path)
    directory = start(tmp_path)
    assert (directory.boot, directory.boot_above) == (2, 0)
    directory.raise_boot(1005)
    directory.close()
    directory = start(tmp_path)
    assert (directory.boot, directory.boot_above) == (1006, 1005)
    directory.raise_boot(7)
    directory.close()
    directory = start(tmp_path)
    assert (directory.boot, directory.boot_above) == (1007, 1005)
    directory.close()


def test_each_start_has_a_higher_boot_also_after_a_crash(tmp_path: Path) -> None:
    use(tmp_path)
    code = (
        "import os, sys; from strogoff.storage.directory import FORMAT, DataDirectory\n"
        "print(DataDirectory(sys.argv[1], 'a@127.0.0.1', str).boot, flush=True); os.kill(os.getpid(), 9)"
    )
    crashed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, timeout=60, check=False)
    assert crashed.stdout == b"2\n"
    directory = start(tmp_path)
    assert (directory.boot, directory.cluster_id, directory.disk_uuid) == (3, "uuid-1", "uuid-2")
    directory.close()


def test_the_boot_number_is_durable_before_it_is_returned(tmp_path: Path) -> None:
    directory = start(tmp_path)
    assert json.loads((tmp_path / "strogoff.json").read_text())["boot"] == directory.boot
    directory.close()


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    directory = start(tmp_path)
    with pytest.raises(DirectoryInUse, match=str(os.getpid())) as refused:
        start(tmp_path)
    assert str(tmp_path) in str(refused.value)
    assert directory.boot == json.loads((tmp_path / "strogoff.json").read_text())["boot"], "nothing was counted"
    directory.close()
    directory.close()
    start(tmp_path).close()


def test_the_data_of_another_node(tmp_path: Path) -> None:
    use(tmp_path)
    with pytest.raises(WrongDirectory) as refused:
        start(tmp_path, "b@127.0.0.1")
    assert "'a@127.0.0.1'" in str(refused.value)
    assert "'b@127.0.0.1'" in str(refused.value)
    directory = start(tmp_path)
    assert directory.boot == 2, "the refused start was none"
    directory.close()


def test_a_lost_marker_is_never_replaced(tmp_path: Path) -> None:
    use(tmp_path)
    (tmp_path / "strogoff.json").unlink()
    for _ in range(2):
        with pytest.raises(WrongDirectory, match=r"messages has database files.*strogoff\.json is missing"):
            start(tmp_path)
    assert not (tmp_path / "strogoff.json").exists()
    (tmp_path / "messages" / "strogoff.db.json").unlink()
    with pytest.raises(WrongDirectory):
        start(tmp_path)


def test_a_lost_database_is_never_replaced(tmp_path: Path) -> None:
    use(tmp_path)
    shutil.rmtree(tmp_path / "messages")
    for _ in range(2):
        with pytest.raises(Corrupted) as found:
            start(tmp_path)
        assert found.value.file == str(tmp_path / "messages")


def test_a_lost_disk_is_a_new_one(tmp_path: Path) -> None:
    use(tmp_path / "data")
    shutil.rmtree(tmp_path / "data")
    directory = DataDirectory(tmp_path / "data", "a@127.0.0.1", iter(["c", "other disk"]).__next__)
    assert (directory.boot, directory.disk_uuid) == (1, "other disk")
    directory.close()


def test_a_crash_while_it_was_made_is_no_damage(tmp_path: Path) -> None:
    """At every step of the creation the next start continues it."""
    start(tmp_path / "whole").close()
    for left in ([], ["messages"], ["messages", "meta"]):
        path = tmp_path / f"with {len(left)}"
        path.mkdir()
        for name in left:
            shutil.copytree(tmp_path / "whole" / name, path / name)
        (path / "lock").write_text("17")
        directory = start(path)
        assert directory.boot == 1
        directory.close()


def test_foreign_files_beside_it_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / ".gitkeep").write_text("")
    start(tmp_path).close()


def test_joining_a_cluster_is_remembered(tmp_path: Path) -> None:
    directory = start(tmp_path)
    directory.adopt_cluster("theirs")
    assert directory.cluster_id == "theirs"
    directory.close()
    directory = start(tmp_path)
    assert (directory.cluster_id, directory.boot) == ("theirs", 2)
    directory.close()


def changed(path: Path, **fields: Any) -> None:
    file = path / "strogoff.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


def test_a_start_after_a_loss_of_power_is_remembered_until_the_next_one(tmp_path: Path) -> None:
    found = []
    for durability, machine in (
        ("os", "k1"),
        ("os", "k1"),
        ("os", "k2"),
        ("sync", "k2"),
        ("sync", "k3"),
        ("sync", "k4"),
    ):
        use(tmp_path)  # such a start has noted nothing
        directory = start(tmp_path)
        directory.note_writes(durability, machine)  # type: ignore[arg-type]
        found.append((directory.boot, directory.incomplete))
        directory.close()
    assert found == [(2, 0), (4, 0), (6, 6), (8, 6), (10, 10), (12, 10)]


def test_a_process_that_stops_in_order_leaves_nothing_unsynced(tmp_path: Path) -> None:
    use(tmp_path)
    directory = start(tmp_path)
    directory.note_writes("os", "k1")
    directory.sync_messages()
    directory.note_synced()
    directory.close()
    directory = start(tmp_path)
    directory.note_writes("os", "k2")
    assert directory.incomplete == 0
    directory.close()


def test_a_repair_with_loss_counts_as_a_loss_of_power(tmp_path: Path) -> None:
    use(tmp_path)
    note_repair_with_loss(tmp_path)
    directory = start(tmp_path)
    assert directory.incomplete == directory.boot == 2
    directory.close()
    note_repair_with_loss(tmp_path / "nothing")


def test_an_unknown_format(tmp_path: Path) -> None:
    use(tmp_path)
    changed(tmp_path, format=3, something_new=True)
    with pytest.raises(WrongDirectory, match="format 3"):
        start(tmp_path)


def test_a_directory_of_format_1_keeps_it_until_the_content_is_converted(tmp_path: Path) -> None:
    use(tmp_path)
    changed(tmp_path, format=1)
    directory = start(tmp_path)
    assert (directory.format, directory.boot) == (1, 2)
    directory.close()
    directory = start(tmp_path)
    assert directory.format == 1
    directory.set_format()
    assert json.loads((tmp_path / "strogoff.json").read_text())["format"] == directory.format == FORMAT == 2
    directory.close()
    directory = start(tmp_path)
    assert (directory.format, directory.boot) == (2, 4)
    directory.close()


@pytest.mark.parametrize(
    "field", [{"boot": "1"}, {"boot": -1}, {"boot": True}, {"node_name": None}, {"extra": 1}, {"incomplete": "1"}]
)
def test_a_marker_that_makes_no_sense(tmp_path: Path, field: dict[str, Any]) -> None:
    use(tmp_path)
    changed(tmp_path, **field)
    with pytest.raises(Corrupted) as found:
        start(tmp_path)
    assert found.value.file == str(tmp_path / "strogoff.json")


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b'{"format"', b"[]", b"\xff\xfe"])
def test_an_unreadable_marker(tmp_path: Path, content: bytes) -> None:
    use(tmp_path)
    (tmp_path / "strogoff.json").write_bytes(content)
    with pytest.raises(Corrupted, match="backup"):
        start(tmp_path)
    assert (tmp_path / "strogoff.json").read_bytes() == content
