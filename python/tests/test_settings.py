"""Settings have the defaults of the original."""

from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cases  # noqa: E402
import setting_cases  # noqa: E402

RECORDED = cases.load("settings")

DIFFERENT = {
    # Log records of objects are posted as events, as the documentation of the original promises.
    "posting.loggers": ["value", "True"],
}


@pytest.mark.parametrize("path", RECORDED)
def test_defaults_are_those_of_the_original(path: str) -> None:
    assert setting_cases.defaults()[path] == DIFFERENT.get(path, RECORDED[path])


def test_listed_differences_exist() -> None:
    for path, value in DIFFERENT.items():
        assert RECORDED[path] != value
