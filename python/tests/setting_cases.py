"""The default values of all settings, compared with those recorded from the original."""

from __future__ import annotations

import dataclasses
from typing import Any


def defaults() -> dict[str, list[str]]:
    """Returns the default values by the paths of the settings."""
    import kopf

    settings = kopf.OperatorSettings()
    values = dict(_values(settings, ""))
    values["execution.max_workers"] = settings.execution.max_workers
    return {path: ["value", _text(value)] for path, value in sorted(values.items())}


def _values(owner: Any, prefix: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for field in dataclasses.fields(owner):
        value = getattr(owner, field.name)
        if dataclasses.is_dataclass(value):
            found += _values(value, f"{prefix}{field.name}.")
        elif not field.name.startswith("_"):
            found.append((prefix + field.name, value))
    return found


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return repr(list(value))
    # Objects are compared by their classes: storages, executors, selectors.
    return repr(value) if type(value).__module__ == "builtins" else type(value).__name__
