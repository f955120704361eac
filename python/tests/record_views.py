"""Records the results of the expressions from the original into ``views.json``.

Run it with an interpreter that has the original, ``pydantic`` and ``pyyaml`` installed::

    python python/tests/record_views.py
"""

from __future__ import annotations

from cases import evaluate_all, save
from view_cases import EXPRESSIONS, namespace

if __name__ == "__main__":
    save("views", evaluate_all(EXPRESSIONS, namespace))
