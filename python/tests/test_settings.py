"""Settings have the defaults of the original."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import pathlib
import pickle
import sys
import warnings
from typing import Any

import kopf
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


@pytest.mark.parametrize(
    ("group", "name", "meant"),
    [
        ("posting", "enabeld", "posting.enabled"),
        ("posting", "levels", "posting.level"),
        ("queueing", "worker_limits", "queueing.worker_limit"),
        ("execution", "max_worker", "execution.max_workers"),
        ("peering", "namespace", "peering.namespaced"),
        ("persistence", "difbase_storage", "persistence.diffbase_storage"),
        ("process", "metric", "process.metrics"),
        (None, "watchin", "watching"),
    ],
)
def test_misspelt_names_raise_with_the_meant_one(group: str | None, name: str, meant: str) -> None:
    settings = kopf.OperatorSettings()
    owner = settings if group is None else getattr(settings, group)
    with pytest.raises(AttributeError) as error:
        setattr(owner, name, 1)
    path = name if group is None else f"{group}.{name}"
    assert str(error.value) == f"unknown setting settings.{path}: did you mean settings.{meant}?"
    assert not hasattr(owner, name)


@pytest.mark.parametrize(
    ("group", "name"),
    [("watching", "session_timeout"), ("watching", "retry_delay"), ("posting", "colour")],
)
def test_names_of_other_releases_and_unlike_ones_are_accepted_with_one_warning(
    group: str, name: str,
) -> None:
    owner = getattr(kopf.OperatorSettings(), group)
    with pytest.warns(UserWarning) as caught:
        setattr(owner, name, 1)
        setattr(owner, name, 2)
    assert [str(one.message) for one in caught] == [
        f"unknown setting settings.{group}.{name} has no effect: see `help(kopf.OperatorSettings)` "
        f"for the known ones"
    ]
    assert caught[0].filename == __file__
    assert getattr(owner, name) == 2


def test_known_names_and_declared_names_of_subclasses_raise_no_warnings() -> None:
    @dataclasses.dataclass
    class Posting(type(kopf.OperatorSettings().posting)):  # type: ignore[misc]
        enable: bool = False

    class Settings(kopf.OperatorSettings):
        watchings: Any

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settings = Settings()
        settings.watchings = 1
        settings.posting = Posting()
        settings.posting.enable = True  # type: ignore[attr-defined]
        settings.peering.namespaced = True
        settings.execution.max_workers = 3
        settings._own = 1  # type: ignore[attr-defined]
        copied = pickle.loads(pickle.dumps(copy.deepcopy(settings.queueing)))
    assert copied == settings.queueing


def test_removed_settings_warn_and_do_nothing() -> None:
    settings = kopf.OperatorSettings()
    with pytest.warns(DeprecationWarning, match="honest_liveness has no effect any more") as caught:
        settings.process.honest_liveness = False  # type: ignore[attr-defined]
    assert caught[0].filename == __file__
    assert not hasattr(settings.process, "honest_liveness")


@pytest.mark.native
@pytest.mark.parametrize(
    "path",
    ["posting.queue_limit", "queueing.max_events", "queueing.max_bytes", "networking.concurrency"],
)
def test_settings_of_rust_reach_the_engine(path: str, registry: kopf.OperatorRegistry) -> None:
    settings = kopf.OperatorSettings()
    group, _, name = path.partition(".")
    setattr(getattr(settings, group), name, 0)
    with pytest.raises(RuntimeError, match=rf"settings\.{path} must be at least 1"):
        asyncio.run(kopf.operator(clusterwide=True, settings=settings))
    setattr(getattr(settings, group), name, "many")
    with pytest.raises(ValueError, match=rf"invalid value of settings\.{path}: 'many'"):
        asyncio.run(kopf.operator(clusterwide=True, settings=settings))
