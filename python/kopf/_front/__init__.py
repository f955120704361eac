"""The Python frontend, in six layers; each may import only those below it (``pyproject.toml``).

``tools`` (commands, sandboxes, runners), ``bridge`` (calls between the engine and Python), ``serving``
(webhook servers), ``declare`` (handlers and their registries), ``state`` (settings, storages,
credentials), ``objects`` (what handlers get: bodies, patches, diffs, causes).

All modules are private. Users import names from :mod:`kopf` or, for a few historical paths of the
original, from the modules of :mod:`kopf._front.historical`.
"""
