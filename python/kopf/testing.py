"""Tools for testing operators: a runner in the same process, and a cluster in memory."""

from __future__ import annotations

from kopf._front.tools.clients import ClusterClient, ClusterError
from kopf._front.tools.explorations import Exploration, ExplorationError, Finding, explore
from kopf._front.tools.runner import KopfRunner
from kopf._front.tools.sandboxes import sandbox, sandbox_fixture
from kopf._front.tools.virtual_time import VirtualTimeError

__all__ = [
    "ClusterClient", "ClusterError", "Exploration", "ExplorationError", "Finding", "KopfRunner",
    "VirtualTimeError", "explore", "sandbox", "sandbox_fixture",
]
