"""`kopf freeze` and `kopf resume`: pausing operators by a record in their peering object."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Collection

__all__ = ["freeze", "resume"]

logger = logging.getLogger("kopf._core.engines.peering")


def freeze(
    *,
    peering_name: str,
    priority: int,
    lifetime: int,
    identity: str | None = None,
    namespaces: Collection[str] = (),
    clusterwide: bool = False,
) -> None:
    """Pauses operators of a lower priority for `lifetime` seconds."""
    from kopf import _kopf

    options = {
        "peering": peering_name,
        "priority": priority,
        "lifetime": lifetime,
        "identity": identity,
        **_scope(namespaces, clusterwide),
    }
    for level, message in _kopf.freeze(options):
        logger.log(level, message)


def resume(
    *,
    peering_name: str,
    identity: str | None = None,
    namespaces: Collection[str] = (),
    clusterwide: bool = False,
) -> None:
    """Removes the record of `freeze()` under the same identity."""
    from kopf import _kopf

    options = {
        "peering": peering_name,
        "identity": identity,
        **_scope(namespaces, clusterwide),
    }
    for level, message in _kopf.resume(options):
        logger.log(level, message)


def _scope(namespaces: Collection[str], clusterwide: bool) -> dict[str, object]:
    if not namespaces and not clusterwide:
        warnings.warn(
            "Absence of either namespaces or cluster-wide flag will become an error soon."
            " For now, switching to the cluster-wide mode for backward compatibility.",
            FutureWarning,
            stacklevel=3,
        )
        clusterwide = True
    return {"namespaces": list(namespaces), "clusterwide": clusterwide}
