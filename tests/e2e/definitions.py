#!/usr/bin/env python3
"""Checks `run --install-crds` on a real server: new, current, older, wider, foreign and forbidden CRDs.

Usage: definitions.py KUBECONFIG
  Runs the example 18-typed by this interpreter, which must have our package.
Each check prints "ok" or "FAILED"; the last line counts them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import yaml
from rights_cases import EXAMPLES
from robots import CheckFailed, Checks, Robot, robot, until

from kopf.testing import ClusterError

PROGRAM = str(EXAMPLES / "python" / "18-typed" / "handlers.py")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = f"{CRDS}/gateways.kopf.dev"


def kopf(*arguments: str) -> str:
    """Runs a command of the package, and returns its output."""
    command = [sys.executable, "-m", "kopf", *arguments, PROGRAM]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def desired() -> Any:
    """Returns the CRD of the example."""
    return yaml.safe_load(kopf("crd"))


def delete(account: Robot) -> None:
    """Deletes the CRD, and waits for it."""
    with contextlib.suppress(ClusterError):
        account.admin.request("DELETE", CRD)
    until("the CRD is gone", lambda: account.get(CRD) is None)


def apply(account: Robot, crd: Any, manager: str) -> Any:
    """Applies a CRD on the server's side as another client."""
    path = f"{CRD}?fieldManager={manager}&force=true"
    return account.admin.request("PATCH", path, crd, content_type="application/apply-patch+yaml")


def start(account: Robot) -> None:
    """Starts the operator with `--install-crds`."""
    options = ["--standalone", "--log-format", "plain", "--verbose", "--install-crds"]
    scope = ["--namespace", account.name]
    account.start([sys.executable, "-m", "kopf", "run", *options, *scope, PROGRAM])


def installs(account: Robot, message: str) -> Any:
    """Runs the operator until this message, and returns the CRD."""
    start(account)
    account.until(f"the log has {message!r}", lambda: message in account.log())
    account.until("the CRD is established", lambda: _is_established(account.get(CRD)))
    account.stop()
    return account.get(CRD)


def fails(account: Robot, *messages: str) -> None:
    """Runs the operator, which must end with an error of these words, and must not change the CRD."""
    before = account.get(CRD)
    start(account)
    account.wait(expected=1)
    for message in messages:
        if message not in account.log():
            raise CheckFailed(f"the error does not have {message!r}")
    if _stored(account.get(CRD)) != _stored(before):
        raise CheckFailed("the CRD is changed")


def _stored(crd: Any) -> Any:
    return crd and {"spec": crd["spec"], "generation": crd["metadata"]["generation"]}


def _is_established(crd: Any) -> bool:
    conditions = ((crd or {}).get("status") or {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def _spec_of(crd: Any) -> Any:
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema["properties"]["spec"]


def absent(account: Robot) -> None:
    delete(account)
    installs(account, "CRD gateways.kopf.dev is created.")


def current(account: Robot) -> None:
    before = account.get(CRD)["metadata"]["resourceVersion"]
    after = installs(account, "CRD gateways.kopf.dev is up to date.")["metadata"]["resourceVersion"]
    if before != after:
        raise CheckFailed("a current CRD is written")


def older(account: Robot) -> None:
    crd = desired()
    del _spec_of(crd)["properties"]["ports"]
    apply(account, crd, "kopf")
    crd = installs(account, "CRD gateways.kopf.dev is updated.")
    if "ports" not in _spec_of(crd)["properties"]:
        raise CheckFailed("the new field is missing")


def wider(account: Robot) -> None:
    crd = desired()
    _spec_of(crd)["properties"]["region"] = {"type": "string"}
    apply(account, crd, "kopf")
    fails(account, "permits more than that of this operator", "the field spec.region is missing")


def foreign(account: Robot) -> None:
    crd = desired()
    crd["spec"]["names"]["shortNames"] = ["gate"]
    apply(account, crd, "administrator")
    fails(account, "was changed by other clients", "administrator", "spec.names.shortNames")


def forbidden(account: Robot) -> None:
    delete(account)
    account.withdraw()
    account.permit(_roles(account, "--standalone"))
    fails(
        account,
        "not permitted to install the CRD gateways.kopf.dev",
        "grant the verbs create, get and patch",
    )


#: In this order: each begins with the CRD of the previous one.
CHECKS: dict[str, Callable[[Robot], None]] = {
    "an absent CRD is created": absent,
    "a current CRD is not written": current,
    "an older CRD is updated": older,
    "a wider CRD is an error, and is left alone": wider,
    "a field of another client is an error, and is left alone": foreign,
    "missing permissions are an error": forbidden,
}


def _roles(account: Robot, *options: str) -> str:
    scope = ["--name", account.name, "--namespace", account.name, "--serve", account.name]
    return kopf("rbac", *scope, *options)


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    checks = Checks()
    name = f"e2e-definitions-{os.getpid()}"
    with robot(os.path.realpath(sys.argv[1]), name, checks) as account:
        account.permit(_roles(account, "--standalone", "--install-crds"))
        for what, check in CHECKS.items():
            try:
                check(account)
                checks.verdict(what, None)
            except CheckFailed as exc:
                checks.verdict(what, str(exc), account.end_of_log())
        delete(account)
    return checks.summary()


if __name__ == "__main__":
    sys.exit(main())
