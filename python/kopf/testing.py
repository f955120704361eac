"""Tools for testing operators: a runner in the same process, and a cluster in memory."""

from __future__ import annotations

from kopf._front.tools.clients import ClusterClient, ClusterError
from kopf._front.tools.runner import KopfRunner
from kopf._front.tools.sandboxes import sandbox, sandbox_fixture

__all__ = ["ClusterClient", "ClusterError", "KopfRunner", "sandbox", "sandbox_fixture"]
