"""The historical path of :mod:`kopf._front.configuration`."""

from __future__ import annotations

from kopf._front.configuration import (
    AdmissionSettings,
    BackgroundSettings,
    ExecutionSettings,
    NetworkingSettings,
    OperatorSettings,
    PeeringSettings,
    PersistenceSettings,
    PostingSettings,
    ProcessSettings,
    QueueingSettings,
    ScanningSettings,
    WatchingSettings,
)

__all__ = [
    "AdmissionSettings",
    "BackgroundSettings",
    "ExecutionSettings",
    "NetworkingSettings",
    "OperatorSettings",
    "PeeringSettings",
    "PersistenceSettings",
    "PostingSettings",
    "ProcessSettings",
    "QueueingSettings",
    "ScanningSettings",
    "WatchingSettings",
]
