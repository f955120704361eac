"""Fixtures for replays of recordings. `@pytest.mark.recording(name)` selects the recording."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator

import pytest
import yaml
from golden_proxy import RecordingProxy
from golden_stage import CRD, PEERING, Stage, staged

from kopf.testing import ClusterClient, ClusterError, sandbox


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterClient]:
    """A cluster with the CRDs of the recordings."""
    kubeconfig = os.environ.get("KOPF_TEST_KUBECONFIG")
    if kubeconfig is None:
        with sandbox(CRD, PEERING) as started:
            yield started
        return
    client = ClusterClient(kubeconfig)
    for manifest in (CRD, *yaml.safe_load_all(PEERING.read_text())):
        with contextlib.suppress(ClusterError, LookupError):
            client.create(manifest)
    yield client
    client.close()


@pytest.fixture(scope="module")
def proxy(cluster: ClusterClient) -> Iterator[RecordingProxy]:
    """A proxy that records the writes of operators."""
    with RecordingProxy(cluster) as started:
        yield started


@pytest.fixture
def stage(
    request: pytest.FixtureRequest,
    cluster: ClusterClient,
    proxy: RecordingProxy,
    tmp_path: pathlib.Path,
) -> Iterator[Stage]:
    """The replay of the recording selected by the marker."""
    marker = request.node.get_closest_marker("recording")
    assert marker is not None
    with staged(marker.args[0], cluster, proxy, tmp_path) as made:
        yield made
