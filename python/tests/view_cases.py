"""Operations on the objects that handlers receive, as expressions.

Each expression is evaluated with new objects. Several statements are separated by semicolons and set
``result``.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import functools
import json
import pickle
import types
from typing import Any

import pydantic
import yaml

import kopf
from kopf._cogs.configs import arrays
from kopf._cogs.structs import bodies, dicts, diffs, ephemera, patches, references
from kopf._core.engines import indexing
from kopf._core.intents import causes


class Model(pydantic.BaseModel):
    field: str = ""
    nested: dict[str, Any] = {}
    items: list[Any] = []


class Wide(pydantic.BaseModel):
    spec: Model


@dataclasses.dataclass
class Data:
    field: str
    nested: dict[str, Any]
    items: list[Any]


def noop(*_: Any, **__: Any) -> None:
    pass


def prefix_labels(body: Any) -> None:
    body.setdefault("metadata", {}).setdefault("labels", {})["x"] = "y"
    body["spec"]["items"].append(3)


def namespace() -> dict[str, Any]:
    """Returns the names that expressions use."""
    raw = {
        "apiVersion": "kopf.dev/v1",
        "kind": "KopfExample",
        "metadata": {
            "name": "name1", "namespace": "ns1", "uid": "uid1",
            "labels": {"a": "b"}, "annotations": {"c": "d"},
            "creationTimestamp": "2020-01-01T00:00:00Z",
            "finalizers": ["f1"],
        },
        "spec": {"field": "value", "nested": {"x": {"y": [1, 2]}}, "items": [1, {"z": None}]},
        "status": {},
    }
    body = kopf.Body(raw)  # type: ignore[arg-type]
    old = {"a": 1, "b": {"c": 2}, "z": 0, "same": [1]}
    new = {"a": 2, "b": {"c": 3}, "same": [1], "q": [1]}
    return {
        **globals(),
        "raw": raw, "body": body, "spec": body.spec, "meta": body.meta, "status": body.status,
        "labels": body.meta.labels, "empty": kopf.Body({}), "patch": kopf.Patch(),
        "full": kopf.Patch({"metadata": {"labels": {"a": "b"}}, "spec": {"f": 1}}),
        "diff": diffs.diff(old, new), "memo": kopf.Memo(a=1),
        "resource": kopf.Resource(
            "kopf.dev", "v1", "kopfexamples", kind="KopfExample", singular="kopfexample",
            shortcuts=frozenset({"kex"}), categories=frozenset({"all"}), namespaced=True),
        "node": kopf.Resource("", "v1", "nodes", kind="Node", namespaced=False),
        "events": kopf.Resource("", "v1", "events", kind="Event", namespaced=True),
    }


VIEWS = r"""
repr(body)
str(spec)
repr(meta)
repr(status)
repr(labels)
f"{spec}"
"%s" % (labels,)
dict(body)
dict(spec)
dict(labels)
{**spec}
dict(**spec)
noop(**spec)
list(spec)
sorted(meta)
list(spec.keys())
list(spec.values())
list(spec.items())
len(body), len(spec), len(status), len(empty.spec)
bool(body), bool(status), bool(empty), bool(empty.spec)
"field" in spec
"none" in spec
None in spec
"spec" in body
spec["field"]
spec["none"]
spec.get("none")
spec.get("none", 1)
spec.get("nested", {}).get("x", {}).get("y")
spec["nested"]["x"]["y"][0]
spec.field
body.none
body.spec is body.spec
body.meta is body.metadata
meta.labels is meta.labels
spec == raw["spec"]
raw["spec"] == spec
spec != raw["spec"]
spec == {}
spec == body.spec
body == raw
body == kopf.Body(raw)
spec == "str"
spec == None
hash(spec)
hash(body)
{spec: 1}
spec | {}
{} | spec
spec.copy()
spec.pop("field")
spec.update(x=1)
spec.setdefault("x", 1)
spec["x"] = 1; result = None
del spec["field"]; result = None
body["spec"]["field"] = "z"; result = spec["field"]
spec["items"].append(2); result = raw["spec"]["items"]
spec["nested"]["x"]["y"][0] = 5; result = body
body.spec = {}; result = None
raw["spec"] = {"a": 1}; result = dict(spec)
raw["metadata"]["labels"]["q"] = "w"; result = (dict(labels), dict(meta.labels))
del raw["spec"]; result = (dict(spec), spec.get("field"))
type(spec["nested"]), type(spec["items"])
isinstance(spec, dict), isinstance(body, dict)
isinstance(spec, __import__("collections.abc").abc.Mapping)
isinstance(spec, __import__("collections.abc").abc.MutableMapping)
json.dumps(spec)
json.dumps(dict(spec))
json.dumps(body)
json.dumps(dict(body), sort_keys=True)
yaml.safe_dump(spec)
yaml.safe_dump(dict(spec))
copy.copy(spec)
copy.deepcopy(spec)
copy.deepcopy(body) == body
type(copy.deepcopy(spec)).__name__, type(copy.deepcopy(body)).__name__
copy.deepcopy(body).spec["nested"] is raw["spec"]["nested"]
copy.copy(body).spec["nested"] is raw["spec"]["nested"]
copy.deepcopy(body).meta.labels
pickle.loads(pickle.dumps(spec))
pickle.loads(pickle.dumps(body)).meta.labels
pickle.loads(pickle.dumps(labels))
type(pickle.loads(pickle.dumps(meta))).__name__
pickle.loads(pickle.dumps(meta)).name
match spec:\n case {"field": str(f), **rest}: result = (f, sorted(rest))
match body:\n case {"metadata": {"name": n}, "spec": {"nested": {"x": {"y": [a, *_]}}}}: result = (n, a)
match status:\n case {"field": _}: result = 1\n case {}: result = 2
Model(**spec)
Model.model_validate(spec)
Model.model_validate(dict(spec)).model_dump()
Wide.model_validate(body)
Model(field=spec["field"], items=spec["items"])
Data(**spec)
dataclasses.replace(Data(**spec), field="x")
meta.name, meta.namespace, meta.uid
meta.creation_timestamp, meta.deletion_timestamp
meta["name"], meta.get("generateName")
meta.annotations, meta.labels
empty.meta.name, empty.meta.namespace, empty.meta.uid
empty.meta.labels, empty.meta.annotations
dict(empty.meta), dict(empty.status)
empty.spec["x"]
empty.meta.labels["x"]
empty.meta.labels.get("x")
kopf.Body(body)
kopf.Body(body).spec
kopf.Body(body) == body
kopf.Body({"spec": None}).spec
dict(kopf.Body({"spec": None}).spec)
kopf.Body({"metadata": {"labels": None}}).meta.labels.get("a")
kopf.Body({"spec": "str"}).spec
list(kopf.Body({"spec": "str"}).spec)
kopf.Body({"spec": ["a"]}).spec["a"]
kopf.Body(None).spec
kopf.Body(src={})
kopf.build_object_reference(body)
kopf.build_owner_reference(body)
kopf.build_owner_reference(body, controller=False, block_owner_deletion=None)
kopf.build_object_reference(empty)
kopf.build_owner_reference(empty)
kopf.build_object_reference(raw)
{k: v for k, v in spec.items() if k == "field"}
[*spec]
dict(spec, extra=1)
set(spec) & {"field"}
spec.keys() & {"field"}
spec.items() >= {("field", "value")}
max(spec, key=len)
any(spec), all(status)
"{field}".format(**spec)
"{field}".format_map(spec)
iter(spec).__class__.__name__ != ""
reversed(spec)
sorted(spec.items(), key=lambda kv: kv[0])[0]
spec < {}
spec + {}
functools.reduce(lambda a, k: a.get(k, {}), ["nested", "x"], spec)
json.loads(json.dumps({"spec": dict(spec)}))["spec"] == spec
dicts.MappingView({"a": {"b": {"c": 1}}}, "a.b")
dicts.MappingView({"a": {"b": {"c": 1}}}, "a.b")["c"]
dicts.MappingView({"a": {}}, ["a", "b"])
dicts.MutableMappingView({"a": {}}, "a.b")
"""

PATCHES = """
patch
repr(patch), str(patch)
bool(patch), bool(full)
bool(kopf.Patch({"a": None}))
bool(kopf.Patch({"status": {}}))
bool(kopf.Patch(fns=[noop]))
len(patch)
patch == {}
isinstance(patch, dict)
json.dumps(full)
dict(full)
patch.spec["a"] = 1; result = patch
patch.spec.update(a=1, b=2); result = patch
patch.status["fn"] = {"x": 1}; result = patch
patch.status["a"]["b"] = 1; result = patch
patch.status.setdefault("a", {})["b"] = 1; result = patch
patch.status.get("a"); result = patch
patch.metadata.labels["a"] = None; result = patch
patch.meta.annotations["a/b"] = "c"; result = patch
patch.metadata["finalizers"] = []; result = patch
patch.metadata.annotations.update({"a": "b"}); result = patch
patch["spec"] = {"a": 1}; result = (patch.spec["a"], dict(patch.spec))
patch["status"] = {"x": {"y": 1}}; patch.status["z"] = 2; result = patch
patch.spec["a"] = {}; patch.spec["a"]["b"] = 1; result = patch
patch["spec"] = None; patch.spec["a"] = 1; result = patch
patch.update({"spec": {"x": 1}}); result = patch
patch.setdefault("spec", {})["x"] = 1; result = (patch, patch.spec)
patch.spec, patch.meta, patch.metadata, patch.status
patch.meta.labels, patch.meta.annotations
patch.spec["a"]
patch.spec.get("a")
del patch.spec["a"]; result = patch
del full.spec["f"]; result = full
del full["spec"]; result = (full, full.spec)
del full.metadata.labels["a"]; result = full
full.spec.pop("f"); result = full
full.spec.clear(); result = full
full.clear(); result = full
patch.fns.append(noop); full.clear(); patch.clear(); result = (patch, patch.fns)
"f" in full.spec, len(full.spec), list(full.meta)
full.spec == {"f": 1}
full.spec is full.spec
full.meta is full.metadata
patch.none
patch.spec.a = 1; result = patch
patch.fns
patch.foreign = 1; result = (patch, patch.foreign)
body.foreign = 1; result = body.foreign
patch.status = {}; result = patch
patch.fns.append(noop); result = (patch, len(patch), bool(patch))
kopf.Patch({"a": 1}, fns=[noop])
kopf.Patch(kopf.Patch({"a": 1}, fns=[noop])).fns
kopf.Patch({"a": 1}) == {"a": 1}
kopf.Patch({"a": 1}) == kopf.Patch({"a": 1}, fns=[noop])
kopf.Patch({"a": 1}) != kopf.Patch({"a": 2})
kopf.Patch(a=1)
kopf.Patch([("a", 1)])
kopf.Patch({"a": 1}, body=body)
hash(patch)
full | {"x": 1}
type(full | {}).__name__
full.copy()
type(full.copy()).__name__
copy.copy(full), type(copy.copy(full)).__name__
copy.deepcopy(full) == full, copy.deepcopy(full)["spec"] is full["spec"]
copy.deepcopy(full).spec["f"]
copy.copy(kopf.Patch({"a": 1}, fns=[noop])).fns
pickle.loads(pickle.dumps(full)), pickle.loads(pickle.dumps(full)).spec
pickle.loads(pickle.dumps(kopf.Patch({}, fns=[noop]))).fns
dict(**full)
yaml.safe_dump(dict(full))
kopf.Patch({"a": 1}).as_json_patch()
kopf.Patch({}).as_json_patch()
kopf.Patch({}, body=body).as_json_patch()
kopf.Patch({"a": 1}).as_json_patch({})
kopf.Patch({"a": 1}).as_json_patch({"a": 2})
kopf.Patch({"a": 1}).as_json_patch({"a": 1})
kopf.Patch({"a": None}).as_json_patch({"a": 2})
kopf.Patch({"a": None}).as_json_patch({})
kopf.Patch({"a": {"b": None}}).as_json_patch({"a": {"b": 1}})
kopf.Patch({"a": {"b": None}}).as_json_patch({"a": {"b": 1, "c": 2}})
kopf.Patch({"a": {"b": {}}}).as_json_patch({"x": 1})
kopf.Patch({"a": {"b": {}}}).as_json_patch({"a": {"b": {"c": 1}}})
kopf.Patch({"a": {"b~/c": 1}}).as_json_patch({"a": {}})
kopf.Patch({"a": [1, 2, 3]}).as_json_patch({"a": [1, 5, 3, 7]})
kopf.Patch({"a": [1, 2]}).as_json_patch({})
kopf.Patch({"a": {"b": 1}}).as_json_patch({"a": "s"})
kopf.Patch({"a": "s"}).as_json_patch({"a": {"b": 1}})
kopf.Patch({"spec": {"field": "x"}}, body=body).as_json_patch()
kopf.Patch({"spec": {"field": None}}).as_json_patch(body)
kopf.Patch(fns=[prefix_labels]).as_json_patch(body)
kopf.Patch(fns=[prefix_labels]).as_json_patch(body); result = raw["spec"]["items"]
patch.nested.x = 1; result = patch
"""

MEMOS = """
memo
memo.a
memo["a"]
memo.b
memo["b"]
memo.b = 2; result = memo
memo["b"] = 2; result = memo.b
del memo.a; result = memo
del memo.b; result = memo
hasattr(memo, "a"), hasattr(memo, "b")
getattr(memo, "b", 5)
memo.setdefault("x", []).append(1); result = memo.x
memo == {"a": 1}
isinstance(memo, dict)
dict(memo), {**memo}
copy.copy(memo), type(copy.copy(memo)).__name__
copy.deepcopy(memo)
pickle.loads(pickle.dumps(memo)).a
kopf.Memo({"x": 1}).x
kopf.Memo([("x", 1)]).x
kopf.Memo()
kopf.Memo(items=1).items
json.dumps(memo)
memo | {"b": 2}
type(memo | {}).__name__
memo.keys()
"""

DIFFS = """
sorted(diff)
diff == tuple(diff)
diff == list(diff)
tuple(diff) == diff
diff != tuple(diff)
diff == [tuple(item) for item in diff]
diff == "str"
diff == ()
len(diff), bool(diff), bool(diffs.EMPTY)
diffs.EMPTY
diff[0]
diff[0:1]
type(diff[0:1]).__name__
diff[99]
diff + diff
diff + ()
[op for op, field, old, new in diff][0]
diff[0].op, diff[0].operation, diff[0].field, diff[0].old, diff[0].new
diff[0]._asdict()
isinstance(diff[0], tuple), isinstance(diff, tuple)
diff[0] == ("add", ("q",), None, [1])
diff[0] == ("add",)
diff[0] == ["add", ("q",), None, [1]], ["add", ("q",), None, [1]] == diff[0]
diff[0] != ["add", ("q",), None, [1]], diff[0] == "add", diff[0] == 1
kopf.Diff([["add", ["a", "b"], None, 1]]) == [["add", ["a", "b"], None, 1]]
diffs.reduce(kopf.Diff([["add", ["a", "b"], None, 1]]), ("a",))
dicts.resolve_obj(types.SimpleNamespace(a=types.SimpleNamespace(b=1)), "a.b")
dicts.resolve_obj(types.SimpleNamespace(a=1), "b", default=5)
list(dicts.walk([types.SimpleNamespace(a=1)], nested=["a"]))
str(diff[0]), repr(diff[0])
("add", ("q",), None, [1]) in diff
diff.index(diff[1]), diff.count(diff[1])
hash(diffs.diff({"a": 1}, {"a": 2})) == hash(diffs.diff({"a": 1}, {"a": 2}))
hash(diff)
hash(diff[0])
json.dumps(diff)
json.dumps(list(diffs.diff({"a": 1}, {"a": 2})))
copy.deepcopy(diff) == diff
pickle.loads(pickle.dumps(diff)) == diff
kopf.Diff(diff) == diff
kopf.Diff([("add", ("a",), None, 1)])
kopf.DiffItem("add", ("a",), None, 1)
kopf.DiffItem(kopf.DiffOperation.ADD, ("a",), None, 1).op is kopf.DiffOperation.ADD
kopf.DiffOperation.ADD, str(kopf.DiffOperation.ADD), f"{kopf.DiffOperation.ADD}"
kopf.DiffOperation.ADD == "add", kopf.DiffOperation("add"), kopf.DiffOperation.ADD.upper()
list(kopf.DiffOperation)
kopf.Reason.CREATE, str(kopf.Reason.CREATE), f"{kopf.Reason.CREATE}"
kopf.Reason.CREATE == "create", kopf.Reason("create"), kopf.Reason.CREATE.lower()
json.dumps(kopf.Reason.CREATE)
diffs.diff(1, 1)
diffs.diff(None, None)
diffs.diff(1, 2)
diffs.diff(1, 2, ("p",))
diffs.diff(None, {"a": 1})
diffs.diff({"a": 1}, None)
diffs.diff({"a": 1}, {"a": None})
diffs.diff({"a": None}, {})
diffs.diff({"a": {}}, {})
diffs.diff({"a": 1}, {"a": 1.0})
diffs.diff({"a": 1}, {"a": True})
diffs.diff({"a": [1]}, {"a": [1, 2]})
diffs.diff({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 2}}})
diffs.diff({"a": 1}, {"a": {"b": 1}})
diffs.diff({"a": 1, "b": 1}, {"a": 2, "c": 1}, scope=diffs.DiffScope.LEFT)
diffs.diff({"a": 1, "b": 1}, {"a": 2, "c": 1}, scope=diffs.DiffScope.RIGHT)
sorted(diffs.reduce(diff, ("b",)))
diffs.reduce(diff, ("b", "c"))
diffs.reduce(diff, ("q", "x"))
diffs.reduce(diff, ()) == diff
diffs.reduce(diff, ("none",))
diffs.reduce(diffs.diff(None, {"a": {"b": 1}}), ("a", "b"))
diffs.reduce(diffs.diff({"a": {"b": 1}}, None), ("a", "b"))
diffs.reduce(diffs.diff({"a": {"b": 1}}, {"a": 5}), ("a", "b"))
"""

DICTS = """
dicts.parse_field(None)
dicts.parse_field("a.b")
dicts.parse_field("")
dicts.parse_field(["a", "b.c"])
dicts.parse_field(("a",))
dicts.parse_field(1)
dicts.parse_field({"a": 1})
dicts.resolve({"a": {"b": 1}}, "a.b")
dicts.resolve({"a": {"b": 1}}, "a.b.c")
dicts.resolve({"a": {"b": 1}}, "a.b.c", None)
dicts.resolve({"a": {"b": 1}}, "a.x")
dicts.resolve({"a": {"b": 1}}, "a.x", "d")
dicts.resolve(None, "a", "d")
dicts.resolve(None, "a")
dicts.resolve({}, None)
dicts.resolve({"a": None}, "a.b", "d")
dicts.resolve({"a": None}, "a.b")
dicts.resolve({"a": None}, "a", "d")
dicts.resolve({"a": [1]}, "a.0", "d")
d = {}; dicts.ensure(d, "a.b", 1); result = d
d = {"a": {"x": 1}}; dicts.ensure(d, ["a", "b.c"], 1); result = d
dicts.ensure({}, None, 1)
dicts.ensure({"a": 1}, "a.b", 1)
dicts.ensure({"a": None}, "a.b", 1)
d = {"a": {"b": 1}}; dicts.remove(d, "a.b"); result = d
d = {"a": {"b": 1, "c": {}}}; dicts.remove(d, "a.b"); result = d
d = {"a": {"b": {"c": 1}}, "x": 1}; dicts.remove(d, "a.b.c"); result = d
d = {"a": {}}; dicts.remove(d, "a.b"); result = d
d = {}; dicts.remove(d, "a.b.c"); result = d
d = {"a": {}}; dicts.remove(d, "a.b.c"); result = d
d = {"a": {"x": 1}}; dicts.remove(d, "a.b.c"); result = d
d = {"a": 5}; dicts.remove(d, "a.b.c"); result = d
dicts.remove({"a": 1}, "a.b")
dicts.remove({"a": None}, "a.b")
dicts.remove({"a": 1}, None)
d = {}; dicts.cherrypick({"a": {"b": 1}, "c": 2}, d, ["a.b", "x.y"]); result = d
d = {}; dicts.cherrypick({"a": 1}, d, ["a.b"]); result = d
d = {}; dicts.cherrypick({"a": 1}, d, None); result = d
list(dicts.walk(None))
list(dicts.walk({"a": 1}))
list(dicts.walk([{"a": 1}, [{"b": 2}, ({"c": 3},)]]))
list(dicts.walk(5))
list(dicts.walk([{"spec": {"t": {"x": 1}}}], nested=["spec.t", "spec.q"]))
"""

REFERENCES = """
resource, str(resource), repr(node)
list(resource)
resource == kopf.Resource("kopf.dev", "v1", "kopfexamples")
resource != node
hash(resource) == hash(kopf.Resource("kopf.dev", "v1", "kopfexamples"))
resource == ("kopf.dev", "v1", "kopfexamples")
{resource: 1}[kopf.Resource("kopf.dev", "v1", "kopfexamples")]
resource.group, resource.version, resource.plural, resource.kind, resource.namespaced
resource.plural = "x"; result = None
resource.none
kopf.Resource("g", "v")
copy.deepcopy(resource) == resource
pickle.loads(pickle.dumps(resource)).kind
dataclasses.replace(resource, version="v2")
dataclasses.asdict(node)
resource.get_url()
resource.get_url(namespace="n")
resource.get_url(namespace="n", name="x")
resource.get_url(namespace="n", name="x", subresource="status", params={"a": "b c"})
resource.get_url(name="x")
resource.get_url(server="http://s/", namespace="n")
resource.get_url(server="http://s", params={"watch": "true", "x": "/"})
resource.get_url(subresource="status")
node.get_url(), node.get_url(name="x")
node.get_url(namespace="n")
references.Selector("a")
references.Selector("a", "b")
references.Selector("a/v1", "b")
references.Selector("v1", "b")
references.Selector("a", "v1", "b")
references.Selector("pods.v1")
references.Selector("pods.v1.g.tld")
references.Selector("pods.v1beta1.g.tld")
references.Selector("pods.g.tld")
references.Selector("pods.v1x")
references.Selector(kopf.EVERYTHING)
references.Selector("g", kopf.EVERYTHING)
references.Selector("g", "v1", kopf.EVERYTHING)
references.Selector()
references.Selector("a", "b", "c", "d")
references.Selector("a", kind="b")
references.Selector(kind="b", plural="c")
references.Selector(kind="")
references.Selector("")
references.Selector("a", group="g")
references.Selector(group="g")
references.Selector(category="c")
references.Selector(noop)
references.Selector(noop, group="g")
references.Selector(noop, "x")
references.Selector(noop, kind="K")
references.Selector("", "v1", "pods")
references.Selector("", "pods")
references.Selector(kopf.EVERYTHING, kind="K")
[references.Selector(*a).is_specific for a in [("a",), (kopf.EVERYTHING,), (noop,)]]
references.Selector(category="c").is_specific
references.Selector("a") == references.Selector("a")
hash(references.Selector("a")) == hash(references.Selector("a"))
[references.Selector(n).check(resource) for n in ["kopfexamples", "kopfexample", "KopfExample", "kex", "all", "x"]]
references.Selector(category="all").check(resource)
references.Selector("kopf.dev", "v2", "kopfexamples").check(resource)
references.Selector("kopfexamples.kopf.dev").check(resource)
references.Selector("kopfexamples.v1").check(resource)
references.Selector("kopfexamples").check(dataclasses.replace(resource, preferred=False))
references.Selector("kopf.dev", "v1", "kopfexamples").check(dataclasses.replace(resource, preferred=False))
references.Selector(lambda r: True).check(dataclasses.replace(resource, preferred=False))
references.Selector(kopf.EVERYTHING).check(events)
references.Selector("events").check(events)
references.Selector(lambda r: True).check(events)
references.Selector("nodes").select([node, kopf.Resource("metrics", "v1", "nodes")])
references.Selector("kopfexamples").select([node, resource])
references.match_namespace("ns", "n*"), references.match_namespace("ns", "!n*")
references.match_namespace("ns", "*,!n*"), references.match_namespace("ns", "!a*, n?")
references.match_namespace("ns", "a*, ns"), references.match_namespace("myns", __import__("re").compile("ns"))
sorted(references.select_specific_namespaces(["a", "b*", "c,d"]))
kopf.EVERYTHING, str(kopf.EVERYTHING)
kopf.PRESENT, kopf.ABSENT
m = arrays.SelectorMapping(); m["pods"] = "a"; m["g", "p"] = "b"; result = m
m = arrays.SelectorMapping(); m["nodes"] = "a"; m[kopf.EVERYTHING] = "b"; result = m.collect(node)
arrays.SelectorMapping()["x"]
arrays.SelectorMapping()[5]
"x" in arrays.SelectorMapping()
"""

OTHERS = """
kopf.HandlerId("x"), type(kopf.HandlerId("x")).__name__
kopf.RawEventType, kopf.Operation
kopf.TemporaryError().delay, str(kopf.TemporaryError())
kopf.TemporaryError("a", delay=1), kopf.TemporaryError("a", 1).delay
kopf.TemporaryError("a").args, kopf.TemporaryError(delay=None).args
kopf.TemporaryError(msg="a")
copy.copy(kopf.TemporaryError("a", delay=5)).delay
pickle.loads(pickle.dumps(kopf.TemporaryError("a", delay=5))).delay
kopf.PermanentError("a"), str(kopf.PermanentError())
kopf.AdmissionError(), kopf.AdmissionError().code, str(kopf.AdmissionError("m", 3))
kopf.AdmissionError("m", code=3).code, kopf.AdmissionError(message="x", code=None).code
pickle.loads(pickle.dumps(kopf.AdmissionError("a", code=5))).code
issubclass(kopf.AdmissionError, kopf.PermanentError)
issubclass(kopf.HandlerTimeoutError, kopf.PermanentError)
issubclass(kopf.HandlerRetriesError, kopf.PermanentError)
issubclass(kopf.TemporaryError, kopf.PermanentError)
kopf.ErrorsMode.IGNORED, list(kopf.ErrorsMode)
kopf.DaemonStoppingReason.DONE, kopf.DaemonStoppingReason(3)
kopf.DaemonStoppingReason.DONE | kopf.DaemonStoppingReason.RESOURCE_DELETED
kopf.DaemonStoppingReason.DONE in kopf.DaemonStoppingReason(5)
bool(kopf.DaemonStoppingReason(0))
kopf.lifecycles.one_by_one([1, 2])
kopf.lifecycles.all_at_once([1, 2])
kopf.lifecycles.one_by_one([])
kopf.lifecycles.randomized([])
kopf.lifecycles.randomized([1])
kopf.lifecycles.shuffled([1])
sorted(kopf.lifecycles.shuffled([1, 2, 3]))
kopf.lifecycles.asap([], state={})
kopf.not_(lambda **_: True)(), kopf.not_(lambda **_: 0)()
kopf.not_(lambda v, **_: v > 1)(1, x=1)
kopf.all_([])(), kopf.any_([])(), kopf.none_([])()
kopf.all_([lambda **_: 1, lambda **_: 0])()
kopf.any_([lambda **_: 1, lambda **_: 0])()
kopf.none_([lambda **_: 0, lambda **_: 0])()
kopf.ConnectionInfo(server="x")
kopf.ConnectionInfo("x")
kopf.ConnectionInfo(server="x", ca_path="a", ca_data="b")
kopf.ConnectionInfo(server="x", certificate_path="a", certificate_data="b")
kopf.ConnectionInfo(server="x", private_key_path="a", private_key_data="b")
kopf.ConnectionInfo(server="x", token="t").as_http_headers()
kopf.ConnectionInfo(server="x", token="t", scheme="S").as_http_headers()
kopf.ConnectionInfo(server="x", scheme="S").as_http_headers()
kopf.ConnectionInfo(server="x", username="u", password="p").as_http_headers()
kopf.ConnectionInfo(server="x", username="u").as_http_headers()
kopf.ConnectionInfo(server="x").as_http_headers()
kopf.ConnectionInfo(server="x", username="u", password="p").as_aiohttp_basic_auth()
kopf.ConnectionInfo(server="x", insecure=True).as_ssl_context().verify_mode
kopf.ConnectionInfo(server="x") == kopf.ConnectionInfo(server="x")
kopf.ConnectionInfo(server="x").server = "y"; result = None
kopf.ConnectionInfo(server="x", expiration=datetime.datetime(2020, 1, 1)).expiration
s = kopf.OperatorSettings(); result = s.batching is s.queueing
s = kopf.OperatorSettings(); s.batching.idle_timeout = 3; result = s.queueing.idle_timeout
s = kopf.OperatorSettings(); s.batching = 1; result = None
s = kopf.OperatorSettings(); s.posting.level = 40; result = s.posting.level
s = kopf.OperatorSettings(); s.execution.max_workers = 0; result = None
s = kopf.OperatorSettings(); s.execution.max_workers = 5; result = s.execution.executor._max_workers
s = kopf.OperatorSettings(); s.execution.executor = object(); s.execution.max_workers = 5; result = None
s = kopf.OperatorSettings(); s.peering.namespaced = True; result = s.peering.clusterwide
s = kopf.OperatorSettings(); s.queueing.batch_window = 1; result = s.queueing.batch_window
s = kopf.OperatorSettings(); s.posting.unknown = 1; result = s.posting.unknown
repr(kopf.OperatorSettings().peering)
repr(kopf.OperatorSettings().watching)
repr(kopf.OperatorSettings().queueing)
repr(kopf.OperatorSettings().networking)
repr(kopf.OperatorSettings().process), repr(kopf.OperatorSettings().scanning)
repr(kopf.OperatorSettings().admission), repr(kopf.OperatorSettings().background)
"progress_storage=" in repr(kopf.OperatorSettings())
dataclasses.asdict(kopf.OperatorSettings().peering)
kopf.OperatorSettings().peering == kopf.OperatorSettings().peering
indexing.OperatorIndexers()
dict(indexing.OperatorIndexers().indices)
i = indexing.OperatorIndexer(); i.replace(("n", "a", "u"), {"k": 1, "l": 2}); result = i
i = indexing.OperatorIndexer(); i.replace(("n", "a", "u"), {"k": 1, "l": 2}); i.replace(("n", "a", "u"), {"k": 3}); result = i
i = indexing.OperatorIndexer(); i.replace(("n", "a", "u"), 5); result = i
i = indexing.OperatorIndexer(); i.replace(("n", "a", "u"), {}); result = (i, bool(i.index), len(i.index))
i = indexing.OperatorIndexer(); i.replace(("n", "a", "u"), {"k": None}); result = i
i = indexing.OperatorIndexer(); i.replace(("n", "a", "u"), {"k": 1}); i.replace(("n", "b", "v"), {"k": 2}); x = i.index; result = (x, list(x), list(x["k"]), len(x["k"]), 1 in x["k"], 5 in x["k"], "k" in x, "q" in x, bool(x))
i = indexing.OperatorIndexer(); i.replace(("n", "a", "u"), {"k": 1}); i.replace(("n", "b", "v"), {"k": 2}); i.discard(("n", "a", "u")); result = i
i = indexing.OperatorIndexer(); i.replace(("n", "a", "u"), {"k": 1}); i.discard(("n", "a", "u")); i.discard(("n", "x", "y")); result = (i, len(i.index))
indexing.OperatorIndexer().index["k"]
indexing.OperatorIndexer().index.get("k", [])
indexing.OperatorIndexers().make_key(body)
indexing.OperatorIndexers().make_key(empty)
causes.Activity.STARTUP, str(causes.Activity.STARTUP)
causes.WebhookType.VALIDATING, str(causes.WebhookType.VALIDATING)
causes.TITLES, causes.HANDLER_REASONS, causes.ALL_REASONS
patches.Patch is kopf.Patch, bodies.Body is kopf.Body, ephemera.Memo is kopf.Memo
"""

GROUPS = {
    "views": VIEWS, "patches": PATCHES, "memos": MEMOS, "diffs": DIFFS, "dicts": DICTS,
    "references": REFERENCES, "others": OTHERS,
}
EXPRESSIONS = [
    line.replace("\\n", "\n")
    for text in GROUPS.values()
    for line in text.strip().splitlines()
]
