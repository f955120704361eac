"""Absent: this is done by the native engine."""

raise ImportError(
    "kopf._core.actions.progression does not exist here: the progress of handlers is kept by the native engine. "
    "Use the kwargs retry, started and runtime, or kopf.ProgressStorage."
)
