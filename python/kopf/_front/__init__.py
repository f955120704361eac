"""The Python side of the framework: declarations, views of objects, storages, settings.

Everything here is private. Users import names from :mod:`kopf`, or, for a few historical paths,
from the re-exporting modules under ``kopf._cogs``, ``kopf._core`` and ``kopf._kits``.
"""
