"""Absent: this is done by the native engine."""

raise ImportError(
    "kopf._core.reactor.inventory does not exist here: the memos of objects are kept by the native engine. "
    "Use the kwarg memo."
)
