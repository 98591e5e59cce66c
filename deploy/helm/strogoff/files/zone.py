"""Write the zone of this machine into a file of conf.d: asks the API server of Kubernetes for a label of the machine.

    MACHINE=NODE TOPOLOGY_KEY=LABEL python3 zone.py FILE

A machine without the label is a zone of its own. If the API server refuses or does not answer, the exit status is 1,
and Kubernetes starts the init container again.
"""

import json
import os
import ssl
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

ACCOUNT = Path(os.environ.get("SERVICE_ACCOUNT", "/var/run/secrets/kubernetes.io/serviceaccount"))


def zone_of(machine: str, key: str) -> str:
    """Return the label of the machine, or its name. Raises OSError or ValueError."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    request = urllib.request.Request(
        f"https://{place}/api/v1/nodes/{urllib.parse.quote(machine, safe='')}",
        headers={"Authorization": f"Bearer {(ACCOUNT / 'token').read_text().strip()}"},
    )
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    with urllib.request.urlopen(request, timeout=10, context=context) as answer:
        labels = json.load(answer)["metadata"].get("labels") or {}
    return str(labels.get(key) or machine)


def main(arguments: list[str]) -> int:
    """Run the command line. Returns the exit status."""
    machine, key = os.environ.get("MACHINE", ""), os.environ.get("TOPOLOGY_KEY", "")
    if len(arguments) != 1 or not machine or not key or "KUBERNETES_SERVICE_HOST" not in os.environ:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        zone = zone_of(machine, key)
    except (OSError, ValueError, KeyError, TypeError) as error:
        hint = ""
        if isinstance(error, urllib.error.HTTPError) and error.code in (401, 403):
            hint = ". The service account needs a ClusterRole with the verb get for nodes"
        print(f"zone.py: the label {key} of {machine} cannot be read: {error}{hint}", file=sys.stderr)
        return 1
    file = Path(arguments[0])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"node.zone = {zone}\n")
    print(f"zone.py: {machine} is in the zone {zone}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
