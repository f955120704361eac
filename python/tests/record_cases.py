"""Records the results of the expressions of the ``*_cases.py`` modules from the original.

Run it with an interpreter that has the original, ``pydantic``, ``pyyaml``, ``pykube-ng``,
``kubernetes`` and ``mypy`` installed::

    python python/tests/record_cases.py
"""

from __future__ import annotations

import importlib

import setting_cases
import type_cases
from cases import evaluate_all, save

MODULES = {
    "views": "view_cases",
    "storages": "storage_cases",
    "hierarchies": "hierarchy_cases",
    "declarations": "declaration_cases",
}

if __name__ == "__main__":
    for name, module in MODULES.items():
        cases = importlib.import_module(module)
        save(name, evaluate_all(cases.EXPRESSIONS, cases.namespace))
    save("settings", setting_cases.defaults())
    save("types", type_cases.revealed())
