"""Commands of VerneMQ that Strogoff does not have, and what to use instead."""

from __future__ import annotations

from collections.abc import Sequence

_RULES = "authenticate with vmq_passwd, vmq_acl or a plugin in Python (docs/plugins.md)"
_INSTEAD = {
    "node start": "start the process: strogoff start, or its service manager",
    "node stop": "stop the process in order: strogoff stop, or its service manager",
    "node history": "`vmq-admin cluster status` shows whether the node is in a cluster",
    "node swc_sync_status": "`vmq-admin cluster show --verbose`: State says whether a node still receives data",
    "node flag_as_init_synced": "nothing is needed: a node serves when it has the data of the others",
    "node upgrade": "install the new version and start the node again (docs/operations.md, Upgrade)",
    "session disconnect batch": "`vmq-admin session show --client_id --node --limit=N`, then `vmq-admin session "
    "disconnect clients client-ids=A,B`",
    "session reauthorize": "`vmq-admin session disconnect client-id=ID`: plugins decide about the client again when it "
    "connects, and about its subscriptions when it subscribes",
    "plugin enable": "name the plugin in vernemq.conf, and start the node again (docs/plugins.md)",
    "plugin disable": "take the plugin out of vernemq.conf, and start the node again (docs/plugins.md)",
    "trace": "`strogoff analytics follow DIR --client ID --watch` shows what a client does: DIR is the event log "
    "(eventlog.dir) of the node that serves it, or a folder with those of all nodes. It shows messages with "
    "eventlog.level = message: `vmq-admin set eventlog.level=message`",
    "tls show": "`vmq-admin listener show --tls`, and the metric certificate_expiry_seconds",
    "tls check": "the metric certificate_expiry_seconds: `vmq-admin metrics show`",
    "tls clear-pem-cache": "SIGHUP lets the node read the files again, and so do `vmq-admin listener stop` and "
    "`listener restart`",
    "log": "set log.console.level in vernemq.conf, and start the node again",
    "webhooks": _RULES,
    "bridge": "run a bridge beside the broker, such as that of mosquitto, as a client of both",
    "script": f"there is no Lua: {_RULES}",
    "webui": "the dashboard for Grafana in deploy/watching (docs/watching.md)",
}
"""The first words of commands -> a phrase."""


def instead_of(words: Sequence[str]) -> str:
    """What to use instead of the command of VerneMQ that these words begin with; "" if they begin with none."""
    for length in range(min(3, len(words)), 0, -1):
        name = " ".join(words[:length])
        if name in _INSTEAD:
            return f"Strogoff does not have VerneMQ's command {name}. Instead: {_INSTEAD[name]}."
    return ""
