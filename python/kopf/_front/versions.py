"""Versions of the public interface, which equals that of the original, and of this engine."""

from __future__ import annotations

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
