"""Evaluation of expressions, whose results are compared with those recorded from the original."""

from __future__ import annotations

import json
import pathlib
import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any

Result = list[str]
"""Either ``["value", repr]`` or ``["raises", class]``, followed by the classes of warnings."""


def evaluate(expression: str, namespace: dict[str, Any]) -> Result:
    """Returns a comparable result of an expression, or of statements that set ``result``."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # The garbage collector can warn about objects of other tests.
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            if "\n" in expression or re.search(r"^(del|for|match|with)\b|; ", expression):
                scope = dict(namespace)
                exec(expression.replace("; ", "\n"), scope)
                value = scope["result"]
            else:
                value = eval(expression, dict(namespace))
            outcome = ["value", normalize(repr(value))]
        except Exception as e:
            outcome = ["raises", type(e).__name__]
    return outcome + sorted({item.category.__name__ for item in caught})


def normalize(text: str) -> str:
    """Removes addresses and the paths of private modules, which vary."""
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return re.sub(r"\bkopf\.(_\w+\.)+", "kopf.", text)


def evaluate_all(
    expressions: Iterable[str], make_namespace: Callable[[], dict[str, Any]],
) -> dict[str, Result]:
    return {expression: evaluate(expression, make_namespace()) for expression in expressions}


def load(name: str) -> dict[str, Result]:
    content: dict[str, Result] = json.loads(_path(name).read_text())
    return content


def save(name: str, results: dict[str, Result]) -> None:
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in results.items()]
    _path(name).write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _path(name: str) -> pathlib.Path:
    return pathlib.Path(__file__).with_name(f"{name}.json")
