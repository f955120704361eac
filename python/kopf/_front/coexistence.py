"""Detection of the original Kopf in the same folder.

Both distributions have the import name ``kopf``. If both are installed, their files overwrite
each other, and neither works reliably.
"""

from __future__ import annotations

import os

MESSAGE = """\
both kopf and kopf-rs are installed in {folder}, and their files overwrite each other. \
Reinstall one of them:
    pip uninstall --yes kopf kopf-rs
    pip install kopf-rs"""


def check(folder: str) -> None:
    """Raises :class:`ImportError` if the folder of this package has files of the original."""
    if os.path.exists(os.path.join(folder, "_cogs", "aiokits", "__init__.py")):
        raise ImportError(MESSAGE.format(folder=folder))
