"""Versions of the public interface, which equals that of the original, and of this engine.

Both distributions have the import name ``kopf``. If both are installed, their files overwrite
each other, and neither works reliably.
"""

from __future__ import annotations

import os

_CLASH = """\
both kopf and kopf-rs are installed in {folder}, and their files overwrite each other. \
Reinstall one of them:
    pip uninstall --yes kopf kopf-rs
    pip install kopf-rs"""

version = "1.45.2"
"""The release of Kopf whose public interface this package has."""

version_tuple: tuple[int, int, int] = (1, 45, 2)

commit_id: str | None = None


def get_engine_version() -> str:
    """Returns the version of the installed distribution of this package."""
    import importlib.metadata

    try:
        return importlib.metadata.version("kopf-rs")
    except importlib.metadata.PackageNotFoundError:
        return "0+unknown"


def check_coexistence(folder: str) -> None:
    """Raises :class:`ImportError` if the folder of this package has files of the original."""
    if os.path.exists(os.path.join(folder, "_cogs", "aiokits", "__init__.py")):
        raise ImportError(_CLASH.format(folder=folder))
