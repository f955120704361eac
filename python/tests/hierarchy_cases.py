"""Operations on hierarchies of objects, as expressions. ``run`` returns the changed object."""

from __future__ import annotations

import copy
from typing import Any

import kopf

try:
    import kubernetes.client as kc
    import pykube
except ImportError:  # The cases of client libraries are skipped.
    kc = pykube = None

OWNER = kopf.Body({
    "apiVersion": "kopf.dev/v1", "kind": "KopfExample",
    "metadata": {"name": "own", "namespace": "ns", "uid": "u", "labels": {"a": "b", "c": "d"}},
})
CLUSTER = kopf.Body({"apiVersion": "v1", "kind": "K", "metadata": {"name": "own2", "uid": "u2"}})


def run(fn: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
    obj = copy.deepcopy(obj)
    fn(obj, *args, **kwargs)
    return show(obj)


def show(obj: Any) -> Any:
    if isinstance(obj, list):
        return [show(item) for item in obj]
    if pykube is not None and isinstance(obj, pykube.objects.APIObject):
        return obj.obj
    if kc is not None and hasattr(type(obj), "attribute_map"):
        content = kc.ApiClient().sanitize_for_serialization(obj)
        return {key: content[key] for key in sorted(content)}
    return obj


def namespace() -> dict[str, Any]:
    return {**vars(kopf), **globals(), "O": OWNER, "C": CLUSTER}


NAMED = '{"metadata": {"name": "x"}}'
OBJECTS = [
    "{}", NAMED, '{"metadata": {"generateName": "x-"}}', '{"metadata": {"name": None}}',
    '{"metadata": {"name": "x", "generateName": "y-", "namespace": "other"}}',
    '{"metadata": {"namespace": None, "labels": {"a": "x", "z": "1"}}}',
    '{"metadata": {"ownerReferences": [{"uid": "u", "kind": "Z"}, {"uid": "w"}]}}',
    '{"metadata": {"ownerReferences": [{"uid": "w", "controller": True}], "labels": {}}}',
    '{"spec": {"template": {"metadata": {"labels": {"a": "y"}}}, "other": {}}}',
    '[{}, [{"metadata": {}}]]',
]
CALLS = [
    "harmonize_naming, {}, 'own'",
    "harmonize_naming, {}, 'own', forced=True",
    "harmonize_naming, {}, 'own', strict=True",
    "harmonize_naming, {}, 'own', forced=True, strict=True",
    "adjust_namespace, {}, 'ns'",
    "adjust_namespace, {}, 'ns', forced=True",
    "adjust_namespace, {}, None, forced=True",
    "label, {}, {{'a': 'b', 'e': None}}",
    "label, {}, {{'a': 'b'}}, forced=True",
    "label, {}, {{'a': 'b'}}, nested='spec.template'",
    "label, {}, {{'a': 'b'}}, nested=['spec.template', ('spec', 'other')], forced=True",
    "append_owner_reference, {}, O",
    "append_owner_reference, {}, O, controller=False, block_owner_deletion=None",
    "remove_owner_reference, {}, O",
    "adopt, {}, O",
    "adopt, {}, C",
    "adopt, {}, O, forced=True",
    "adopt, {}, O, strict=True, forced=True",
    "adopt, {}, O, nested='spec.template'",
]
SPECIAL = [
    "run(label, {}, {'a': 'b'}, force=True)",
    "run(label, {'spec': {'template': [{}]}}, {'a': 'b'}, nested='spec.template')",
    "run(label, {'spec': 5}, {'a': 'b'}, nested='spec.template')",
    "run(label, {}, None)",
    "run(harmonize_naming, {}, None)",
    "run(adopt, {}, {'metadata': {'name': 'z'}})",
    "run(adopt, 5, O)",
    "run(adopt, None, O)",
    "run(adopt, [], O)",
    "run(adopt, object(), O)",
    "run(adopt, {})",
    "run(append_owner_reference, {})",
    "run(remove_owner_reference, {})",
    "run(label, {})",
    "run(adjust_namespace, {})",
    "run(harmonize_naming, {})",
    "kopf.adopt is adopt and adopt({}, owner=O)",
]
MODELS = [
    "kc.V1Pod()",
    "kc.V1Pod(metadata=kc.V1ObjectMeta(name='n', labels={'a': 'x'}))",
    "kc.V1Deployment(spec=kc.V1DeploymentSpec(selector={}, template=kc.V1PodTemplateSpec()))",
    "[kc.V1Pod(), {}]",
    "pykube.Pod(None, {'metadata': {'name': 'n'}})",
    "pykube.Pod(None, {'spec': {'template': {}}})",
    "[pykube.Pod(None, {}), {}]",
]
EXPRESSIONS = [f"run({call.format(obj)})" for obj in OBJECTS for call in CALLS] + SPECIAL + [
    f"run({call.format(obj)})" for obj in MODELS for call in CALLS
]
