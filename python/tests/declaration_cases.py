"""Declarations of handlers, as expressions. ``declare`` returns the registered handlers."""

from __future__ import annotations

import functools
from typing import Any

import kopf
from kopf._cogs.structs import bodies, diffs, patches
from kopf._core.intents import causes, registries


def fn(**_: Any) -> None:
    pass


async def afn(**_: Any) -> None:
    pass


def outer() -> Any:
    def inner(**_: Any) -> None:
        pass
    return inner


@functools.wraps(fn)
def wrapped(**_: Any) -> None:
    pass


class Class:
    def method(self, **_: Any) -> None:
        pass

    def __call__(self, **_: Any) -> None:
        pass

    @classmethod
    def classy(cls, **_: Any) -> None:
        pass

    @staticmethod
    def static(**_: Any) -> None:
        pass


def declare(name: str, *args: Any, by: Any = fn, **kwargs: Any) -> Any:
    registry = kopf.OperatorRegistry()
    returned = getattr(kopf.on, name)(*args, registry=registry, **kwargs)(by)
    assert returned is by
    return show(registry)


def show(registry: Any) -> Any:
    return [
        {
            "class": type(handler).__name__, "str": str(handler),
            **{key: value for key, value in sorted(vars(handler).items()) if value is not None},
        }
        for part in vars(registry).values()
        for handler in part.get_all_handlers()
    ]


def stacked() -> Any:
    registry = kopf.OperatorRegistry()

    @kopf.on.create("a", registry=registry)
    @kopf.on.update("b", registry=registry, id="other", field="spec.x")
    @kopf.on.resume("a", registry=registry)
    def decorated(**_: Any) -> None:
        pass
    return [(h.id, h.reason, h.selector) for h in registry._changing.get_all_handlers()]


def subhandler(
    reason: Any = None, needs: bool = False, decorator: str = "field", **kwargs: Any,
) -> Any:
    import contextvars

    from kopf._core.actions import execution
    from kopf._core.reactor import subhandling

    registry = kopf.OperatorRegistry()
    getattr(kopf.on, decorator)("a", field="spec", registry=registry)(fn)
    parent = registry._changing._handlers[0]
    if reason is not None or decorator == "field":
        object.__setattr__(parent, "reason", reason)
    object.__setattr__(parent, "field_needs_change", needs)

    def call() -> Any:
        registry = registries.ChangingRegistry()
        execution.handler_var.set(parent)
        subhandling.subregistry_var.set(registry)
        kopf.subhandler(**kwargs)(fn)
        kopf.register(outer(), id="registered")
        return [
            (h.id, h.field, h.value, h.old, h.new, h.reason, h.selector, h.field_needs_change)
            for h in registry.get_all_handlers()
        ]
    return contextvars.copy_context().run(call)


RESOURCE = kopf.Resource("kopf.dev", "v1", "kopfexamples", kind="KopfExample", namespaced=True)


def match(
    name: str, *, old: Any = None, new: Any = None, reason: Any = "update", initial: bool = False,
    meta: Any = None, **kwargs: Any,
) -> Any:
    """Returns the number of selected handlers, the result of prematching, and the need of a finalizer."""
    registry = kopf.OperatorRegistry()
    getattr(kopf.on, name)("kopfexamples", registry=registry, **kwargs)(fn)
    body = bodies.Body({"metadata": meta or {}, **(new or {})})
    cause = causes.ChangingCause(
        logger=None, indices={"index": "indexed"}, memo=None, resource=RESOURCE,
        patch=patches.Patch(), body=body, initial=initial, reason=causes.Reason(reason),
        diff=diffs.diff(old, new), old=old, new=new,
    )
    changing = registry._changing
    return (len(changing.get_handlers(cause)), changing.prematch(cause),
            changing.requires_finalizer(cause))


def watch(*, meta: Any = None, body: Any = None, **kwargs: Any) -> Any:
    registry = kopf.OperatorRegistry()
    kopf.on.event("kopfexamples", registry=registry, **kwargs)(fn)
    cause = causes.WatchingCause(
        logger=None, indices={"index": "indexed"}, memo=None, resource=RESOURCE,
        patch=patches.Patch(), body=bodies.Body({"metadata": meta or {}, **(body or {})}),
        type="ADDED", event={"type": "ADDED", "object": {}},
    )
    return len(registry._watching.get_handlers(cause))


def webhooks(config: Any = None, persistent_only: bool = False, **kwargs: Any) -> Any:
    from kopf._core.engines.admission import build_webhooks

    registry = kopf.OperatorRegistry()
    kopf.on.validate("kopfexamples", registry=registry, **kwargs)(fn)
    return build_webhooks(
        registry._webhooks.get_all_handlers(),
        resources=[RESOURCE, kopf.Resource("", "v1", "pods")],
        name_suffix="auto.kopf.dev",
        client_config=config or {"url": "https://host/path/"},
        persistent_only=persistent_only,
    )


def seen(collected: list[str], /, *args: Any, **kwargs: Any) -> bool:
    collected.extend([*map(str, args), *sorted(kwargs)])
    return True


def namespace() -> dict[str, Any]:
    return {**globals(), "collected": []}


IDS = """
registries.get_callable_id(fn)
registries.get_callable_id(afn)
registries.get_callable_id(outer())
registries.get_callable_id(Class().method)
registries.get_callable_id(Class.classy)
registries.get_callable_id(Class.static)
registries.get_callable_id(Class())
registries.get_callable_id(Class)
registries.get_callable_id(functools.partial(fn, x=1))
registries.get_callable_id(functools.partial(functools.partial(Class().method)))
registries.get_callable_id(functools.partial(Class()))
registries.get_callable_id(wrapped)
registries.get_callable_id(lambda **_: 0)
registries.get_callable_id(None)
registries.get_callable_id(5)
registries.get_callable_id(print)
registries.generate_id(fn, None)
registries.generate_id(fn, None, prefix="p", suffix="s.x")
registries.generate_id(fn, "i", prefix="p", suffix="s.x")
registries.generate_id(fn, "", prefix="", suffix="")
declare("create", "a", by=functools.partial(fn))[0]["id"]
declare("create", "a", by=Class().method)[0]["id"]
declare("create", "a", by=Class(), id="x")[0]["id"]
declare("create", "a", by=Class())
declare("create", "a", id="x", field="spec.field")[0]["id"]
declare("create", "a", field=("metadata", "labels", "a/b.c"))[0]["id"]
declare("index", "a", field="spec")[0]["id"]
declare("event", "a", field="spec")[0]["id"]
"""

DECLARATIONS = """
declare("startup")
declare("cleanup", id="x", param=1, errors=kopf.ErrorsMode.PERMANENT)
declare("login", retries=3, timeout=1.5, backoff=0)
declare("probe", by=afn)
declare("startup", "a")
declare("create", "a")
declare("create", "kopf.dev", "v1", "a")
declare("create", kopf.EVERYTHING)
declare("create", category="all")
declare("create", fn)
declare("create")
declare("create", "a", "b", "c", "d")
declare("create", "a", kind="b")
declare("create", "a", labels={"x": "y", "z": kopf.PRESENT}, annotations={"q": kopf.ABSENT})
declare("create", "a", when=fn, param={"x": 1})
declare("create", "a", labels={"x": None})
declare("create", "a", annotations={"x": None})
declare("create", "a", value=1)
declare("create", "a", field="f", value=1)
declare("create", "a", field=5)
declare("create", "a", field="")
declare("create", "a", old=1)
declare("create", "a", unknown=1)
declare("update", "a", field="x", old=1, new=kopf.ABSENT)
declare("update", "a", old=1)
declare("update", "a", field="x", old=1, value=2)
declare("update", "a", field="x", new=1, value=2)
declare("delete", "a")
declare("delete", "a", optional=True)
declare("delete", "a", optional=False)
declare("resume", "a")
declare("resume", "a", deleted=True)
declare("field", "a", field="spec.x")
declare("field", "a")
declare("field", "a", field=None)
declare("event", "a", retries=1)
declare("event", "a", when=fn)
declare("index", "a", errors=kopf.ErrorsMode.TEMPORARY)
declare("daemon", "a")
declare("daemon", "a", initial_delay=1, cancellation_timeout=2, cancellation_backoff=3, cancellation_polling=4)
declare("daemon", "a", initial_delay=fn)
declare("timer", "a", interval=1)
declare("timer", "a", interval=1.5, sharp=True, idle=10, initial_delay=5)
declare("validate", "a")
declare("validate", "a", operations=["CREATE"])
declare("validate", "a", operations=[])
declare("validate", "a", operations={"CREATE"}, subresource="status", persistent=True)
declare("validate", "a", operation="CREATE")
sorted(declare("mutate", "a", operation="CREATE", operations=["UPDATE"])[0]["operations"])
declare("mutate", "a", side_effects=True, ignore_failures=True, field="spec.x", value="y")
declare("validate", "a", errors=kopf.ErrorsMode.IGNORED)
stacked()
subhandler()
subhandler(id="x", param=1)
subhandler(needs=True)
subhandler(field="y", value=1)
subhandler(value=1)
subhandler(field="y", old=1)
subhandler(reason=causes.Reason.UPDATE, field="y", old=1, new=2)
subhandler(reason=causes.Reason.CREATE, field="y", old=1)
subhandler(decorator="resume", field="y", old=1)
subhandler(decorator="resume", field="y", value=1)
subhandler(decorator="create", field="y", new=1)
subhandler(decorator="update", field="y", new=1)
subhandler(reason=causes.Reason.CREATE, field="y", value=1)
subhandler(reason=causes.Reason.UPDATE, field="y", old=1, value=2)
kopf.subhandler()(fn)
kopf.register(fn)
type(kopf.get_default_registry()).__name__
kopf.get_default_registry() is kopf.get_default_registry()
declare("create", "a", labels={"x": 5})[0]["labels"]
"""

FILTERS = """
match("create", reason="create", new={})
match("create", reason="update", new={})
match("update", reason="update", old={}, new={"spec": {"x": 1}})
match("delete", reason="delete", new={})
match("delete", reason="create", new={}, optional=True)
match("resume", reason="resume", new={})
match("resume", reason="resume", new={}, initial=True)
match("resume", reason="update", new={}, initial=True)
match("resume", reason="delete", new={}, initial=True, meta={"deletionTimestamp": "x"})
match("resume", reason="delete", new={}, initial=True, meta={"deletionTimestamp": "x"}, deleted=True)
match("field", field="spec.x", old={}, new={"spec": {"x": 1}})
match("field", field="spec.x", old={"spec": {"x": 1}}, new={"spec": {"x": 1}})
match("field", field="spec.x", old={"spec": {"x": 1}}, new={})
match("field", field="spec.x", old={}, new={})
match("field", field="spec.x", old={"spec": "str"}, new={"spec": {"x": 1}})
match("field", field="spec.x", reason="create", old=None, new={"spec": {"x": 1}})
match("update", field="spec.x", old={"spec": {"x": 1}}, new={"spec": {"x": 1, "y": 2}})
match("update", field="spec.x", value=1, old={"spec": {"x": 1}}, new={"spec": {"x": 2}})
match("update", field="spec.x", value=2, old={"spec": {"x": 1}}, new={"spec": {"x": 2}})
match("update", field="spec.x", value=3, old={"spec": {"x": 1}}, new={"spec": {"x": 2}})
match("update", field="spec.x", value=kopf.PRESENT, old={"spec": {"x": 1}}, new={})
match("update", field="spec.x", value=kopf.ABSENT, old={"spec": {"x": 1}}, new={})
match("update", field="spec.x", value=kopf.ABSENT, old={"spec": {"x": 1}}, new={"spec": {"x": 2}})
match("update", field="spec.x", value=lambda v, **_: v == 2, old={"spec": {"x": 1}}, new={"spec": {"x": 2}})
match("create", reason="create", field="spec.x", value=kopf.ABSENT, new={"spec": {"x": 2}})
match("create", reason="create", field="spec.x", new={"spec": {"x": None}})
match("create", reason="create", field="spec.x", value=1, new={"spec": {"x": 1}})
match("create", reason="create", field="spec.x", value={"a": 1}, new={"spec": {"x": {"a": 1}}})
subject = match("update", field="spec.x", old={"spec": {"x": 1}}, new={"spec": {"x": 2}}); result = subject
match("create", reason="create", when=lambda **_: True, new={})
match("create", reason="create", when=lambda **_: False, new={})
match("create", reason="create", when=lambda **_: 0, new={})
match("create", reason="create", when=lambda: True, new={})
match("create", reason="create", when=functools.partial(seen, collected), new={}); result = sorted(set(collected))
match("create", reason="create", labels={"a": functools.partial(seen, collected)}, meta={"labels": {"a": "b"}}, new={}); result = sorted(set(collected))
match("create", reason="create", labels={"a": functools.partial(seen, collected)}, new={}); result = collected[0]
watch()
watch(labels={"a": "b"})
watch(labels={"a": "b"}, meta={"labels": {"a": "b"}})
watch(labels={"a": "b"}, meta={"labels": {"a": "c"}})
watch(labels={"a": kopf.PRESENT}, meta={"labels": {"a": ""}})
watch(labels={"a": kopf.PRESENT}, meta={"labels": {"b": ""}})
watch(labels={"a": kopf.ABSENT}, meta={"labels": {"a": ""}})
watch(labels={"a": kopf.ABSENT}, meta={})
watch(labels={"a": ""}, meta={})
watch(labels={}, meta={"labels": {"a": ""}})
watch(labels={"a": "b", "c": "d"}, meta={"labels": {"a": "b"}})
watch(labels={"a": lambda v, **_: v == "b"}, meta={"labels": {"a": "b"}})
watch(labels={"a": lambda v, **_: v is None}, meta={})
watch(annotations={"a": "b"}, meta={"annotations": {"a": "b"}})
watch(annotations={"a": "b"}, meta={"labels": {"a": "b"}})
watch(annotations={"a": kopf.not_(lambda v, **_: v == "b")}, meta={"annotations": {"a": "b"}})
watch(field="spec.x", body={"spec": {"x": 1}})
watch(field="spec.x", body={"spec": {}})
watch(field="spec.x", body={"spec": "str"})
watch(field="spec.x", value=1, body={"spec": {"x": 1}})
watch(field="spec.x", value=2, body={"spec": {"x": 1}})
watch(field="spec.x", value=kopf.ABSENT, body={"spec": {}})
watch(field="spec.x", value=kopf.ABSENT, body={"spec": {"x": 1}})
watch(field="spec.x", value=lambda v, **_: v > 0, body={"spec": {"x": 1}})
watch(when=kopf.all_([lambda **_: True, lambda **_: False]))
watch(when=kopf.any_([lambda **_: True, lambda **_: False]))
watch(when=kopf.none_([lambda **_: False, lambda **_: False]))
watch(when=lambda index, type, event, **_: index == "indexed" and type == "ADDED")
watch(when=functools.partial(seen, collected)); result = sorted(set(collected))
"""

WEBHOOKS = """
webhooks()
webhooks(id="a/b_c:d", field="spec.x")
webhooks(config={"service": {"name": "s", "namespace": "n", "path": "/p"}, "caBundle": "x"})
webhooks(config={"service": {"name": "s", "namespace": "n"}}, id="a/<b>")
webhooks(config={"url": None, "service": None})
webhooks(persistent_only=True)
webhooks(persistent_only=True, persistent=True)
webhooks(operations=["CREATE", "UPDATE"], subresource="status", side_effects=True)
webhooks(ignore_failures=True, labels={"a": "b", "c": kopf.PRESENT, "d": kopf.ABSENT, "e": fn})
webhooks(labels={"e": fn})
"""

EXPRESSIONS = [
    line for text in (IDS, DECLARATIONS, FILTERS, WEBHOOKS) for line in text.strip().splitlines()
]
