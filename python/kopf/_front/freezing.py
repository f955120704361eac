"""`kopf freeze` and `kopf resume`: pausing operators by a record in their peering object."""

from __future__ import annotations

import warnings
from collections.abc import Collection

__all__ = ["freeze", "resume"]


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

    _kopf.freeze(
        {
            "peering": peering_name,
            "priority": priority,
            "lifetime": lifetime,
            "identity": identity,
            **_scope(namespaces, clusterwide),
        }
    )


def resume(
    *,
    peering_name: str,
    identity: str | None = None,
    namespaces: Collection[str] = (),
    clusterwide: bool = False,
) -> None:
    """Removes the record of `freeze()` under the same identity."""
    from kopf import _kopf

    _kopf.resume(
        {
            "peering": peering_name,
            "identity": identity,
            **_scope(namespaces, clusterwide),
        }
    )


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
