"""The hook of PyInstaller, which finds it by an entry point of the distribution."""

from __future__ import annotations

import pathlib


def get_hook_dirs() -> list[str]:
    """Returns the folders with hooks."""
    return [str(pathlib.Path(__file__).parent)]
