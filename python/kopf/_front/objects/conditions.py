"""Status conditions: ``status.conditions``, as defined by the Kubernetes API conventions."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    from kopf._front.objects.bodies import RawBody
    from kopf._front.objects.patches import Patch

__all__ = ["Conditions"]

Status = bool | None | Literal["True", "False", "Unknown"]


class Conditions:
    """The conditions of an object, changed through its patch: ``patch.conditions``.

    ``lastTransitionTime`` changes only together with the status; ``observedGeneration`` is the
    generation of the object at the call of the handler. The order of the list and the conditions of
    other types are not changed. If nothing changes, nothing is written.

    ::

        @kopf.on.create("kopfexamples")
        def created(patch, **_):
            patch.conditions.set("Ready", True, reason="Deployed", message="3 of 3 replicas")

    Arguments:

    - ``patch``: the patch to add the changes to.
    - ``body``: the object; by default, the one that is being handled.
    """

    __slots__ = ("_body", "_changes", "_patch")

    def __init__(self, patch: Patch, body: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._patch = patch
        self._body = body
        self._changes: list[tuple[str, str, str, str, int | None, str] | str] = []

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._changes!r})"

    def set(self, type: str, status: Status, *, reason: str, message: str = "") -> None:
        """Sets a condition. Raises :class:`ValueError` if a value violates the API conventions.

        Arguments:

        - ``type``: the type of the condition, such as ``"Ready"``.
        - ``status``: ``True``, ``False``, or ``None`` for ``Unknown``.
        - ``reason``: a CamelCase word.
        - ``message``: the text for people; empty by default.
        """
        from kopf._kopf import apply_conditions

        if status is None:
            status = "Unknown"
        elif not isinstance(status, str):
            status = "True" if status else "False"
        generation = (self._current().get("metadata") or {}).get("generation")
        now = datetime.datetime.now(datetime.UTC).isoformat()
        change = (type, status, reason, message, generation, now)
        apply_conditions(None, [change])
        self._add(change)

    def remove(self, type: str) -> None:
        """Removes a condition."""
        self._add(type)

    def get(self, type: str) -> Mapping[str, Any] | None:
        """Returns the condition as it was when the handler was called."""
        status = self._current().get("status") or {}
        for condition in status.get("conditions") or ():
            if condition.get("type") == type:
                return cast(Mapping[str, Any], condition)
        return None

    def is_true(self, type: str) -> bool:
        """Returns ``True`` if the condition had the status ``True`` when the handler was called."""
        condition = self.get(type)
        return condition is not None and condition.get("status") == "True"

    def _current(self) -> Mapping[str, Any]:
        if self._body is not None:
            return self._body
        if self._patch._original is not None:
            return self._patch._original
        from kopf._front.objects import causes

        cause = causes.cause_var.get(None)
        if not isinstance(cause, causes.ResourceCause):
            raise LookupError(
                "the object of the conditions is unknown outside of handlers: "
                "use kopf.Conditions(patch, body)"
            )
        return cause.body

    def _add(self, change: Any) -> None:
        self._changes.append(change)
        if self._apply not in self._patch.fns:
            self._patch.fns.append(self._apply)

    def _apply(self, body: RawBody) -> None:
        from kopf._kopf import apply_conditions

        raw = cast(dict[str, Any], body)
        before = (raw.get("status") or {}).get("conditions")
        after = apply_conditions(before, self._changes)
        if after != (before or []):
            raw["status"] = {**(raw.get("status") or {}), "conditions": after}
