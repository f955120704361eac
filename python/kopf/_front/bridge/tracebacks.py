"""Tracebacks with only the frames of the user's code."""

from __future__ import annotations

import importlib
import os.path
import traceback
import types

__all__ = ["format_exception", "format_stack", "without_own"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def without_own(trace: types.TracebackType | None) -> types.TracebackType | None:
    """Returns the frames without those of Kopf and of its callers and callees at both ends.

    The leading frames end with the last frame of Kopf before the user's code. The trailing ones
    begin with the first frame of Kopf after which no file of the user follows. `None` if all frames
    are cut.
    """
    frames: list[types.TracebackType] = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    first = 0
    while first < len(frames) and _is_framework(frames[first]):
        first += 1
    kept = frames[first:]
    for number, frame in enumerate(kept):
        files = {one.tb_frame.f_code.co_filename for one in kept[:number]}
        later = {one.tb_frame.f_code.co_filename for one in kept[number:]}
        if _is_own(frame) and not files & later:
            kept = kept[:number]
            break
    result: types.TracebackType | None = None
    for frame in reversed(kept):
        result = types.TracebackType(result, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return result


def format_exception(exc: BaseException) -> str:
    """Returns the traceback of an exception without the frames of Kopf."""
    return "".join(traceback.format_exception(type(exc), exc, without_own(exc.__traceback__)))


def format_stack(frame: types.FrameType) -> str:
    """Returns the stack of a running function, without the frames of Kopf that have called it."""
    frames = traceback.extract_stack(frame)
    own = [number for number, one in enumerate(frames[:-1]) if one.filename.startswith(_PACKAGE)]
    called = frames[own[-1] + 1:] if own else frames
    return "".join(["Stack (most recent call last):\n", *traceback.format_list(called)]).rstrip()


def _is_own(entry: types.TracebackType) -> bool:
    return entry.tb_frame.f_code.co_filename.startswith(_PACKAGE)


def _is_framework(entry: types.TracebackType) -> bool:
    """Returns `True` for frames of Kopf, and of the import machinery that Kopf calls."""
    filename = entry.tb_frame.f_code.co_filename
    is_import = filename.startswith("<frozen importlib") or filename == importlib.__file__
    return is_import or _is_own(entry)
