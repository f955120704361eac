"""Options that are validated when handlers are declared. The original fails later or not at all."""

from __future__ import annotations

from typing import Any

import pytest

import kopf


def fn(**_: Any) -> None:
    pass


@pytest.mark.parametrize("decorator, options, message", [
    ("timer", {"interval": "5"}, "invalid interval '5' of handler 'fn': must be a number"),
    ("timer", {"idle": object}, "invalid idle"),
    ("timer", {"initial_delay": "1"}, "must be a number or a function"),
    ("daemon", {"cancellation_timeout": "1"}, "invalid cancellation_timeout '1'"),
    ("create", {"retries": "3"}, "invalid retries '3'"),
    ("create", {"timeout": [1]}, "invalid timeout"),
    ("create", {"backoff": "x"}, "invalid backoff"),
    ("create", {"errors": "ignored"}, "must be a kopf.ErrorsMode"),
    ("create", {"when": True}, "invalid when True of handler 'fn': must be a function"),
    ("create", {"labels": ["a"]}, r"invalid labels \['a'\]: must be a dict"),
    ("create", {"annotations": "a=b"}, "invalid annotations"),
    ("create", {"registry": object()}, "must be a kopf.OperatorRegistry"),
])
def test_invalid_option_is_rejected(
    registry: kopf.OperatorRegistry, decorator: str, options: dict[str, Any], message: str,
) -> None:
    with pytest.raises(TypeError, match=message):
        getattr(kopf.on, decorator)("kopfexamples", **options)(fn)
    assert not registry._changing.get_all_handlers()
    assert not registry._spawning.get_all_handlers()


@pytest.mark.parametrize("value", [None, 5, "str", [1]])
def test_non_callable_is_rejected(registry: kopf.OperatorRegistry, value: Any) -> None:
    with pytest.raises(ValueError, match="Cannot"):
        kopf.on.create("kopfexamples")(value)
    with pytest.raises(TypeError, match="handler 'x' is not callable"):
        kopf.on.create("kopfexamples", id="x")(value)


@pytest.mark.parametrize("args", [(5,), ("group", fn), ("group", "v1", 5)])
def test_invalid_resource_name_is_rejected(
    registry: kopf.OperatorRegistry, args: tuple[Any, ...],
) -> None:
    with pytest.raises(TypeError, match="invalid resource name"):
        kopf.on.create(*args)(fn)


def test_handlers_are_added_to_the_default_registry(registry: kopf.OperatorRegistry) -> None:
    kopf.on.create("kopfexamples")(fn)
    kopf.timer("kopfexamples", interval=1)(fn)
    kopf.daemon("kopfexamples")(fn)
    kopf.index("kopfexamples")(fn)
    assert [handler.fn for handler in registry._changing.get_all_handlers()] == [fn]
    assert len(registry._spawning.get_all_handlers()) == 2
    assert len(registry._indexing.get_all_handlers()) == 1


def test_handlers_are_immutable(registry: kopf.OperatorRegistry) -> None:
    kopf.on.create("kopfexamples")(fn)
    handler = next(iter(registry._changing.get_all_handlers()))
    with pytest.raises(AttributeError):
        handler.id = "x"
    with pytest.raises(AttributeError):
        del handler.id
    assert hash(handler) == hash(handler)
    assert handler == handler


def test_lifecycle_is_replaced_and_restored(caplog: pytest.LogCaptureFixture) -> None:
    assert kopf.get_default_lifecycle() is kopf.lifecycles.asap
    kopf.set_default_lifecycle(kopf.lifecycles.all_at_once)
    assert "The default lifecycle is already set to <function asap" in caplog.text
    assert kopf.get_default_lifecycle() is kopf.lifecycles.all_at_once
    kopf.set_default_lifecycle(None)
    assert kopf.get_default_lifecycle() is kopf.lifecycles.asap


def test_asap_selects_the_least_retried(registry: kopf.OperatorRegistry) -> None:
    import types

    for id in "abc":
        kopf.on.create("kopfexamples", id=id)(fn)
    handlers = list(registry._changing.get_all_handlers())
    retries = {"a": 2, "b": 1, "c": 1}
    state: Any = {id: types.SimpleNamespace(retries=n) for id, n in retries.items()}
    assert [h.id for h in kopf.lifecycles.asap(handlers, state=state)] == ["b"]


def test_operations_as_a_string_are_one_operation(registry: kopf.OperatorRegistry) -> None:
    kopf.on.validate("kopfexamples", operations="CREATE")(fn)  # type: ignore[arg-type]
    handler = next(iter(registry._webhooks.get_all_handlers()))
    assert handler.operations == ["CREATE"]
