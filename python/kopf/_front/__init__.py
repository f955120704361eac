"""The Python frontend: declarations, views of objects, storages, settings.

All modules are private. Users import names from :mod:`kopf` or, for a few historical paths,
from the re-exporting modules under ``kopf._cogs``, ``kopf._core`` and ``kopf._kits``.
"""
