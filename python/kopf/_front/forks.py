"""Forked children of operators."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

__all__ = ["leave"]


def leave(exc: BaseException | None = None) -> NoReturn:
    """Ends a forked child whose handler has returned or raised; the exit code is as usual.

    The engine has no threads in the child, and the event loop shares its descriptors with that of the
    parent: a child that continued would take events away from the parent, and would never end.
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
