#!/usr/bin/env python3
"""Runs every example with exactly the permissions that `rbac` prints for it, on a server that checks them.

Usage: rights.py KUBECONFIG BINARIES [NAME…]
  BINARIES: the folder with the examples in Rust. Those in Python are run by this interpreter, which must
  have our package. NAME: only the cases whose names contain it, such as `rust-01`.

Each operator runs as a service account in a namespace of its own, several at a time. It must handle an
object and release it without a rejected request, and its review at the start must miss nothing. Then
permissions are taken away, and the operator must report all missing ones at its start.
Each check prints "ok" or "FAILED"; the last line counts them.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import yaml
from rights_cases import EXAMPLES, PEERINGS, Case, finds, python, rust
from robots import CheckFailed, Checks, Robot, robot

from kopf.testing import ClusterClient, ClusterError

#: Operators that run at the same time. They mostly wait.
WORKERS = 6


def prepare(client: ClusterClient, cases: list[Case]) -> None:
    """Creates the CRDs of all cases, except for the one that an operator installs itself."""
    for file in {PEERINGS, *(case.crds for case in cases)}:
        for manifest in yaml.safe_load_all(file.read_text()):
            if manifest["kind"] == "CustomResourceDefinition":
                with contextlib.suppress(ClusterError):
                    client.create(manifest)
    with contextlib.suppress(ClusterError):
        client.delete("customresourcedefinitions", "gateways.kopf.dev", namespace=None)
    client.wait("customresourcedefinitions", "gateways.kopf.dev", namespace=None)


def rbac(case: Case, name: str) -> str:
    """Returns the roles of an example, as its own command prints them."""
    by = case.like or case
    scope = [] if case.clusterwide else ["--serve", name]
    options = ["--name", name, "--namespace", name, *scope, "-f", str(case.crds), *case.rbac]
    if is_standalone(case):
        options.append("--standalone")
    for permission in case.allow:
        options += ["--allow", permission]
    command = [*by.command, "rbac", *options, *by.files]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def is_standalone(case: Case) -> bool:
    """Returns `True` if the operator ignores others. Embedded operators have default settings."""
    return case.like is None and "--peering" not in case.run


def command(case: Case, name: str) -> list[str]:
    """Returns the command line of the operator."""
    if case.like is not None:
        return [*case.command, *case.files, *([] if case.clusterwide else [name])]
    scope = ["--all-namespaces"] if case.clusterwide else ["--namespace", name]
    standalone = ["--standalone"] if is_standalone(case) else []
    options = ["--log-format", "plain", *scope, *standalone, *case.run]
    return [*case.command, "run", *options, *case.files]


def create(account: Robot, case: Case) -> list[str]:
    """Creates the objects of a case, and returns their paths. Embedded operators wait for three."""
    manifest: Any = yaml.safe_load(case.obj.read_text())
    group = manifest["apiVersion"]
    root = f"/apis/{group}" if "/" in group else f"/api/{group}"
    folder = f"{root}/namespaces/{account.name}/{case.plural}"
    name, paths = manifest["metadata"]["name"], []
    for suffix in ("", "-2", "-3") if case.like else ("",):
        manifest["metadata"]["name"] = name + suffix
        # Resources that the operator installs itself do not exist yet.
        account.until("the object is created", lambda: _is_created(account, folder, manifest))
        paths.append(f"{folder}/{name}{suffix}")
    return paths


def _is_created(account: Robot, folder: str, manifest: Any) -> bool:
    try:
        account.admin.request("POST", folder, manifest)
    except ClusterError as exc:
        if exc.status != 404:
            raise
        return False
    return True


def play(account: Robot, case: Case) -> None:
    """Lets the operator of a case handle its objects."""
    account.permit(rbac(case, account.name))
    if "--peering" in case.run:
        peering = {"apiVersion": "kopf.dev/v1", "kind": "KopfPeering"}
        peerings = f"/apis/kopf.dev/v1/namespaces/{account.name}/kopfpeerings"
        account.admin.request("POST", peerings, {**peering, "metadata": {"name": "default"}})
    account.start(command(case, account.name), case.environment)
    paths = create(account, case)
    for path in paths:
        if case.handled is not None:
            account.until("the object is handled", finds(case.handled, account, path))
    case.act(account, paths[0])
    if case.like is not None:
        account.wait(expected=0)
    for path in paths:
        with contextlib.suppress(ClusterError):
            account.admin.request("DELETE", path)
        account.until("the object is released", lambda: account.get(path) is None)
    if case.like is None:
        account.stop()
    if refusals := account.refusals():
        raise CheckFailed(f"rejected: {refusals}")


def check(kubeconfig: str, case: Case, checks: Checks) -> None:
    """Runs a case in a namespace of its own."""
    with robot(kubeconfig, f"e2e-rights-{case.name}-{os.getpid()}", checks) as account:
        play(account, case)
        checks.verdict(f"{case.name}: handles its objects, and nothing is rejected", None)


def check_report(kubeconfig: str, case: Case, checks: Checks) -> None:
    """Checks the report of an operator without permissions in its namespace."""
    expected = (
        "patch kopfexamples.kopf.dev in the namespace",
        "create events in the namespace",
        "patch kopfexamples.kopf.dev/status",
        'resources: ["kopfexamples/status"]',
    )
    name = f"e2e-rights-none-{os.getpid()}"
    with robot(kubeconfig, name, checks) as account:
        documents = [
            manifest
            for manifest in yaml.safe_load_all(rbac(case, name))
            if manifest["kind"].startswith("Cluster")
        ]
        account.permit(yaml.safe_dump_all(documents))
        account.start(command(case, name))
        report = "Add these rules to the roles of the operator"
        account.until("missing permissions are reported", lambda: report in account.log())
        for words in expected:
            problem = None if words in account.log() else "missing"
            checks.verdict(f"the report has: {words}", problem, account.end_of_log())


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    kubeconfig = os.path.realpath(sys.argv[1])
    binaries = pathlib.Path(sys.argv[2]).resolve()
    cases = [*rust(binaries), *python()]
    wanted = sys.argv[3:]
    chosen = [case for case in cases if not wanted or any(part in case.name for part in wanted)]
    checks = Checks()
    client = ClusterClient(kubeconfig)
    prepare(client, cases)
    client.close()
    with ThreadPoolExecutor(WORKERS) as pool:
        running = [
            pool.submit(check, kubeconfig, case, checks) for case in chosen if not case.alone
        ]
    for case in chosen:
        if case.alone:
            check(kubeconfig, case, checks)
    for outcome in running:
        outcome.result()
    if not wanted:
        check_report(kubeconfig, cases[0], checks)
        check_completeness(cases, checks)
    return checks.summary()


def check_completeness(cases: list[Case], checks: Checks) -> None:
    """Checks that every example has a case."""
    examples = {
        f"{language}-{path.parent.name}"
        for language, program in (("rust", "main.rs"), ("python", "handlers.py"))
        for path in (EXAMPLES / language).glob(f"*/{program}")
    }
    missing = examples - {case.name for case in cases}
    checks.verdict("every example has a case", f"missing: {missing}" if missing else None)


if __name__ == "__main__":
    sys.exit(main())
