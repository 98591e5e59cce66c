"""The pods of a StatefulSet as processes: what kubelet, container runtime and DNS do for them, on this machine.

A pod has a network namespace with an address, a host name, the user of the manifests, no capabilities, and a root file
system that cannot be written, with the volumes of the manifests in it.
The root file system is that of this machine, with the folders that the Dockerfile makes. The command and its variables
are those of Dockerfile and manifests. `/etc/hosts` of each pod has what DNS says of the headless service. Needs root.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from bench.space import Space

from .charts import DOCKERFILE, Manifest, environment, node_of, only, place, pod_of

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "default"


class Cluster:
    """The pods of the StatefulSet in `manifests`, none of them started. `secrets` has name -> key -> text.

    There are more addresses than pods, because a pod that starts again has another one.
    """

    def __init__(
        self, folder: Path, manifests: list[Manifest], secrets: dict[str, dict[str, str]], space: Space
    ) -> None:
        self.folder = folder
        self.manifests = manifests
        self.space = space
        self.name: str = only(manifests, "StatefulSet")["metadata"]["name"]
        self.service: str = only(manifests, "StatefulSet")["spec"]["serviceName"]
        made = {each["metadata"]["name"]: each for each in manifests if each["kind"] == "Secret"}
        decoded = {
            name: {key: base64.b64decode(text).decode() for key, text in each["data"].items()}
            for name, each in made.items()
        }
        self.secrets = {**decoded, **secrets}
        self.pods: dict[int, Pod] = {}
        self._free = list(range(1, len(space.names) + 1))
        self._inside = ThreadPoolExecutor(1, initializer=space.enter)

    def inside(self, work: Callable[[], T], within_s: float = 60) -> T:
        """Call `work` in a thread from which all pods can be reached."""
        return self._inside.submit(work).result(within_s)

    def start(self, ordinal: int, **labels: str) -> Pod:
        """Start the pod with this number, with another address than before."""
        host = self._free.pop(0)
        self.pods[ordinal] = pod = Pod(self, ordinal, host, labels)
        self.tell_dns()
        pod.start()
        return pod

    def stop(self, ordinal: int) -> int:
        """Delete a pod: SIGTERM, and a kill when its time has passed. Returns the exit status."""
        pod = self.pods.pop(ordinal)
        self.tell_dns()
        status = pod.stop(pod_of(self.manifests)["terminationGracePeriodSeconds"])
        self._free.append(pod.host)
        return status

    def tell_dns(self) -> None:
        """Write into each pod what DNS says of the headless service."""
        domain = f"{self.service}.{NAMESPACE}.svc.cluster.local"
        lines = [f"{pod.address} {domain}\n" for pod in self.pods.values()]
        for pod in self.pods.values():
            own = f"127.0.0.1 localhost\n{pod.address} {pod.name}.{domain} {pod.name}\n"
            pod.hosts.write_text(own + "".join(lines))

    def write(self, volume: str, key: str, text: str) -> None:
        """Change a key of a Secret or ConfigMap; kubelet brings it into all pods that mount it as a folder."""
        for pod in self.pods.values():
            publish(pod.folder / "volumes" / volume, {key: text})

    def close(self) -> None:
        """Kill all pods."""
        for pod in self.pods.values():
            pod.stop(0)
        self._inside.shutdown()


class Pod:
    """One pod. Its volume `data` remains when it is deleted."""

    def __init__(self, cluster: Cluster, ordinal: int, host: int, labels: dict[str, str]) -> None:
        self.cluster = cluster
        self.name = f"{cluster.name}-{ordinal}"
        self.host = host
        self.address = f"10.77.0.{host}"
        self.folder = cluster.folder / f"{self.name}-at-{host}"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.hosts = self.folder / "hosts"
        self.log = self.folder / "log"
        self.labels = labels
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process of the node."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Mount the volumes and start the container."""
        script = self.folder / "start.sh"
        script.write_text("\n".join(self._script()))
        space = self.cluster.space.names[self.host - 1]
        command = ["ip", "netns", "exec", space, "unshare", "--mount", "--uts", "sh", "-eu", str(script)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def stop(self, grace_s: float) -> int:
        """Send SIGTERM, and SIGKILL after `grace_s` seconds. Returns the exit status."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM if grace_s else signal.SIGKILL)
        try:
            return self._process.wait(grace_s or 20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait(20)

    def ended(self) -> int | None:
        """The exit status of the process, None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def get(self, path: str) -> tuple[int, Any]:
        """Status and JSON of a page of the node, as a probe gets it; (0, "") without an answer."""
        assert self.ended() is None, f"{self.name} has ended:\n{self.log.read_text()}"

        def ask() -> tuple[int, Any]:
            try:
                with urllib.request.urlopen(f"http://{self.address}:8888{path}", timeout=5) as answer:
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as error:
                return error.code, json.load(error)
            except OSError:
                return 0, ""

        return self.cluster.inside(ask)

    def ready(self) -> bool:
        """Whether the readiness probe succeeds."""
        return self.get(node_of(self.cluster.manifests)["readinessProbe"]["httpGet"]["path"])[0] == 200

    def alive(self) -> bool:
        """Whether the liveness probe succeeds."""
        return self.get(node_of(self.cluster.manifests)["livenessProbe"]["httpGet"]["path"])[0] == 200

    def exec(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the container, as `kubectl exec` does."""
        inside = ["nsenter", f"--target={self.pid}", "--mount", "--net", "--uts", "--root", "--wd"]
        command = [*inside, *self._as_user(), "env", "-i", *self._variables(), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=90)

    def _variables(self) -> list[str]:
        fields = {
            "metadata.namespace": NAMESPACE,
            "metadata.name": self.name,
            "status.podIP": self.address,
            "spec.nodeName": f"machine-{self.host}",
            **{f"metadata.labels['{key}']": text for key, text in self.labels.items()},
        }
        container = node_of(self.cluster.manifests)
        given = environment(container, fields)
        for each in container["env"]:
            if "secretKeyRef" in each.get("valueFrom", {}):
                wanted = each["valueFrom"]["secretKeyRef"]
                given[each["name"]] = self.cluster.secrets[wanted["name"]][wanted["key"]]
        image = {"PATH": f"{sys.prefix}/bin:/usr/bin:/bin", "STROGOFF_DATA_DIR": "/strogoff/data", "HOME": "/strogoff"}
        assert "STROGOFF_DATA_DIR=/strogoff/data" in DOCKERFILE and "WORKDIR /strogoff" in DOCKERFILE
        return [f"{name}={text}" for name, text in {**image, "PYTHONUNBUFFERED": "1", **given}.items()]

    def _as_user(self) -> list[str]:
        user = pod_of(self.cluster.manifests)["securityContext"]
        limits = node_of(self.cluster.manifests)["securityContext"]
        assert limits["capabilities"]["drop"] == ["ALL"] and limits["readOnlyRootFilesystem"]
        assert limits["allowPrivilegeEscalation"] is False
        ids = [f"--reuid={user['runAsUser']}", f"--regid={user['runAsGroup']}", f"--groups={user['fsGroup']}"]
        return ["setpriv", *ids, "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]

    def _script(self) -> list[str]:
        """The lines of a shell script: mounts, and the process in their place."""
        base, root = self.folder / "root", str(self.folder / "root" / "merged")
        base.mkdir()
        lines = [
            "mount --make-rprivate /",
            f"mount -t tmpfs pod {base}",
            f"mkdir {base}/upper {base}/work {root}",
            f"mount -t overlay pod -o lowerdir=/,upperdir={base}/upper,workdir={base}/work {root}",
            # what the Dockerfile makes
            f"mkdir -p {root}/strogoff/etc {root}/strogoff/data {root}/strogoff/log",
            f"chown -R 10000 {root}/strogoff",
        ]
        assert "mkdir -p /strogoff/etc /strogoff/data /strogoff/log" in DOCKERFILE
        places = [ROOT, *{Path(each).resolve() for each in (sys.prefix, sys.base_prefix)}]
        places = [ROOT, *[each for each in places if ROOT not in (each, *each.parents)]]
        above = {parent for each in places for parent in each.parents}
        lines += [f"chmod a+rx {root}{shlex.quote(str(each))}" for each in sorted(above)]
        lines += [f"mount --bind -o ro {shlex.quote(str(each))} {root}{shlex.quote(str(each))}" for each in places]
        for volume, target, single, writable in self._mounts():
            lines.append(f"mkdir -p {root}{target if not single else os.path.dirname(target)}")
            if single:
                lines.append(f"touch {root}{target}")
            lines += [f"mount --bind {volume} {root}{target}"]
            lines += [] if writable else [f"mount -o remount,bind,ro {root}{target}"]
        lines += [
            f"mount --bind {self.hosts} {root}/etc/hosts",
            f"echo 'multi on' > {root}/etc/host.conf",
            f"mount -t proc proc {root}/proc",
            f"mount --rbind /dev {root}/dev",
            f"mount -t tmpfs -o mode=1777 shm {root}/dev/shm",
            f"mount -o remount,ro {root}",
            f"hostname {self.name}",
            f"cd {root}",
        ]
        (entry,) = re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.MULTILINE)
        (arguments,) = re.findall(r"^CMD (.*)$", DOCKERFILE, re.MULTILINE)
        inside = ["env", "-i", "-C", "/strogoff", *self._variables(), *json.loads(entry), *json.loads(arguments)]
        lines.append(shlex.join(["exec", "chroot", root, *self._as_user(), *inside]))
        return lines

    def _mounts(self) -> list[tuple[str, str, bool, bool]]:
        """Source and target of each mount, in the order of their targets, whether it is a file, and can be written."""
        claims = only(self.cluster.manifests, "StatefulSet")["spec"].get("volumeClaimTemplates", [])
        sources = {each["metadata"]["name"]: self._claim(each["metadata"]["name"]) for each in claims}
        volumes = {each["name"]: self._volume(each) for each in pod_of(self.cluster.manifests).get("volumes", [])}
        found = []
        for mount in node_of(self.cluster.manifests)["volumeMounts"]:
            target = place(mount["mountPath"])
            source = {**sources, **volumes}[mount["name"]]
            path = str(source / mount["subPath"]) if "subPath" in mount else str(source)
            found.append((os.path.realpath(path), target, "subPath" in mount, not mount.get("readOnly")))
        return sorted(found, key=lambda one: one[1])

    def _claim(self, name: str) -> Path:
        place = self.cluster.folder / f"{name}-{self.name}"
        place.mkdir(exist_ok=True)
        return _for_group(place)

    def _volume(self, volume: Manifest) -> Path:
        place = self.folder / "volumes" / volume["name"]
        place.mkdir(parents=True)
        if "configMap" in volume:
            publish(place, only(self.cluster.manifests, "ConfigMap", volume["configMap"]["name"])["data"])
        elif "secret" in volume:
            publish(place, self.cluster.secrets[volume["secret"]["secretName"]], volume["secret"]["defaultMode"])
        else:
            assert "emptyDir" in volume, volume
        return _for_group(place)


def _for_group(place: Path) -> Path:
    """Give a volume to the group of the pod (fsGroup)."""
    os.chown(place, 0, 10000)
    place.chmod(0o2775)
    return place


def publish(place: Path, files: dict[str, str], mode: int = 0o644) -> None:
    """Write the files of a ConfigMap or Secret as kubelet does: into a new folder, to which a link then points."""
    old = place / "..data"
    version = place / f"..{len(list(place.iterdir()))}"
    version.mkdir()
    kept = {each.name: each.read_text() for each in old.iterdir()} if old.exists() else {}
    for name, text in {**kept, **files}.items():
        (version / name).write_text(text)
        os.chown(version / name, 0, 10000)
        (version / name).chmod(mode)
        if not (place / name).is_symlink():
            (place / name).symlink_to(f"..data/{name}")
    link = place / "..new"
    link.symlink_to(version.name)
    link.replace(old)
