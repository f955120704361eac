"""The operator of `swapping.py`: the same file runs with the original and with this package.

Every call is noted in a file. Handlers that wait are retried until the file `go` exists.
"""

import json
import os
import pathlib

import kopf

FOLDER = pathlib.Path(os.environ["SWAPPING_FOLDER"])
WHO = os.environ["SWAPPING_WHO"]
KIND = "kopfexamples.kopf.dev"


def note(name, handler, retry, **more):
    record = {"who": WHO, "object": name, "handler": handler, "retry": retry, **more}
    with FOLDER.joinpath("calls").open("a") as file:
        file.write(json.dumps(record) + "\n")


def plain(diff):
    return [[str(op), list(field), old, new] for op, field, old, new in diff]


def wait():
    if not FOLDER.joinpath("go").exists():
        raise kopf.TemporaryError("not yet", delay=1)


@kopf.on.startup()
def configure(settings, **_):
    settings.posting.enabled = False


@kopf.on.create(KIND, labels={"case": "retries"})
def first(name, retry, **_):
    note(name, "first", retry)
    return "first"


@kopf.on.create(KIND, labels={"case": "retries"})
def second(name, retry, **_):
    note(name, "second", retry)
    wait()
    return "second"


@kopf.on.update(KIND, labels={"case": "retries"})
def never(name, retry, diff, **_):
    note(name, "never", retry, diff=plain(diff))


@kopf.on.create(KIND, labels={"case": "subhandlers"})
def parent(name, retry, **_):
    note(name, "parent", retry)
    for item in "abc":

        @kopf.subhandler(id=item)
        def child(name, retry, item=item, **_):
            note(name, f"parent/{item}", retry)
            if item == "b":
                wait()
            return item

    return "parent"


@kopf.on.create(KIND, labels={"case": "update"})
def made(name, retry, **_):
    note(name, "made", retry)


@kopf.on.update(KIND, labels={"case": "update"})
def one(name, retry, diff, **_):
    note(name, "one", retry, diff=plain(diff))
    return "one"


@kopf.on.update(KIND, labels={"case": "update"})
def two(name, retry, diff, **_):
    note(name, "two", retry, diff=plain(diff))
    wait()
    return "two"


@kopf.on.create(KIND, labels={"case": "downtime"})
@kopf.on.resume(KIND, labels={"case": "downtime"})
def up(name, retry, **_):
    note(name, "up", retry)


@kopf.on.update(KIND, labels={"case": "downtime"})
def changed(name, retry, diff, **_):
    note(name, "changed", retry, diff=plain(diff))


@kopf.on.create(KIND, labels={"case": "reconcile"})
def stamped(name, retry, **_):
    note(name, "stamped", retry)


@kopf.on.update(KIND, labels={"case": "reconcile"})
def restamped(name, retry, diff, **_):
    note(name, "restamped", retry, diff=plain(diff))


# The original has no such handlers.
if hasattr(kopf.on, "reconcile"):

    @kopf.on.reconcile(KIND, labels={"case": "reconcile"})
    def sync(name, retry, triggers, **_):
        note(name, "sync", retry, triggers=sorted(map(str, triggers)))
        wait()


@kopf.on.delete(KIND, labels={"case": "deletion"})
def clean(name, retry, **_):
    note(name, "clean", retry)


@kopf.on.delete(KIND, labels={"case": "deletion"})
def wipe(name, retry, **_):
    note(name, "wipe", retry)
    wait()


@kopf.daemon(KIND, labels={"case": "daemon"}, cancellation_timeout=5)
async def guard(name, retry, stopped, **_):
    note(name, "guard", retry)
    await stopped.wait()
    note(name, "guard-stopped", retry)
