"""Registries of single runs in one process, for tests of operators."""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Iterator

from kopf._front.declare import registries
from kopf._front.tools import loaders
from kopf._front.declare.handlers import Handler

__all__ = ["own"]


@contextlib.contextmanager
def own(given: registries.OperatorRegistry | None) -> Iterator[registries.OperatorRegistry]:
    """Yields the registry of a run, which decorators use until the end of the run.

    Files are executed in every run. Their handlers must not remain for the next one.
    """
    base = registries.get_default_registry()
    base = base.base if isinstance(base, RunRegistry) else base
    registry = given if given is not None else RunRegistry(base)
    registries.set_default_registry(registry)
    try:
        yield registry
    finally:
        # Runs in other threads may have replaced it meanwhile.
        if given is None and registries.get_default_registry() is registry:
            registries.set_default_registry(base)


class RunRegistry(registries.OperatorRegistry):
    """A copy of a registry that also gets the handlers of the files of a run."""

    def __init__(self, base: registries.OperatorRegistry) -> None:
        super().__init__()
        self.base = base
        for name, part in vars(self).items():
            original = getattr(base, name, None)
            if isinstance(part, registries.GenericRegistry) and original is not None:
                part._handlers.extend(original.get_all_handlers())
                append = functools.partial(_append, part, original)
                vars(part)["append"] = append


def _append(
    part: registries.GenericRegistry[Handler],
    original: registries.GenericRegistry[Handler],
    handler: Handler,
) -> None:
    type(part).append(part, handler)
    if not _is_in_file():
        # Modules are imported once per process, and the next runs need their handlers.
        original._handlers.append(handler)


def _is_in_file() -> bool:
    """Returns ``True`` if the innermost module in execution is a file of the run."""
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            return str(frame.f_globals.get("__name__", "")).startswith(loaders.FILE_PREFIX)
        frame = frame.f_back
    return False
