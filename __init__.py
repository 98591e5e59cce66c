"""Strogoff: a clustered MQTT broker in pure Python. See README.md; the rooms are listed in docs/architecture.md."""

__version__ = "0.1.0"
