"""Operations of storages, as expressions."""

from __future__ import annotations

from typing import Any

import kopf

RECORD = {
    "started": "2026-01-02T03:04:05.678901+00:00", "stopped": None, "delayed": None,
    "purpose": "create", "retries": 1, "success": False, "failure": False,
    "message": "кириллица \U0001f600 \x7f", "subrefs": ["fn/sub"],
}
LONG = "a" * 64
MIDDLE = "a" * 47


class Custom(kopf.AnnotationsProgressStorage):
    def __init__(self) -> None:
        super().__init__(prefix="custom.example.com", v1=False)


def namespace() -> dict[str, Any]:
    return {
        **globals(),
        "ann": kopf.AnnotationsProgressStorage(),
        "own": kopf.AnnotationsProgressStorage(prefix="my-op.example.com", verbose=True),
        "v2": kopf.AnnotationsProgressStorage(v1=False),
        "sta": kopf.StatusProgressStorage(),
        "smart": kopf.SmartProgressStorage(),
        "multi": kopf.MultiProgressStorage([
            kopf.StatusProgressStorage(name="x"), kopf.AnnotationsProgressStorage()]),
        "dann": kopf.AnnotationsDiffBaseStorage(),
        "down": kopf.AnnotationsDiffBaseStorage(prefix="my-op.example.com", key="diff"),
        "dsta": kopf.StatusDiffBaseStorage(),
        "ign": kopf.AnnotationsDiffBaseStorage(
            ignored_fields=["spec.a.b", ("spec", "x.y"), "none.at.all", "spec.s.t"]),
        "dmulti": kopf.MultiDiffBaseStorage([
            kopf.StatusDiffBaseStorage(), kopf.AnnotationsDiffBaseStorage()]),
        "patch": kopf.Patch(),
        "empty": kopf.Body({}),
        "body": kopf.Body({
            "apiVersion": "v1", "kind": "K",
            "metadata": {
                "name": "n", "uid": "u", "resourceVersion": "1", "managedFields": [{}],
                "labels": {"l": "1"}, "finalizers": ["f"],
                "annotations": {
                    "note": "x",
                    "kubectl.kubernetes.io/last-applied-configuration": "{}",
                    "kopf.zalando.org/fn": '{"started":"s","retries":1}',
                    "kopf.zalando.org/nothing": "null",
                    "kopf.zalando.org/bad": "{",
                    "kopf.zalando.org/touch-dummy": "t",
                    "kopf.zalando.org/last-handled-configuration": '{"spec":{"a":1}}\n',
                    "other.example.com/kopf-managed": "yes",
                    "other.example.com/state": "1",
                    "my-op.example.com/fn": '{"retries":2}',
                    "sub.kopf.zalando.org/x": "1",
                    "kopf.dev/x": "1",
                },
            },
            "spec": {"a": {"b": 1}, "x.y": 2, "s": "t"},
            "data": {"k": "v"},
            "status": {
                "field": 1,
                "kopf": {
                    "dummy": "t",
                    "progress": {"fn": {"retries": 3}, "old/sub": {"retries": 4}},
                    "last-handled-configuration": '{"spec":{"b":1}}',
                },
            },
        }),
        "rs": kopf.Body({
            "kind": "ReplicaSet",
            "metadata": {
                "ownerReferences": [{"kind": "Deployment"}],
                "annotations": {
                    "kopf.zalando.org/fn": '{"retries":1}',
                    "kopf.zalando.org/fn-ofDRS": '{"retries":2}',
                    "kopf.zalando.org/last-handled-configuration-ofDRS": '{"spec":{"c":1}}\n',
                },
            },
        }),
        "garbage": kopf.Body({"status": {"kopf": "str"}}),
    }


KEYS = r"""
ann.make_v2_key("create_fn"), ann.make_v1_key("create_fn")
ann.make_v2_key("create_fn/spec.field"), ann.make_v1_key("create_fn/spec.field")
ann.make_v2_key("outer.<locals>.inner"), ann.make_v1_key("outer.<locals>.inner")
[ann.make_v2_key("a" * n) for n in (1, 46, 47, 56, 57, 63, 64, 100)]
[ann.make_v1_key("a" * n) for n in (1, 46, 47, 56, 57, 63, 64, 100)]
ann.make_v2_key("create_fn/" + "b" * 60), ann.make_v1_key("create_fn/" + "b" * 60)
own.make_v2_key("x" * 40), own.make_v1_key("x" * 40)
own.make_v2_key("x" * 64), own.make_v1_key("fn" * 323), own.make_v2_key("fn" * 323)
ann.make_v2_key("кириллица" * 10), ann.make_v1_key("кириллица" * 10)
ann.make_v2_key("with space:and+signs"), ann.make_v2_key("")
ann.make_v2_key("fn", max_length=3), ann.make_v2_key("function", max_length=8)
kopf.AnnotationsProgressStorage(prefix="p" * 70).make_v1_key("function")
kopf.AnnotationsProgressStorage(prefix="p" * 60).make_v1_key("function" * 10)
kopf.AnnotationsProgressStorage(prefix="p" * 200).prefix
kopf.AnnotationsProgressStorage(prefix="")
kopf.AnnotationsDiffBaseStorage(prefix="")
list(ann.make_keys("fn")), list(ann.make_keys(LONG)), list(v2.make_keys(LONG))
list(ann.make_keys("fn", body=rs)), list(ann.make_keys("fn", body=body))
list(ann.make_keys(MIDDLE, body=rs))
ann.mark_key("fn", body=rs), ann.mark_key("fn", body=body), ann.mark_key("fn", body=empty)
ann.make_safe_key("a/b<c>d.e"), ann.make_suffix("a")
[ann.make_suffix(str(n)) for n in range(20)]
ann.prefix, ann.v1, ann.verbose, ann.touch_key
sta.field, sta.touch_field, dsta.field, dann.key, dann.prefix, dann.ignored_fields
kopf.StatusProgressStorage(name="q", field="x.{name}.y", touch_field=["a", "{name}"]).touch_field
kopf.StatusProgressStorage(name="q", field="x.{name}.y").field
sta.field = "x.{name}.y"; result = sta.field
sta.touch_field = ("x", "{name}"); result = sta.touch_field
dsta.field = "x.y"; result = dsta.field
[type(s).__name__ for s in smart.storages]
Custom().prefix, Custom().make_v2_key(LONG)
kopf.ProgressStorage()
kopf.DiffBaseStorage()
"""

PROGRESS = r"""
[s.fetch(key="fn", body=body) for s in (ann, own, v2, sta, smart, multi)]
[s.fetch(key="none", body=body) for s in (ann, own, v2, sta, smart, multi)]
[s.fetch(key="fn", body=empty) for s in (ann, own, v2, sta, smart, multi)]
[s.fetch(key="old/sub", body=body) for s in (ann, sta, smart)]
ann.fetch(key="nothing", body=body)
ann.fetch(key="bad", body=body)
ann.fetch(key="fn", body=rs)
sta.fetch(key="fn", body=garbage)
ann.store(key="fn", record=RECORD, body=empty, patch=patch); result = patch
ann.store(key="fn", record=RECORD, body=body, patch=patch); result = patch
ann.store(key=LONG, record={"retries": 1}, body=body, patch=patch); result = patch
v2.store(key=LONG, record={"retries": 1}, body=body, patch=patch); result = patch
own.store(key="fn", record=RECORD, body=empty, patch=patch); result = patch
own.store(key="a/<b>", record={"retries": None}, body=empty, patch=patch); result = patch
own.store(key="fn", record={}, body=kopf.Body({"metadata": {"annotations": {"my-op.example.com/kopf-managed": "no"}}}), patch=patch); result = patch
ann.store(key="fn", record={"retries": 1}, body=rs, patch=patch); result = patch
sta.store(key="a/b.c", record=RECORD, body=empty, patch=patch); result = patch
smart.store(key="fn", record={"retries": 1}, body=body, patch=patch); result = patch
multi.store(key="fn", record={"retries": 1}, body=body, patch=patch); result = patch
ann.purge(key="fn", body=body, patch=patch); result = patch
ann.purge(key="none", body=body, patch=patch); result = patch
ann.store(key="new", record={}, body=body, patch=patch); ann.purge(key="new", body=body, patch=patch); result = patch
ann.store(key="new", record={}, body=body, patch=patch); ann.store(key="n2", record={}, body=body, patch=patch); ann.purge(key="new", body=body, patch=patch); result = patch
ann.store(key=LONG, record={}, body=empty, patch=patch); ann.purge(key=LONG, body=empty, patch=patch); result = patch
sta.purge(key="fn", body=body, patch=patch); result = patch
sta.purge(key="none", body=body, patch=patch); result = patch
sta.store(key="new", record={}, body=body, patch=patch); sta.purge(key="new", body=body, patch=patch); result = patch
smart.purge(key="fn", body=body, patch=patch); result = patch
smart.purge(key="fn", body=empty, patch=patch); result = patch
own.purge(key="fn", body=body, patch=patch); result = patch
sta.purge(key="fn", body=garbage, patch=patch); result = patch
ann.touch(body=body, patch=patch, value="t"); result = patch
ann.touch(body=body, patch=patch, value="z"); result = patch
ann.touch(body=body, patch=patch, value=None); result = patch
ann.touch(body=empty, patch=patch, value=None); result = patch
ann.touch(body=rs, patch=patch, value="z"); result = patch
own.touch(body=empty, patch=patch, value="z"); result = patch
sta.touch(body=body, patch=patch, value="t"); result = patch
sta.touch(body=body, patch=patch, value=None); result = patch
sta.touch(body=empty, patch=patch, value="z"); result = patch
smart.touch(body=body, patch=patch, value="z"); result = patch
multi.touch(body=body, patch=patch, value="z"); result = patch
ann.clear(essence=dict(body))["metadata"]
own.clear(essence=dict(body))["metadata"]["annotations"].keys()
sta.clear(essence=dict(body))["status"]
sta.clear(essence={"status": {"kopf": {"progress": {"fn": {}}}}})
smart.clear(essence={"metadata": {"annotations": {"kopf.zalando.org/fn": ""}}, "status": {"kopf": {"progress": {}}}})
ann.clear(essence={"metadata": {"annotations": {"kopf.zalando.orgs/fn": ""}, "labels": {}}, "status": {}})
ann.clear(essence={}), sta.clear(essence={}), smart.clear(essence={})
e = {"metadata": {"annotations": {"kopf.zalando.org/fn": ""}}}; ann.clear(essence=e); result = e
ann.flush(), sta.flush(), smart.flush()
sta.clear(essence={"status": "str"})
"""

DIFFBASE = r"""
dann.build(body=body)
down.build(body=body)["metadata"]
dsta.build(body=body)
dmulti.build(body=body)
dann.build(body=empty), dsta.build(body=empty)
dann.build(body=body, extra_fields=["status.field"])
dann.build(body=body, extra_fields=["status.none", "metadata.name", ("spec", "x.y")])
dann.build(body=body, extra_fields=["metadata.annotations"])["metadata"]
dann.build(body=body, extra_fields=["status.kopf"])["status"]
dsta.build(body=body, extra_fields=["status"])["status"]
dsta.build(body=kopf.Body({"status": {"kopf": {"last-handled-configuration": "x"}}}), extra_fields=["status"])
dann.build(body=body, extra_fields=["spec.s.t"])
dann.build(body=body, extra_fields=["metadata.finalizers"])["metadata"]
dmulti.build(body=body, extra_fields=["status.kopf"])
ign.build(body=body)
ign.build(body=kopf.Body({"spec": {"a": {"b": 1}}}))
ign.build(body=kopf.Body({"spec": {"a": {}}}))
dann.build(body=kopf.Body({"metadata": {"labels": {}, "annotations": {}}, "spec": {}}))
dann.build(body=kopf.Body({"metadata": {"annotations": {"kopf.zalando.org/x": "1"}}}))
dann.build(body=rs)
dann.build(body=body)["spec"]["a"] is body["spec"]["a"]
[s.fetch(body=body) for s in (dann, down, dsta, dmulti, ign)]
[s.fetch(body=empty) for s in (dann, down, dsta, dmulti)]
dann.fetch(body=rs)
dann.fetch(body=kopf.Body({"metadata": {"annotations": {"kopf.zalando.org/last-handled-configuration": "null"}}}))
dann.fetch(body=kopf.Body({"metadata": {"annotations": {"kopf.zalando.org/last-handled-configuration": "{"}}}))
dsta.fetch(body=garbage)
dann.store(body=body, patch=patch, essence={"spec": {"a": 1.0, "b": "кир\U0001f600"}}); result = patch
dann.store(body=rs, patch=patch, essence={}); result = patch
down.store(body=body, patch=patch, essence={"spec": {}}); result = patch
dsta.store(body=body, patch=patch, essence={"spec": {}}); result = patch
dmulti.store(body=body, patch=patch, essence={"spec": {}}); result = patch
kopf.AnnotationsDiffBaseStorage(prefix="p" * 50, key="k" * 64).store(body=empty, patch=patch, essence={}); result = patch
"""

EXPRESSIONS = [
    line for text in (KEYS, PROGRESS, DIFFBASE) for line in text.strip().splitlines()
]
