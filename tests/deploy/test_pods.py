"""The manifests as running pods: nodes found a cluster, and sessions outlive restarts, scaling and changes."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from bench.space import Space
from strogoff.broker.plugins.passwords import SALT_BYTES, hashed
from tests.system.brokers import until
from tests.system.cluster.conftest import space_or_skip
from tests.system.paho_client import Paho

from .charts import Manifest, chart, committed, pod_of
from .pods import Cluster, Pod

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

COOKIE = "a secret of these tests"
ZONE = "topology.kubernetes.io/zone"


def password(name: str) -> str:
    """The line of a user whose password is the name."""
    return f"{name}:{hashed(name.encode(), os.urandom(SALT_BYTES))}\n"


SECRETS = {"strogoff-cookie": {"cookie": COOKIE}, "strogoff-users": {"vmq.passwd": password("alice")}}


@pytest.fixture
def space() -> Iterator[Space]:
    """Six addresses."""
    made = space_or_skip(6)
    yield made
    made.close()


@contextmanager
def running(folder: Path, manifests: list[Manifest], space: Space, **secrets: dict[str, str]) -> Iterator[Cluster]:
    """Three pods, in three zones, that are ready. The logs are printed if the test fails."""
    cluster = Cluster(folder, manifests, {**SECRETS, **secrets}, space)
    try:
        for ordinal in range(3):
            cluster.start(ordinal, **{ZONE: f"zone-{ordinal}"})
        for pod in cluster.pods.values():
            until(pod.ready, 60)
        yield cluster
    except BaseException:
        for log in sorted(folder.glob("*/log")):
            print(f"--- {log.parent.name}\n{log.read_text()}")
        raise
    finally:
        cluster.close()


class Client(Paho):
    """A client of a pod, with a durable session."""

    def __init__(self, pod: Pod, name: str, user: str = "alice") -> None:
        super().__init__(None, name, 4, user=user, password=user, clean=False)
        self.place = (pod.address, 1883)


def publish(cluster: Cluster, pod: Pod, text: str) -> None:
    """Publish with QoS 1, and wait for PUBACK."""

    def work() -> None:
        with Client(pod, "publisher") as client:
            client.publish("a", text.encode(), 1)

    cluster.inside(work)


def read(cluster: Cluster, pod: Pod, count: int) -> list[str]:
    """Connect the durable subscriber, and read the messages that it gets."""

    def work() -> list[str]:
        with Client(pod, "subscriber") as client:
            return [client.messages.get(timeout=20).payload.decode() for _ in range(count)]

    return cluster.inside(work)


def subscribe(cluster: Cluster, pod: Pod) -> None:
    """Begin the durable session."""

    def work() -> None:
        with Client(pod, "subscriber") as client:
            client.subscribe("a", 1)

    cluster.inside(work)


def test_three_nodes_found_a_cluster_without_privileges(tmp_path: Path, space: Space) -> None:
    """Two of three wait: they are alive but not ready, so Kubernetes neither restarts them nor sends them clients."""
    cluster = Cluster(tmp_path, committed(), SECRETS, space)
    try:
        first, second = cluster.start(0), cluster.start(1)
        until(lambda: "only 2 of the 3 nodes" in str(second.get("/health/ready")), 60)
        until(lambda: first.alive() and second.alive(), 60)
        assert not first.ready() and not second.ready()
        third = cluster.start(2)
        for pod in (first, second, third):
            until(pod.ready, 60)
            assert "strogoff: node VerneMQ@" in pod.log.read_text() and "ERROR" not in pod.log.read_text()
        show = third.exec("vmq-admin", "cluster", "show", "--verbose")
        assert show.returncode == 0 and [f"VerneMQ@strogoff-{n}" in show.stdout for n in range(3)] == [True] * 3
        status = Path(f"/proc/{first.pid}/status").read_text()
        assert "CapEff:\t0000000000000000" in status and "NoNewPrivs:\t1" in status and "Uid:\t10000" in status
        for place in ("/x", "/strogoff/x", "/strogoff/log/x", "/tmp/x", "/opt/x", "/etc/strogoff/conf/x"):
            said = first.exec("touch", place).stderr
            assert "Read-only file system" in said, (place, said)
        assert first.exec("touch", "/strogoff/etc/x", "/strogoff/data/x").returncode == 0
        assert sorted(os.listdir(f"/proc/{first.pid}/root/strogoff/etc")) == ["vernemq.conf", "x"]
        assert os.listdir(f"/proc/{first.pid}/root/strogoff/log") == []
    finally:
        cluster.close()


@pytest.mark.by_hand
def test_pods_with_the_variables_and_volumes_of_vernemqs_chart(tmp_path: Path, space: Space) -> None:
    """The pods have this project's image, and a cookie; all else is as in the chart. The nodes keep their data on the
    volume at /vernemq/data."""
    manifests = committed()
    container = pod_of(manifests)["containers"][0]
    own = next(each for each in container["env"] if each["name"] == "DOCKER_VERNEMQ_DISTRIBUTED_COOKIE")
    container["env"] = [
        {"name": "MY_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "MY_POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "DOCKER_VERNEMQ_DISCOVERY_KUBERNETES", "value": "1"},
        {"name": "DOCKER_VERNEMQ_LISTENER__TCP__LOCALHOST", "value": "127.0.0.1:1883"},
        {"name": "DOCKER_VERNEMQ_LISTENER__WS__DEFAULT", "value": "$(MY_POD_IP):8080"},
        {"name": "DOCKER_VERNEMQ_ALLOW_ANONYMOUS", "value": "on"},
        own,
    ]
    container["volumeMounts"] = [
        {"name": "etc", "mountPath": "/vernemq/log"},
        {"name": "data", "mountPath": "/vernemq/data"},
        {"name": "conf", "mountPath": "/vernemq/etc/vmq.acl", "subPath": "vmq.acl", "readOnly": True},
    ]
    with running(tmp_path, manifests, space) as cluster:
        subscribe(cluster, cluster.pods[0])
        publish(cluster, cluster.pods[1], "first")
        assert cluster.stop(2) == 0
        until(cluster.start(2).ready, 60)
        publish(cluster, cluster.pods[2], "second")
        assert read(cluster, cluster.pods[2], 2) == ["first", "second"]
        assert "VerneMQ@strogoff-2, boot 2," in cluster.pods[2].log.read_text()
        assert (tmp_path / "data-strogoff-2" / "strogoff.json").exists()
        shown = cluster.pods[2].exec("vmq-admin", "listener", "show")
        assert shown.stdout.count("1883") == 2, shown


def test_a_rolling_update_loses_nothing(tmp_path: Path, space: Space) -> None:
    """Each pod ends in order within its time, and comes back with another address."""
    with running(tmp_path, committed(), space) as cluster:
        subscribe(cluster, cluster.pods[0])
        sent: list[str] = []
        for ordinal in (2, 1, 0):
            sent.append(f"before {ordinal}")
            publish(cluster, cluster.pods[0], sent[-1])
            assert cluster.stop(ordinal) == 0
            sent.append(f"without {ordinal}")
            publish(cluster, next(iter(cluster.pods.values())), sent[-1])
            pod = cluster.start(ordinal, **{ZONE: f"zone-{ordinal}"})
            until(pod.ready, 60)
        assert read(cluster, cluster.pods[1], len(sent)) == sent


@pytest.mark.by_hand
def test_all_pods_start_again_with_other_addresses(tmp_path: Path, space: Space) -> None:
    """As after a loss of power of all machines."""
    with running(tmp_path, committed(), space) as cluster:
        subscribe(cluster, cluster.pods[0])
        publish(cluster, cluster.pods[1], "kept")
        for ordinal in range(3):
            cluster.pods[ordinal].stop(0)
        for ordinal in range(3):
            cluster.stop(ordinal)
        for ordinal in range(3):
            cluster.start(ordinal, **{ZONE: f"zone-{ordinal}"})
        for pod in cluster.pods.values():
            until(pod.ready, 90)
        assert read(cluster, cluster.pods[2], 1) == ["kept"]


@pytest.mark.by_hand
def test_scaling_down_and_up(tmp_path: Path, space: Space) -> None:
    """A node leaves with its sessions; its pod is started again by kubelet and serves nobody; a new volume joins."""
    with running(tmp_path, committed(), space) as cluster:
        subscribe(cluster, cluster.pods[2])
        publish(cluster, cluster.pods[2], "kept")
        left = cluster.pods[0].exec("vmq-admin", "cluster", "leave", "node=VerneMQ@strogoff-2", "-k")
        assert left.returncode == 0 and "Done" in left.stdout, left
        until(lambda: cluster.pods[2].ended() is not None, 60)
        cluster.pods[2].stop(0)
        cluster.stop(2)
        again = cluster.start(2)
        until(lambda: again.get("/health/ready")[0] == 503 and again.alive(), 60)
        assert "this node has left the cluster" in str(again.get("/health/ready"))
        assert cluster.stop(2) == 0
        assert read(cluster, cluster.pods[0], 1) == ["kept"]
        shutil.rmtree(tmp_path / "data-strogoff-2")
        until(cluster.start(2).ready, 60)
        shown = cluster.pods[0].exec("vmq-admin", "cluster", "show", "--verbose").stdout
        assert shown.count("serving") == 3, shown


@pytest.mark.by_hand
def test_a_lost_volume(tmp_path: Path, space: Space) -> None:
    """The node joins by itself with an empty one, and gets the copies of the others."""
    with running(tmp_path, committed(), space) as cluster:
        subscribe(cluster, cluster.pods[0])
        publish(cluster, cluster.pods[1], "kept")
        cluster.pods[2].stop(0)
        cluster.stop(2)
        shutil.rmtree(tmp_path / "data-strogoff-2")
        until(cluster.start(2).ready, 60)
        assert read(cluster, cluster.pods[2], 1) == ["kept"]


@pytest.mark.by_hand
def test_users_change_without_a_restart(tmp_path: Path, space: Space) -> None:
    """Kubelet replaces the link to the files of a Secret."""
    with running(tmp_path, committed(), space) as cluster:
        pod = cluster.pods[0]

        def connects(name: str) -> bool:
            try:
                with Client(pod, f"of-{name}", name):
                    return True
            except AssertionError:
                return False

        assert cluster.inside(lambda: connects("alice")) and not cluster.inside(lambda: connects("bob"))
        cluster.write("users", "vmq.passwd", password("bob"))
        until(lambda: "vmq.passwd: read again" in pod.log.read_text(), 40)
        assert cluster.inside(lambda: connects("bob"))
        assert not cluster.inside(lambda: connects("alice"))


@pytest.mark.by_hand
def test_copies_are_in_other_zones(tmp_path: Path, space: Space) -> None:
    """The label of the pod becomes the zone of the node."""
    with running(tmp_path, committed(), space) as cluster:
        shown = cluster.pods[0].exec("vmq-admin", "slot", "show").stdout
        assert all(f"zone-{n}" in shown for n in range(3)), shown


@pytest.mark.by_hand
def test_nodes_talk_tls_with_one_certificate(tmp_path: Path, space: Space) -> None:
    """A certificate cannot name the addresses of pods; all nodes have one name."""
    authority, stranger = trustme.CA(), trustme.CA()

    def secret(name: str, signer: trustme.CA) -> dict[str, str]:
        pair = signer.issue_cert(name)
        return {
            "tls.crt": pair.cert_chain_pems[0].bytes().decode(),
            "tls.key": pair.private_key_pem.bytes().decode(),
            "ca.crt": authority.cert_pem.bytes().decode(),
        }

    name = "nodes.mqtt.example"
    values = ("users.secretName=strogoff-users", "tls.nodes.secretName=nodes", f"tls.nodes.certificateName={name}")
    manifests = chart(*values)
    with running(tmp_path, manifests, space, nodes=secret(name, authority)) as cluster:
        subscribe(cluster, cluster.pods[0])
        publish(cluster, cluster.pods[1], "encrypted")
        assert read(cluster, cluster.pods[2], 1) == ["encrypted"]
        for wrong in (secret("client.mqtt.example", authority), secret(name, stranger)):
            cluster.secrets["nodes"] = wrong
            cluster.stop(2)
            pod = cluster.start(2)
            until(lambda pod=pod: re.search("no link to .* for 3 s.*certificate", pod.log.read_text()), 60)  # type: ignore[misc]
            assert not pod.ready() and pod.alive()
        cluster.secrets["nodes"] = secret(name, authority)
        cluster.stop(2)
        until(cluster.start(2).ready, 60)


@pytest.mark.by_hand
def test_users_by_variables_are_possible_with_a_read_only_root(tmp_path: Path, space: Space) -> None:
    """As with docker-vernemq; the password file is in the volume `etc`."""
    values = ("extraEnv[0].name=DOCKER_VERNEMQ_USER_CAROL", "extraEnv[0].value=carol")
    with running(tmp_path, chart(*values), space) as cluster:

        def work() -> None:
            with Client(cluster.pods[0], "c", "carol"):
                pass

        cluster.inside(work)
