"""Loads a plugin object from `module:Class` and its settings in the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from inspect import signature
from typing import Any


class PluginError(ValueError):
    """A plugin that cannot be used; the text says which and why, for the operator or the plugin's author."""


def load_plugin(spec: str, settings: Mapping[str, Any]) -> object:
    """Import `module:Class` and make an instance with the settings as keyword arguments.

    PluginError if there is no such module or class, if it does not take these settings, or if it fails.
    """
    module_name, _, class_name = spec.partition(":")
    if not module_name or not class_name.isidentifier():
        raise PluginError(f"{spec!r} does not name a plugin; write it as module:Class")
    try:
        module = import_module(module_name)
    except Exception as error:
        raise PluginError(f"plugin {spec!r}: the module {module_name!r} cannot be imported: {error}") from error
    factory = getattr(module, class_name, None)
    if not callable(factory):
        raise PluginError(f"plugin {spec!r}: the module {module_name!r} has no class {class_name!r}")
    takes = signature(factory)
    try:
        takes.bind(**settings)
    except TypeError as error:
        known = ", ".join(takes.parameters) or "none"
        raise PluginError(f"plugin {spec!r}: {error}; its settings are: {known}") from error
    try:
        plugin: object = factory(**settings)
    except Exception as error:
        raise PluginError(f"plugin {spec!r} could not be made: {error}") from error
    return plugin
