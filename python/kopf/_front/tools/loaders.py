"""Loading of the files and modules with handlers."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
import os.path
import sys
import traceback
from collections.abc import Iterable, Iterator
from types import TracebackType

from kopf._front.bridge import tracebacks

__all__ = ["FILE_PREFIX", "describe_failure", "preload"]

logger = logging.getLogger("kopf._cogs.helpers.loaders")

#: The attribute of exceptions with the file or module whose loading raised them.
_ORIGIN = "__kopf_origin__"


#: The beginning of the names of imported files.
FILE_PREFIX = "__kopf_script_"


def preload(paths: Iterable[str], modules: Iterable[str]) -> None:
    """Imports the files, then the modules, in the given order.

    The directory of each file is prepended to the import path. Files are imported under names that
    no other module can have, so a file named `operator.py` does not replace the standard module.
    Exceptions are raised unchanged; `describe_failure()` returns their description for users.
    """
    for number, path in enumerate(paths):
        before = _declared()
        with _origin(path):
            _load_file(number, path)
        _warn_if_empty(path, before)
    for name in modules:
        is_new = name not in sys.modules
        before = _declared()
        with _origin(f"module {name}"):
            importlib.import_module(name)
        if is_new:
            _warn_if_empty(f"module {name}", before)


def _declared() -> int:
    """Returns the number of handlers in the default registry, and of declared resources."""
    from kopf._front.bridge import lowering
    from kopf._front.declare import registries, schemas

    return len(lowering.all_handlers(registries.get_default_registry())) + len(schemas.declared())


def _warn_if_empty(source: str, before: int) -> None:
    # Handlers of another registry are counted only if it is the default one.
    if _declared() == before:
        logger.warning(
            "No handlers are declared in %s: functions need a decorator with a resource, such as "
            "@kopf.on.create('kopfexamples').", source)


def _load_file(number: int, path: str) -> None:
    full = os.path.abspath(path)
    if not os.path.exists(full):
        raise FileNotFoundError(f"Failed loading {path}: no such file")
    if os.path.isdir(full):
        raise ImportError(f"Failed loading {path}: it is a directory; use -m for packages")
    sys.path.insert(0, os.path.dirname(full))
    name = f"{FILE_PREFIX}{number}__{path}"
    spec = importlib.util.spec_from_file_location(name, full)
    if spec is None or spec.loader is None:
        raise ImportError(f"Failed loading {path}: no module or loader. The name must end with .py")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and typing look up modules by name.
    sys.modules[name] = module
    spec.loader.exec_module(module)


@contextlib.contextmanager
def _origin(source: str) -> Iterator[None]:
    try:
        yield
    except Exception as exc:
        with contextlib.suppress(Exception):
            setattr(exc, _ORIGIN, source)
        raise


def describe_failure(exc: BaseException) -> str | None:
    """Returns the text to print if loading raised the exception, `None` for all other exceptions.

    The traceback contains only frames of the user's code; for a missing file or module, it is
    omitted.
    """
    origin: str | None = getattr(exc, _ORIGIN, None)
    if origin is None:
        return None
    frames = _user_frames(exc.__traceback__)
    if frames is None and isinstance(exc, FileNotFoundError):
        return f"Error: cannot load {origin}: no such file"
    if frames is None and isinstance(exc, ModuleNotFoundError):
        hint = "the import path has no such module; set PYTHONPATH, or give the file instead"
        return f"Error: cannot load {origin}: {exc}: {hint}"
    if frames is None and isinstance(exc, ImportError):
        return f"Error: cannot load {origin}: {exc}"
    lines = traceback.format_exception(type(exc), exc, frames)
    summary = traceback.format_exception_only(type(exc), exc)[-1].strip()
    return f"{''.join(lines)}Error: cannot load {origin}: {summary}"


def _user_frames(trace: TracebackType | None) -> TracebackType | None:
    """Returns the frames of the user's code: without the callers of the loader, and without Kopf."""
    last: TracebackType | None = None
    entry = trace
    while entry is not None:
        if entry.tb_frame.f_code.co_filename == __file__:
            last = entry
        entry = entry.tb_next
    return tracebacks.without_own(last.tb_next if last is not None else trace)
