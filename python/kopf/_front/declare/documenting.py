"""The documentation of options that many decorators share, for `help()`."""

from __future__ import annotations

import textwrap
import types
from collections.abc import Iterable

__all__ = ["OPTIONS", "document"]

#: The options of decorators, with their meanings and defaults.
OPTIONS = {
    "group": "the group of the resource, such as 'kopf.dev'; '' for the core group",
    "version": "the version of the resource; by default, the preferred one of the server",
    "kind": "the kind of the resource, such as 'KopfExample', instead of a positional name",
    "plural": "the plural name, such as 'kopfexamples', instead of a positional name",
    "singular": "the singular name, such as 'kopfexample', instead of a positional name",
    "shortcut": "a short name, such as 'kex', instead of a positional name",
    "category": "a category of resources, such as 'all', instead of a positional name",
    "id": "the id in logs and progress records; by default, the name of the function",
    "param": "any value, which the function gets as the argument `param`",
    "errors": "the treatment of other exceptions than kopf.TemporaryError and kopf.PermanentError; by "
              "default, kopf.ErrorsMode.TEMPORARY: they are retried (IGNORED in index handlers, PERMANENT in "
              "probes)",
    "timeout": "seconds since the first attempt after which the handler fails; unlimited by default",
    "retries": "the number of attempts after which the handler fails; unlimited by default",
    "backoff": "seconds until the next attempt after other exceptions; by default, "
               "settings.execution.default_backoff (60)",
    "labels": "only objects with these labels: a dict of strings, functions, kopf.PRESENT, kopf.ABSENT",
    "annotations": "only objects with these annotations, as for labels",
    "when": "a function of the arguments of the handler; the handler is called only if it returns True",
    "field": "only objects with this field, such as 'spec.size'; for changes, only changes of it",
    "value": "only if the field has this value, before or after the change: a value, a function of it, "
             "kopf.PRESENT or kopf.ABSENT",
    "old": "only if the field had this value before the change",
    "new": "only if the field has this value after the change",
    "owns": "resources of the children, such as ['pods']; their changes end the delays of retries, and "
            "trigger reconciliations",
    "every": "the time from the end of a call to the next one, in seconds or as a datetime.timedelta; by "
             "default, the function is called for changes only",
    "finalizer": "True: also called for objects that are being deleted (kopf.Trigger.DELETED), which are not "
                 "gone before it succeeds; False by default",
    "deleted": "True: also for objects that are being deleted; False by default",
    "optional": "True: the deletion does not wait for the handler; False by default",
    "parent": "the resource of the owners; by default, all handled resources",
    "source": "the version to convert from, such as 'v1'",
    "target": "the version to convert to, such as 'v2'",
    "operation": "deprecated: use operations",
    "operations": "only these operations, such as ['CREATE', 'UPDATE']; by default, all of them",
    "subresource": "only this subresource, such as 'status'; '*' for the object and all subresources; by default, the object itself",
    "persistent": "True: the webhook stays in the cluster after the operator has exited; False by default",
    "side_effects": "True: the handler has side effects outside of the object, and must check `dryrun`",
    "ignore_failures": "True: requests are admitted if the webhook cannot be called; False by default",
    "initial_delay": "seconds before the first call, or a function of the arguments that returns them",
    "cancellation_backoff": "seconds for the daemon to return by itself before it is cancelled",
    "cancellation_timeout": "seconds for the cancelled daemon to return before it is abandoned",
    "cancellation_polling": "seconds between checks of a daemon that does not stop; by default, "
                            "settings.background.cancellation_polling (60)",
    "interval": "seconds between the end of a call and the next one; without it, the function is called once, "
                "or with idle, once after each change",
    "sharp": "True: the interval is counted from the beginning of a call; False by default",
    "idle": "seconds without changes of the object before the function is called",
    "registry": "the registry of the handler; by default, kopf.get_default_registry()",
}

RESOURCE = (
    "The positional arguments select the resource: 'kopfexamples', 'kopfexamples.kopf.dev', "
    "('kopf.dev', 'v1', 'kopfexamples'), a model declared with @kopf.crd, a function of a resource, or "
    "kopf.EVERYTHING."
)

_WIDTH = 96


def document(functions: Iterable[object]) -> None:
    """Appends the options of decorators to their docstrings."""
    for fn in functions:
        # There are no docstrings if the interpreter runs with -OO.
        if isinstance(fn, types.FunctionType) and fn.__doc__:
            fn.__doc__ = f"{fn.__doc__.rstrip()}\n\n{_describe(fn)}"


def _describe(fn: types.FunctionType) -> str:
    code = fn.__code__
    positional = code.co_varnames[:code.co_argcount]
    options = code.co_varnames[code.co_argcount:code.co_argcount + code.co_kwonlyargcount]
    parts = [textwrap.indent(textwrap.fill(RESOURCE, _WIDTH), "    ")] if "arg1" in positional else []
    lines = [_item(name) for name in options if name in OPTIONS]
    return "\n\n".join([*parts, "    Options:\n\n" + "\n".join(lines)]) + "\n    "


def _item(name: str) -> str:
    text = textwrap.fill(f"- ``{name}``: {OPTIONS[name]}.", _WIDTH, subsequent_indent="  ")
    return textwrap.indent(text, "    ")
