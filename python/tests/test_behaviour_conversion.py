"""Conversions between versions of a resource."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

import kopf
from behaviour import CRD, PLURAL, Stage, until
from kopf import testing
from kopf._front.declare import registries
from kopf._front.tools.clients import ClusterError

pytestmark = pytest.mark.native

CRDS = "customresourcedefinitions.apiextensions.k8s.io"


@pytest.fixture
def versioned(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A separate cluster with two versions of the resource."""
    crd: Any = copy.deepcopy(CRD)
    old = copy.deepcopy(crd["spec"]["versions"][0])
    crd["spec"]["versions"].append({**old, "name": "v1beta1", "storage": False})
    with testing.sandbox(crd) as cluster:
        monkeypatch.setenv("KUBECONFIG", cluster.kubeconfig)
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        former = registries._default_registry
        kopf.set_default_registry(registries.SmartOperatorRegistry())
        try:
            yield Stage(cluster)
        finally:
            registries._default_registry = former


def serve(stage: Stage) -> Any:
    settings = kopf.OperatorSettings()
    settings.admission.server = kopf.WebhookServer(host="localhost")
    settings.admission.managed = "test.kopf.dev"
    return stage.operator(settings=settings)


def conversion(stage: Stage) -> Any:
    return stage.cluster.get(CRDS, PLURAL)["spec"]["conversion"]


def test_objects_are_converted(versioned: Stage) -> None:
    stage = versioned

    @kopf.on.convert("kopfexamples", source="v1beta1", target="v1")
    def upgrade(body: Any, **_: Any) -> Any:
        return {**body, "spec": {"size": body["spec"]["legacySize"]}}

    @kopf.on.convert("kopfexamples", source="v1", target="v1beta1")
    async def downgrade(spec: Any, patch: Any, **_: Any) -> None:
        patch.spec["legacySize"] = spec["size"]
        patch.spec["size"] = None

    with serve(stage):
        until(lambda: conversion(stage)["strategy"] == "Webhook", "the webhook")
        stage.cluster.create({
            "apiVersion": "kopf.dev/v1beta1", "kind": "KopfExample",
            "metadata": {"name": "old"}, "spec": {"legacySize": "big"},
        })
        path = "/apis/kopf.dev/{}/namespaces/default/kopfexamples/old"
        new = stage.cluster.request("GET", path.format("v1"))
        assert new["spec"] == {"size": "big"}
        old = stage.cluster.request("GET", path.format("v1beta1"))
        assert old["spec"] == {"legacySize": "big"}
        assert old["apiVersion"] == "kopf.dev/v1beta1"
    assert conversion(stage)["strategy"] == "None"


def test_failed_conversions_name_the_handler(versioned: Stage) -> None:
    stage = versioned

    @kopf.on.convert("kopfexamples", source="v1beta1", target="v1", persistent=True)
    def upgrade(body: Any, **_: Any) -> Any:
        return {**body, "metadata": {**body["metadata"], "name": "other"}}

    with serve(stage):
        until(lambda: conversion(stage)["strategy"] == "Webhook", "the webhook")
        with pytest.raises(ClusterError, match="upgrade': the conversion changes metadata.name"):
            stage.cluster.create({
                "apiVersion": "kopf.dev/v1beta1", "kind": "KopfExample",
                "metadata": {"name": "old"}, "spec": {},
            })
    assert conversion(stage)["strategy"] == "Webhook", "the strategy is persistent"


@pytest.mark.parametrize("source, target", [("v1", "v1"), ("", "v1"), ("v1", "g/v2"), (1, "v1")])
def test_invalid_versions_are_rejected(source: Any, target: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        kopf.on.convert("kopfexamples", source=source, target=target)
