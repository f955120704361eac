"""Tools for testing operators: a runner in the same process, and a cluster in memory."""

from __future__ import annotations

from kopf._front.clients import ClusterClient, ClusterError
from kopf._front.runner import KopfRunner
from kopf._front.sandboxes import sandbox, sandbox_fixture

__all__ = ["ClusterClient", "ClusterError", "KopfRunner", "sandbox", "sandbox_fixture"]
