#!/usr/bin/env python3
"""Explores the example operators in both languages.

    tests/explore/examples.py KOPF PROGRAMS PYTHON [NAME…] [--plans NUMBER] [--parallel NUMBER] [--verbose]

KOPF is the `kopf` command, PROGRAMS the folder of the Rust examples, PYTHON an interpreter that can import the
package. NAME is an example such as `python/01-minimal`; by default, all are explored. The plans of each example are
limited, so that all of them take about a quarter of an hour. The most valuable plans come first; how many are not
explored is printed.

Fails if something is found that is not explained here (and in docs/test/explored.md), or if no verdict is possible.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

Explanation = Callable[[str, dict[str, Any]], bool]


def paths(complaint: dict[str, Any]) -> list[str]:
    """The fields that differ; an object that is missing or too much counts as one without a field."""
    found = []
    for difference in complaint.get("differences", []):
        fields = difference.get("changed", {}).get("fields", [])
        found += [field["path"] for field in fields] or [""]
    return found


def is_only_in_status(complaint: dict[str, Any]) -> bool:
    found = paths(complaint)
    return bool(found) and all(path.startswith("status") for path in found)


def lost_result(deviation: str, complaint: dict[str, Any]) -> bool:
    """As in the original, a crash between the two writes of a cycle loses the results in the status."""
    return deviation in ("crash-before", "crash-after") and is_only_in_status(complaint)


def second_child(deviation: str, complaint: dict[str, Any]) -> bool:
    """The name of the child is generated: if the response or the record of its creation is lost, there is another."""
    kinds = [kind for difference in complaint.get("differences", []) for kind in difference]
    return deviation in ("crash-after", "crash-before", "lost-response", "overlap") and "unexpected" in kinds


def created_once(deviation: str, complaint: dict[str, Any]) -> bool:
    """The example handles only creations: its pod keeps the variable with which it was created, by design."""
    return deviation == "respec" and paths(complaint) == ["spec.containers[0].env[0].value"]


def restarted(deviation: str, complaint: dict[str, Any]) -> bool:
    """A change of the specification restarts the load test, with pods that are named after its generation."""
    kinds = [(kind, one["key"]["resource"]) for each in complaint.get("differences", []) for kind, one in each.items()]
    return deviation == "respec" and set(kinds) == {("missing", "pods"), ("unexpected", "pods")}


def goodbye(deviation: str, complaint: dict[str, Any]) -> bool:
    """The daemon of the example says goodbye in the status whenever the operator exits, by design."""
    return deviation in ("term", "overlap") and is_only_in_status(complaint)


@dataclasses.dataclass(frozen=True)
class Case:
    """An example operator, and what it needs."""

    name: str
    manifests: tuple[str, ...] = ("crd.yaml",)
    object: str = "obj.yaml"
    kind: str = "KopfExample"
    #: The specification, in place of that of the object.
    spec: dict[str, Any] | None = None
    #: The steps, if they are not derived from the object.
    steps: tuple[dict[str, Any], ...] = ()
    options: tuple[str, ...] = ()
    settle: str = "2s"
    limit: str = "40s"
    #: Arguments of the operator, if not the usual ones; those in Python without any are programs themselves.
    arguments: tuple[str, ...] = ("run", "--standalone", "--namespace=default")
    environment: tuple[str, ...] = ()
    explained: tuple[Explanation, ...] = (lost_result,)

    def command(self, programs: pathlib.Path, python: str) -> list[str]:
        language, name = self.name.split("/")
        if language == "rust":
            return ["env", *self.environment, str(programs / name), *self.arguments]
        if not self.arguments:
            return ["env", *self.environment, python, self.handlers]
        return ["env", *self.environment, python, "-m", "kopf", *self.arguments, self.handlers]

    @property
    def handlers(self) -> str:
        return str(EXAMPLES / self.name / "handlers.py")

    def scenario(self, folder: pathlib.Path) -> list[str]:
        """Writes the object or the steps, and returns the options for them."""
        file = folder / "scenario.yaml"
        if self.steps:
            file.write_text(json.dumps({"steps": self.steps}), encoding="utf-8")
            return ["--scenario", str(file)]
        if self.spec is None:
            return ["--object", str(EXAMPLES / self.object)]
        manifest = {
            "apiVersion": "kopf.dev/v1", "kind": self.kind, "metadata": {"name": "example"}, "spec": self.spec,
        }
        file.write_text(json.dumps(manifest), encoding="utf-8")
        return ["--object", str(file)]


SIMULATED = ("--simulate", "all")
POD = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "sleeper"},
    "spec": {"containers": [{"name": "main", "image": "busybox"}]},
}
PEERING = "../crates/kopf-shipping/manifests/peering.yaml"
TENANTS = ("rust/tenant-onboarding/crds.yaml",)


def common_cases(language: str) -> Iterator[Case]:
    """The examples that exist in both languages."""
    for name in (
        "01-minimal", "03-exceptions", "04-events", "05-handlers", "07-subhandlers", "08-raw-events", "11-filtering",
        "13-hooks", "19-reconcile", "99-all-at-once",
    ):
        yield Case(f"{language}/{name}")
    # The number of looks is in the memo, which is lost with the process.
    yield Case(f"{language}/16-indexing", options=("--ignore", "status.look.looks"))
    # A deleted pod ends after a while in which nothing changes.
    yield Case(f"{language}/02-children", options=SIMULATED, settle="4s", explained=(lost_result, second_child))
    together = ("run", "--namespace=default", "--peering=default")
    # The record of a killed peer pauses the next one for a minute.
    yield Case(f"{language}/06-peering", ("crd.yaml", PEERING), arguments=together, limit="2m")
    # The operator deletes the pod when it is a second old.
    yield Case(f"{language}/10-builtins", (), steps=({"apply": POD},), settle="5s", environment=("MAX_AGE=1",))
    yield Case(f"{language}/14-daemons", explained=(lost_result, goodbye))
    # It counts for ever.
    yield Case(f"{language}/15-timers", options=("--ignore", "status"))
    yield Case(f"{language}/17-admission", options=("--ignore", "webhooks"))


def cases() -> Iterator[Case]:
    yield from common_cases("python")
    yield from common_cases("rust")
    yield Case("python/09-testing")
    yield Case("rust/09-testing", spec={"greet": "world"})
    gateway = {"host": "example.com", "ports": [{"number": 80, "protocol": "TCP"}]}
    yield Case("python/18-typed", (), kind="Gateway", spec=gateway)
    yield Case("rust/12-embedded", arguments=("default",))
    # The application gives up a minute after the last creation.
    example = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "example"}, "spec": {}}
    target = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "example"}
    yield Case("python/12-embedded", steps=({"apply": example}, {"delete": target}), arguments=())
    claims = "rust/ephemeral-volume-claims"
    # Only bound claims can grow, and a timer deletes those that expire every five seconds.
    manifests = (f"{claims}/crd.yaml", f"{claims}/class.yaml")
    yield Case(claims, manifests, f"{claims}/obj.yaml", options=SIMULATED, settle="8s", limit="60s")
    load, own, simple = "rust/load-testing", "rust/own-program", "rust/simple-deployment"
    yield Case(load, (f"{load}/crd.yaml",), f"{load}/example-02.yaml", explained=(lost_result, restarted))
    yield Case(own, (f"{own}/crd.yaml",), f"{own}/obj.yaml")
    once = (lost_result, second_child, created_once)
    yield Case(simple, (f"{simple}/crd.yaml",), f"{simple}/example-01.yaml", options=SIMULATED, explained=once)
    yield Case("rust/tenant-nats", TENANTS, "rust/tenant-nats/nats.yaml")
    yield Case("rust/tenant-onboarding", TENANTS, "rust/tenant-onboarding/tenant.yaml")


@dataclasses.dataclass
class Verdict:
    """The outcome of one example."""

    #: What is wrong, in lines.
    wrong: list[str]
    #: The explained complaints, in lines.
    explained: list[str] = dataclasses.field(default_factory=list)
    done: int = 0
    plans: int = 0


def explore(case: Case, args: argparse.Namespace) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="kopf-examples-") as name:
        folder = pathlib.Path(name)
        manifests = [EXAMPLES / manifest for manifest in case.manifests]
        if case.kind == "Gateway":
            crd = subprocess.run([args.python, "-m", "kopf", "crd", case.handlers], check=True, capture_output=True)
            (folder / "crd.yaml").write_bytes(crd.stdout)
            manifests.append(folder / "crd.yaml")
        command = [args.kopf, "explore", "-o", "json", "--report", str(folder / "report"), *case.scenario(folder)]
        for manifest in manifests:
            command += ["-f", str(manifest)]
        command += ["--settle", case.settle, "--limit", case.limit, "--jobs", str(args.jobs), *case.options]
        command += ["--no-reduce", "--plans", str(args.plans)]
        command += ["--", *case.command(args.programs, args.python)]
        process = subprocess.run(command, check=False, capture_output=True, text=True)
    if process.returncode not in (0, 1):
        return Verdict([f"exit code {process.returncode}", process.stderr])
    return judge(case, json.loads(process.stdout))


def judge(case: Case, outcome: dict[str, Any]) -> Verdict:
    verdict = Verdict([], done=outcome["done"], plans=outcome["plans"])
    for finding in outcome["findings"]:
        deviation = (finding["deviation"] or {"deviation": "none"})["deviation"]
        for complaint in finding["complaints"]:
            line = f"if {finding['description']}: {complaint['summary']}: {', '.join(paths(complaint))}"
            if any(explanation(deviation, complaint) for explanation in case.explained):
                verdict.explained.append(line)
            else:
                verdict.wrong += [line, json.dumps(complaint, indent=2)]
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description="Explore the example operators")
    parser.add_argument("kopf")
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("python")
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--plans", type=int, default=10, help="plans of each example")
    parser.add_argument("--parallel", type=int, default=4, help="examples at once")
    parser.add_argument("--jobs", type=int, default=2, help="runs of one example at once")
    parser.add_argument("--verbose", action="store_true", help="print what is explained")
    args = parser.parse_intermixed_args()
    chosen = [case for case in cases() if not args.names or case.name in args.names]
    if unknown := set(args.names) - {case.name for case in chosen}:
        parser.error(f"unknown examples: {', '.join(sorted(unknown))}")
    began, verdicts = time.monotonic(), []
    with concurrent.futures.ThreadPoolExecutor(args.parallel) as pool:
        running = {pool.submit(explore, case, args): case for case in chosen}
        for done in concurrent.futures.as_completed(running):
            case, verdict = running[done], done.result()
            verdicts.append(verdict)
            text = f"{verdict.done} of {verdict.plans} plans, {len(verdict.explained)} complaints that are explained"
            print(f"{case.name}: {'FAILED' if verdict.wrong else 'ok'}: {text}", flush=True)
            for line in verdict.wrong + (verdict.explained if args.verbose else []):
                print(f"  {line}", flush=True)
    done, plans = sum(one.done for one in verdicts), sum(one.plans for one in verdicts)
    failed = sum(bool(one.wrong) for one in verdicts)
    minutes = (time.monotonic() - began) / 60
    print(f"{len(verdicts)} examples, {failed} failed, in {minutes:.1f} minutes: {done} of {plans} plans, the others "
          f"are not explored (at most {args.plans} of each example)")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
