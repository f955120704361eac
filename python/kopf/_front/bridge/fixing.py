"""Settings that are fixed after the startup."""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kopf._front.state.configuration import OperatorSettings

__all__ = ["Snapshot", "snapshot", "warn_of_changes"]

logger = logging.getLogger("kopf._core.reactor.running")

#: Groups of settings that are read on every use.
LIVE = frozenset({"posting", "execution"})

Snapshot = dict[str, Any]
"""Values by the names of settings."""


def snapshot(settings: OperatorSettings) -> Snapshot:
    """Returns the settings that are fixed."""
    values: Snapshot = {}
    for group in dataclasses.fields(settings):
        part = getattr(settings, group.name)
        if group.name in LIVE or not dataclasses.is_dataclass(part):
            continue
        for field in dataclasses.fields(part):
            values[f"{group.name}.{field.name}"] = getattr(part, field.name)
    return values


def warn_of_changes(settings: OperatorSettings, known: Snapshot) -> Snapshot:
    """Warns about settings that were changed after the startup. Returns their new snapshot."""
    current = snapshot(settings)
    changed = [name for name, value in current.items() if _differs(value, known.get(name))]
    if changed:
        logger.warning(
            "Settings are changed after the startup, which has no effect: %s.", ", ".join(changed))
    return current


def _differs(one: Any, other: Any) -> bool:
    return one is not other and bool(one != other)
