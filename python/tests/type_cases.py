"""Code whose types, as revealed by mypy, are compared with those recorded from the original."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile

CODE = '''
from typing import Any
import kopf

def arguments(
    body: kopf.Body, meta: kopf.Meta, spec: kopf.Spec, status: kopf.Status, patch: kopf.Patch,
    diff: kopf.Diff, index: kopf.Index[str, int], store: kopf.Store[int], memo: kopf.Memo,
    logger: kopf.Logger, resource: kopf.Resource, reason: kopf.Reason, settings: kopf.OperatorSettings,
    stopped: kopf.DaemonStopped, essence: kopf.BodyEssence, event: kopf.RawEvent, raw: kopf.RawBody,
    labels: kopf.Labels, annotations: kopf.Annotations, userinfo: kopf.UserInfo,
    headers: kopf.Headers, sslpeer: kopf.SSLPeer, progress: kopf.ProgressStorage,
    diffbase: kopf.DiffBaseStorage, config: kopf.WebhookClientConfig, fn: kopf.WebhookFn,
) -> None:
    reveal_type(body)
    reveal_type(body.metadata)
    reveal_type(body.meta)
    reveal_type(body.spec)
    reveal_type(body.status)
    reveal_type(body["x"])
    reveal_type(meta.labels)
    reveal_type(meta.annotations)
    reveal_type(meta.name)
    reveal_type(meta.namespace)
    reveal_type(meta.creation_timestamp)
    reveal_type(spec.get("x"))
    reveal_type(status)
    reveal_type(patch)
    reveal_type(patch.spec)
    reveal_type(patch.meta)
    reveal_type(patch.status)
    reveal_type(diff)
    reveal_type(diff[0])
    reveal_type(diff[0].field)
    reveal_type(diff[0].operation)
    reveal_type(diff[0:1])
    reveal_type(list(diff))
    reveal_type(store)
    reveal_type(list(store))
    reveal_type(index)
    reveal_type(index["x"])
    reveal_type(index.get("x", []))
    reveal_type(list(index.items()))
    reveal_type(memo.x)
    reveal_type(logger)
    reveal_type(resource)
    reveal_type(reason)
    reveal_type(settings.persistence)
    reveal_type(settings.persistence.progress_storage)
    reveal_type(settings.persistence.diffbase_storage)
    reveal_type(settings.execution.executor)
    reveal_type(stopped)
    reveal_type(stopped.reason)
    reveal_type(stopped.wait(5))
    reveal_type(essence)
    reveal_type(event)
    reveal_type(raw)
    reveal_type(labels)
    reveal_type(annotations)
    reveal_type(userinfo)
    reveal_type(headers)
    reveal_type(sslpeer)
    reveal_type(progress.fetch)
    reveal_type(diffbase.build)
    reveal_type(config)
    reveal_type(fn)

@kopf.on.create("x")
def changed(*, body: kopf.Body, diff: kopf.Diff, patch: kopf.Patch, **_: Any) -> None: ...
reveal_type(changed)

@kopf.on.event("x")
def seen(*, event: kopf.RawEvent, type: str | None, **_: Any) -> None: ...
reveal_type(seen)

@kopf.daemon("x")
async def daemon(*, stopped: kopf.DaemonStopped, **_: Any) -> None:
    reveal_type(await stopped.wait(1))
reveal_type(daemon)

@kopf.timer("x", interval=1)
def timer(**_: Any) -> None: ...
reveal_type(timer)

@kopf.index("x")
def indexed(**_: Any) -> dict[str, int]: return {}
reveal_type(indexed)

@kopf.on.validate("x")
def validate(*, warnings: list[str], userinfo: kopf.UserInfo, **_: Any) -> None: ...
reveal_type(validate)

@kopf.on.login()
def login(**_: Any) -> kopf.ConnectionInfo | None: return None
reveal_type(login)

async def embedded() -> None:
    reveal_type(await kopf.spawn_tasks(clusterwide=True))
    reveal_type(kopf.run_tasks)
'''


def revealed() -> dict[str, list[str]]:
    """Returns the types by the lines of the code, without the paths of modules, and all errors."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "code.py")
        path.write_text(CODE)
        options = ["--strict", "--no-error-summary", "--cache-dir", folder]
        done = subprocess.run(
            [sys.executable, "-m", "mypy", *options, str(path)], capture_output=True, text=True,
            env={**os.environ, "MYPYPATH": os.environ.get("PYTHONPATH", "")}, check=False,
        )
    lines = CODE.splitlines()
    found: dict[str, list[str]] = {}
    for line in (done.stdout + done.stderr).splitlines():
        number, _, text = line.partition("code.py:")[2].partition(": ")
        text = re.sub(r"\bkopf\.(_\w+\.)+(\w+\.)*(?=[A-Z])", "kopf.", text)
        text = text.removeprefix("note: Revealed type is ")
        found.setdefault(lines[int(number) - 1].strip() if number else line, []).append(text)
    return found
