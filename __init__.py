"""Strogoff: a clustered MQTT broker in pure Python. See README.md; docs/architecture.md lists the packages."""

__version__ = "0.1.0"
