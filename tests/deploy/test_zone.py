"""The init container that asks the API server for the zone of its machine, against a server with TLS."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import trustme

from bench.broker_process import free_port
from deploy.helm.render import CHART
from strogoff.configs import load

TOKEN = "the token of the account"
KEY = "topology.kubernetes.io/zone"
MACHINES = {"m1": {KEY: "zone-a"}, "m2": {}, "m3": None}
"""Machine -> its labels."""


class _ApiServer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        name = self.path.removeprefix("/api/v1/nodes/")
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self.send_error(401)
        elif name == "secret":
            self.send_error(403)
        elif name not in MACHINES:
            self.send_error(404)
        else:
            body = json.dumps({"kind": "Node", "metadata": {"name": name, "labels": MACHINES[name]}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *_: object) -> None:
        """No lines in the output of the tests."""


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables of a pod, with a service account for a server that runs."""
    folder = tmp_path_factory.mktemp("account")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.crt"))
    (folder / "token").write_text(TOKEN + "\n")
    server = HTTPServer(("127.0.0.1", 0), _ApiServer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(server.server_address[1]),
        "SERVICE_ACCOUNT": str(folder),
        "TOPOLOGY_KEY": KEY,
    }
    server.shutdown()
    server.server_close()
    thread.join()


def run(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script as the init container does."""
    command = [sys.executable, str(CHART / "files" / "zone.py"), *arguments]
    environ = {"PATH": os.environ["PATH"], **environ}
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=30)


@pytest.mark.parametrize(("machine", "zone"), [("m1", "zone-a"), ("m2", "m2"), ("m3", "m3")])
def test_the_zone_is_the_label_or_the_machine(account: dict[str, str], tmp_path: Path, machine: str, zone: str) -> None:
    file = tmp_path / "conf.d" / "zone.conf"
    ran = run({**account, "MACHINE": machine}, str(file))
    assert ran.returncode == 0, ran.stderr
    (tmp_path / "vernemq.conf").write_text("")
    assert load(tmp_path / "vernemq.conf")["node.zone"] == zone


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"MACHINE": "secret"}, "needs a ClusterRole with the verb get for nodes"),
        ({"MACHINE": "m9"}, "of m9 cannot be read: HTTP Error 404"),
        ({"KUBERNETES_SERVICE_PORT": str(free_port())}, "Connection refused"),
        ({"SERVICE_ACCOUNT": "/nonexistent"}, "No such file"),
    ],
)
def test_a_failure_has_a_reason_and_writes_nothing(
    account: dict[str, str], tmp_path: Path, change: dict[str, str], said: str
) -> None:
    ran = run({**account, "MACHINE": "m1", **change}, str(tmp_path / "zone.conf"))
    assert ran.returncode == 1 and said in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_server_with_another_certificate_is_not_trusted(account: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "account"
    folder.mkdir()
    trustme.CA().cert_pem.write_to_path(str(folder / "ca.crt"))
    (folder / "token").write_text(TOKEN)
    ran = run({**account, "MACHINE": "m1", "SERVICE_ACCOUNT": str(folder)}, str(tmp_path / "zone.conf"))
    assert ran.returncode == 1 and "certificate verify failed" in ran.stderr


def test_without_its_variables_the_script_says_how_it_is_used() -> None:
    ran = run({}, "x")
    assert ran.returncode == 2 and "MACHINE=NODE" in ran.stderr
