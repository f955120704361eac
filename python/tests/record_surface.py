"""Records the surface of the original into ``surface.json``.

Run it with an interpreter that has the original installed::

    python python/tests/record_surface.py
"""

from __future__ import annotations

import json
import pathlib

import kopf

from surface import describe, describe_settings


def main() -> None:
    path = pathlib.Path(__file__).with_name("surface.json")
    content = {
        "version": kopf.__version__,
        "names": describe(),
        "settings": describe_settings(),
    }
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
