"""Forked child processes of operators."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

__all__ = ["leave"]


def leave(exc: BaseException | None = None) -> NoReturn:
    """Exits a forked child after its handler has returned or raised, with the usual exit code.

    The threads of the engine do not exist in the child, and the event loop shares its descriptors
    with that of the parent: the child would take events from the parent and never end.
    """
    code = 0
    if isinstance(exc, SystemExit):
        if isinstance(exc.code, int):
            code = exc.code
        elif exc.code is not None:
            print(exc.code, file=sys.stderr)
            code = 1
    elif exc is not None:
        import traceback

        traceback.print_exception(exc)
        code = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # closed, or absent
            continue
    os._exit(code & 0xFF)
