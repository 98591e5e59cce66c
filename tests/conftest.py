"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("strogoff", deadline=None)  # a time limit for an example would measure the machine
settings.load_profile("strogoff")
