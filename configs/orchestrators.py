"""Discovery in Kubernetes, Swarm and compose: from the variables of VerneMQ's image to the keys `discovery.*`.

VerneMQ asks the API of Kubernetes for the pods of a label selector. Strogoff does so if the selector is set. It also
resolves the DNS name of the headless service, which needs no permissions. If both are missing, that is an error,
because a node without discovery would found a second cluster.
"""

from __future__ import annotations

from collections.abc import Mapping

PREFIX = "DOCKER_VERNEMQ_"
KUBERNETES = f"{PREFIX}DISCOVERY_KUBERNETES"
NAMESPACE = f"{PREFIX}KUBERNETES_NAMESPACE"
SUBDOMAIN = f"{PREFIX}KUBERNETES_SUBDOMAIN"
CLUSTER_NAME = f"{PREFIX}KUBERNETES_CLUSTER_NAME"
SELECTOR = f"{PREFIX}KUBERNETES_LABEL_SELECTOR"
INSECURE = f"{PREFIX}KUBERNETES_INSECURE"
SWARM = f"{PREFIX}SWARM"
COMPOSE = f"{PREFIX}COMPOSE"
ISTIO = f"{PREFIX}KUBERNETES_ISTIO_ENABLED"
ADDRESS = "DOCKER_IP_ADDRESS"
OWN_ADDRESS = "STROGOFF_OWN_ADDRESS"
"""The start in a container sets it to the address that other containers reach."""
INTERFACE = "DOCKER_NET_INTERFACE"
POD_NAME = "MY_POD_NAME"
NODE = f"{PREFIX}DISCOVERY_NODE"

WITHOUT_EFFECT = {
    ISTIO: "the node asks the API of Kubernetes until it answers",
    COMPOSE: "a name is always resolved to all of its addresses",
    "API_KEY": "make the key once, for all nodes: vmq-admin api-key add key=...",
    "API_KEY_SCOPE": "the scope is an argument of vmq-admin api-key add",
}
"""Variables of VerneMQ's image without effect, and why."""

NOT_KEYS = frozenset((KUBERNETES, NAMESPACE, SUBDOMAIN, CLUSTER_NAME, SELECTOR, INSECURE, ISTIO, SWARM, COMPOSE, NODE))
"""Variables with the prefix that stand for no key of vernemq.conf."""

_SVC = ".svc."
_OFF = ("", "0", "false", "off", "no")


def is_on(environ: Mapping[str, str], variable: str) -> bool:
    """Whether a variable is set and means on. In VerneMQ's image every text means on."""
    return environ.get(variable, "").strip().lower() not in _OFF


def discovery(environ: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Returns key -> (text, its variable) for the keys `discovery.*`; empty if no variable asks for discovery.

    Raises ValueError with a sentence if the variables ask for discovery without saying where.
    """
    named = environ.get(NODE, "").split()
    if named and is_on(environ, SWARM):
        # in Swarm the name of a service has one address for all tasks; the name with `tasks.` has one for each task
        named = [name if name.startswith("tasks.") else f"tasks.{name}" for name in named]
    found = {"discovery.nodes": (" ".join(named), NODE)} if named else {}
    if not is_on(environ, KUBERNETES):
        return found
    selector = environ.get(SELECTOR, "").strip()
    if selector:
        found["discovery.kubernetes.selector"] = (selector, SELECTOR)
        if namespace := environ.get(NAMESPACE, "").strip():
            found["discovery.kubernetes.namespace"] = (namespace, NAMESPACE)
        if is_on(environ, INSECURE):
            found["discovery.kubernetes.insecure"] = ("on", INSECURE)
    if not named and (environ.get(SUBDOMAIN, "").strip() or not selector):
        found["discovery.nodes"] = (_headless_service(environ), KUBERNETES)
    return found


def _headless_service(environ: Mapping[str, str]) -> str:
    subdomain, namespace = environ.get(SUBDOMAIN, "").strip(), environ.get(NAMESPACE, "").strip()
    if not subdomain or not namespace:
        missing = " and ".join(name for name, said in ((SUBDOMAIN, subdomain), (NAMESPACE, namespace)) if not said)
        raise ValueError(
            f"the name of the headless service is missing: set {missing} (the service that is the pods' serviceName, "
            f"and its namespace), or {NODE} to the full name of the service, or {SELECTOR} to the labels of the pods"
        )
    return f"{subdomain}.{namespace}.svc.{environ.get(CLUSTER_NAME, '').strip() or 'cluster.local'}"


def from_pod(environ: Mapping[str, str], full_name: str, namespace: str) -> dict[str, str]:
    """Returns the environment, with defaults from the pod.

    `full_name` is that of the host, such as `vernemq-0.vernemq-headless.default.svc.cluster.local`. `namespace` is that
    of the service account, or empty.
    """
    if not is_on(environ, KUBERNETES):
        return dict(environ)
    found = {NAMESPACE: namespace}
    host, svc, domain = full_name.partition(_SVC)
    labels = host.split(".")
    if svc and len(labels) == 3:
        found = {SUBDOMAIN: labels[1], NAMESPACE: labels[2], CLUSTER_NAME: domain}
    return {**{name: text for name, text in found.items() if text}, **environ}


def without_effect(environ: Mapping[str, str]) -> list[str]:
    """A sentence for each variable that has no effect. A container has its address in the environment; elsewhere
    variables without the prefix belong to other programs."""
    why = dict(WITHOUT_EFFECT)
    if not is_on(environ, KUBERNETES):
        why |= dict.fromkeys((SELECTOR, INSECURE, NAMESPACE, SUBDOMAIN, CLUSTER_NAME), f"{KUBERNETES} is not set")
    if not environ.get(NODE, "").split():
        why[SWARM] = f"{NODE} is not set"
    why[INTERFACE] = f"{ADDRESS} is set"
    if f"{PREFIX}NODENAME" in environ:
        why[POD_NAME] = f"{PREFIX}NODENAME names the node"
    said = [name for name in sorted(why) if name in environ and (name.startswith(PREFIX) or ADDRESS in environ)]
    return [f"{name} has no effect: {why[name]}" for name in said]
