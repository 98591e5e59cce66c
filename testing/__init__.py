"""Brokers for users' tests: a cluster inside the test's process, a client, faults, an audit, a pytest plugin.

pytest imports this package in every environment that has it installed. So each module is imported at its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..mqtt.packets import SubscribeOptions, Will
    from .async_bridge import BridgedClient
    from .broker_process import BrokerProcess
    from .capture import Capture
    from .client import Client
    from .client_errors import ConnectionLost, MqttClosed, MqttError, MqttRefused
    from .client_session import Message
    from .cluster import Cluster
    from .faults.packet_drops import Drop, FaultError
    from .fixtures import ClientFactory, ClusterFactory, External
    from .log_audit.audit import Audit, audit
    from .runtime.node_handle import LeakError, NodeHandle
    from .runtime.running_cluster import NotSettled
    from .sync import SyncClient, SyncCluster

__all__ = [
    "Audit",
    "BridgedClient",
    "BrokerProcess",
    "Capture",
    "Client",
    "ClientFactory",
    "Cluster",
    "ClusterFactory",
    "ConnectionLost",
    "Drop",
    "External",
    "FaultError",
    "LeakError",
    "Message",
    "MqttClosed",
    "MqttError",
    "MqttRefused",
    "NodeHandle",
    "NotSettled",
    "SubscribeOptions",
    "SyncClient",
    "SyncCluster",
    "Will",
    "audit",
]

_MODULES = {
    "Audit": ".log_audit.audit",
    "BridgedClient": ".async_bridge",
    "BrokerProcess": ".broker_process",
    "Capture": ".capture",
    "Client": ".client",
    "ClientFactory": ".fixtures",
    "Cluster": ".cluster",
    "ClusterFactory": ".fixtures",
    "ConnectionLost": ".client_errors",
    "Drop": ".faults.packet_drops",
    "External": ".fixtures",
    "FaultError": ".faults.packet_drops",
    "LeakError": ".runtime.node_handle",
    "Message": ".client_session",
    "MqttClosed": ".client_errors",
    "MqttError": ".client_errors",
    "MqttRefused": ".client_errors",
    "NodeHandle": ".runtime.node_handle",
    "NotSettled": ".runtime.running_cluster",
    "SubscribeOptions": "..mqtt.packets",
    "SyncClient": ".sync",
    "SyncCluster": ".sync",
    "Will": "..mqtt.packets",
    "audit": ".log_audit.audit",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name], __name__), name)
