"""Type checkers reveal the types of the original."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cases  # noqa: E402
import type_cases  # noqa: E402


def test_types_are_those_of_the_original() -> None:
    recorded = cases.load("types")
    assert len(recorded) == type_cases.CODE.count("reveal_type(")
    assert type_cases.revealed() == recorded
