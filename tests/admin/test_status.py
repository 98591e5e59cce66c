"""The figures of a node."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from strogoff.admin.status import (
    cluster_facts,
    figures,
    members,
    missing_members,
    needs_restart,
    not_serving,
    stopped_listeners,
)

from .fake_operator_port import THIS_NODE, FakeOperatorPort, row
from .server_harness import ServerHarness, run_with_server


def test_figures(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        kept = await harness.client("kept", clean=False)
        await kept.subscribe(("a", 1))
        await kept.leave()
        await (await harness.client("c")).publish("a", b"x", retain=True)
        found = figures(harness.context)
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

    run_with_server(tmp_path, test)


def test_the_row_of_a_node(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        assert members(harness.context) == {"VerneMQ@127.0.0.1": True}
        assert stopped_listeners(harness.context) == []
        await harness.server.listeners.stop("tcp.default")
        assert stopped_listeners(harness.context) == [f"listener mqtt 127.0.0.1:{harness.port} is stopped"]

    run_with_server(tmp_path, test)


def test_a_node_alone(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        assert cluster_facts(harness.context) is None
        assert missing_members(harness.context) == not_serving(harness.context) == []

    run_with_server(tmp_path, test)


def test_disks_that_cannot_be_written(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = harness.server.cluster = FakeOperatorPort()  # type: ignore[assignment]
        fake.sees(log_disk="full")
        assert not_serving(harness.context) == ["the disk of the cluster's log is full"]
        fake.sees(log_disk="failed")
        assert not_serving(harness.context) == ["the disk of the cluster's log has failed: start the node again"]
        fake.sees(log_disk="serving", serves_nobody="it waits for n2")
        fake.nodes = [msgspec.structs.replace(fake.nodes[0], state="absent")]
        assert not_serving(harness.context) == ["it waits for n2"]
        assert (cluster_facts(harness.context) or {})["serves_nobody"] == "it waits for n2"
        fake.sees(serves_nobody="")
        assert not_serving(harness.context) == ["the node is not in the cluster's view"]
        assert not {"serves_nobody", "no_lease", "slow_disks"} & set(cluster_facts(harness.context) or {})
        fake.sees(slow_disks=("n2 (700 ms)", "n3 (900 ms)"))
        assert (cluster_facts(harness.context) or {})["slow_disks"] == "n2 (700 ms), n3 (900 ms)"
        fake.sees(no_lease="its disk has not answered for 1600 ms")
        assert (cluster_facts(harness.context) or {})["no_lease"] == "its disk has not answered for 1600 ms"
        fake.sees(no_lease="")
        fake.nodes = FakeOperatorPort().nodes
        store = harness.server.store
        store.state = "full"
        assert not_serving(harness.context) == []  # it stays in the load balancer, and serves the undamaged data
        store.state, store.detail = "failed", "EIO"
        assert not_serving(harness.context) == ["the message store has failed, start the node again: EIO"]
        store.state = "serving"

    run_with_server(tmp_path, test)


def test_only_a_failed_disk_needs_a_restart(tmp_path: Path) -> None:
    """A restart of a node in a minority, on a full disk or that stops helps nobody, and would end its connections."""

    async def test(harness: ServerHarness) -> None:
        fake = harness.server.cluster = FakeOperatorPort()  # type: ignore[assignment]
        for facts in ({"sees": "minority"}, {"log_disk": "full"}, {"serves_nobody": "it waits for n2"}):
            fake.sees(**facts)
            assert not_serving(harness.context) and needs_restart(harness.context) == []
        harness.server.node.policy.stops_soon = True
        assert needs_restart(harness.context) == []
        store = harness.server.store
        store.state = "full"
        assert needs_restart(harness.context) == []
        fake.sees(log_disk="failed")
        assert needs_restart(harness.context) == ["the disk of the cluster's log has failed: start the node again"]
        harness.server.cluster = None
        assert needs_restart(harness.context) == []
        store.state, store.detail = "failed", "EIO"
        assert needs_restart(harness.context) == ["the message store has failed, start the node again: EIO"]
        store.state = "serving"

    run_with_server(tmp_path, test)


@pytest.mark.parametrize("policy", ["off", "majority", "on"])
def test_a_partitioned_node_is_unhealthy_unless_it_accepts_clients(tmp_path: Path, policy: str) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = harness.server.cluster = FakeOperatorPort()  # type: ignore[assignment]
        fake.sees(sees="minority")
        said = "the node has no lease: no majority of its cluster has renewed it"
        assert not_serving(harness.context) == ([] if policy == "on" else [said])
        fake.sees(sees="majority")
        assert not_serving(harness.context) == []

    run_with_server(tmp_path, test, allow_register_during_netsplit=policy)


def test_the_row_of_a_node_in_a_cluster(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = harness.server.cluster = FakeOperatorPort()  # type: ignore[assignment]
        assert members(harness.context) == {THIS_NODE: True, "b@127.0.0.1": True, "c@127.0.0.1": False}
        facts = cluster_facts(harness.context)
        assert facts is not None and (facts["view_id"], facts["sees"], facts["leader"]) == (
            7,
            "majority",
            "b@127.0.0.1",
        )
        assert not_serving(harness.context) == []
        assert missing_members(harness.context) == ["node c@127.0.0.1 does not run"]
        fake.nodes[1] = row("b@127.0.0.1", state="joining")
        assert missing_members(harness.context) == ["node c@127.0.0.1 does not run", "node b@127.0.0.1 is joining"]

    run_with_server(tmp_path, test)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("joining", "the node is joining the cluster"),
        ("absent", "the node is not in the cluster's view"),
        (None, "the node is not a member of the cluster"),
    ],
)
def test_a_node_that_does_not_serve(tmp_path: Path, state: str | None, reason: str) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = harness.server.cluster = FakeOperatorPort()  # type: ignore[assignment]
        me = fake.nodes.pop(0)
        if state is not None:
            fake.nodes.append(msgspec.structs.replace(me, state=state))
        assert not_serving(harness.context) == [reason]
        harness.server.node.closing = True
        assert not_serving(harness.context) == ["the node is stopping", reason]
        harness.server.node.closing = False

    run_with_server(tmp_path, test)
