#!/usr/bin/env python3
"""
Runs Kubernetes' own end-to-end specs that need no nodes, on a sandbox or on a real control plane.

Every spec runs in a process of its own, so that a crash or a hang costs one spec. On the sandbox, every spec
also has a server of its own, so that serial specs need not run alone.

Only the standard library is used. Usage: see --help and README.md.
"""
import argparse
import dataclasses
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NODES = HERE / "nodes.yaml"

# Flags that let the suite start without nodes and without a cloud.
FLAGS = [
    "--provider=skeleton", "--allowed-not-ready-nodes=-1", "--minStartupPods=-1", "--num-nodes=0",
    "--node-schedulable-timeout=5s", "--system-pods-startup-timeout=5s",
    "--system-daemonsets-startup-timeout=5s", "--e2e-verify-service-account=false",
    "--prepull-images=false", "--dump-logs-on-failure=false", "--disable-log-dump",
    "--ginkgo.no-color",
]
SECONDS = 180
SECONDS_WITH_NODES = 240
PASSED = re.compile(r"-- ([1-9]\d*) Passed \| 0 Failed")


@dataclasses.dataclass(frozen=True)
class Spec:
    position: str
    name: str
    needs_nodes: bool

    @property
    def area(self) -> str:
        return self.position.partition("/")[0]

    @property
    def is_serial(self) -> bool:
        return "[Serial]" in self.name

    @property
    def is_conformance(self) -> bool:
        return "[Conformance]" in self.name


@dataclasses.dataclass(frozen=True)
class Result:
    spec: Spec
    passed: bool
    seconds: float
    why: str


def fail(message: str) -> None:
    print(f"conformance: {message}", file=sys.stderr)
    raise SystemExit(1)


def read_specs() -> list[Spec]:
    specs = []
    for line in (HERE / "specs.tsv").read_text(encoding="utf-8").splitlines():
        position, name, *needs = line.split("\t")
        specs.append(Spec(position, name, needs == ["nodes"]))
    return specs


def read_failing() -> dict[str, str]:
    """Returns the reasons of the specs that are known to fail on the sandbox, by name."""
    lines = (HERE / "failing.tsv").read_text(encoding="utf-8").splitlines()
    return dict(line.split("\t") for line in lines if line and not line.startswith("#"))


def pattern(name: str) -> str:
    """Returns a regular expression (of Go) that matches the whole name of one spec."""
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", name) + "$"


def reason(output: str) -> str:
    """Returns the first line of the failure message of a spec."""
    found = re.search(r"^  \[FAILED\] (?!in \[)(.+)|^(\[FAILED\] no result.+)", output, re.MULTILINE)
    lines = [line for line in output.splitlines() if line.strip()]
    return ((found[1] or found[2]) if found else lines[-1] if lines else "no output").strip()[:200]


class Runner:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.logs: Path = args.logs
        self.logs.mkdir(parents=True, exist_ok=True)
        self.running: set[subprocess.Popen[str]] = set()
        self.lock = threading.Lock()
        self.stopped = False

    def command(self, spec: Spec, home: str) -> list[str]:
        test = [
            str(self.args.e2e), *FLAGS, f"--ginkgo.focus={pattern(spec.name)}",
            f"--kubectl-path={self.args.kubectl}", f"--repo-root={home}",
        ]
        if self.args.kubeconfig:
            return [*test, f"--kubeconfig={self.args.kubeconfig}"]
        # Loaded as a dump: new nodes get a taint until their kubelets report.
        manifests = ["--dump", str(NODES)] if spec.needs_nodes else []
        return [str(self.args.kopf), "sandbox", *manifests, "--", *test]

    def run(self, spec: Spec) -> Result:
        limit = SECONDS_WITH_NODES if spec.needs_nodes else SECONDS
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="kopf-conformance.") as home:
            if self.stopped:
                raise KeyboardInterrupt
            process = subprocess.Popen(
                self.command(spec, home), text=True, errors="replace", cwd=home,
                env={**os.environ, "HOME": home, "TMPDIR": home, "KUBECACHEDIR": f"{home}/cache"},
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                start_new_session=True)
            with self.lock:
                self.running.add(process)
            try:
                output, _ = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                self.kill(process)
                output = process.communicate()[0] + f"\n[FAILED] no result within {limit} seconds\n"
            finally:
                with self.lock:
                    self.running.discard(process)
        passed = process.returncode == 0 and PASSED.search(output) is not None
        log = self.logs / (re.sub(r"\W+", "-", spec.position + spec.name[-40:]) + ".log")
        log.write_text(output, encoding="utf-8")
        return Result(spec, passed, time.monotonic() - started, "" if passed else reason(output))

    @staticmethod
    def kill(process: "subprocess.Popen[str]") -> None:
        # Kills the process group: the sandbox, the suite and kubectl. Each spec has its own group.
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def stop(self) -> None:
        self.stopped = True
        with self.lock:
            for process in self.running:
                self.kill(process)


def run_all(runner: Runner, specs: list[Spec], jobs: int, expected: dict[str, str]) -> list[Result]:
    results: list[Result] = []
    # Serial specs must run alone on a shared server; sandboxes are not shared.
    shared = runner.args.kubeconfig is not None
    together = [spec for spec in specs if not (shared and spec.is_serial)]
    alone = [spec for spec in specs if shared and spec.is_serial]
    try:
        for workers, part in ((jobs, together), (1, alone)):
            with ThreadPoolExecutor(max_workers=workers) as pool:
                try:
                    for result in pool.map(runner.run, part):
                        results.append(result)
                        show(result, len(results), len(specs), expected)
                except BaseException:
                    runner.stop()
                    raise
    except KeyboardInterrupt:
        fail("interrupted")
    return results


def show(result: Result, number: int, total: int, expected: dict[str, str]) -> None:
    verdict = "passed" if result.passed else "known " if result.spec.name in expected else "FAILED"
    print(f"[{number:3}/{total}] {verdict} {result.seconds:5.1f} s  {result.spec.position}  "
          f"{result.spec.name}", flush=True)
    if not result.passed:
        print(f"                  {result.why}", flush=True)


def table(results: list[Result]) -> str:
    """Returns the results by area, in Markdown."""
    lines = ["| area | passed | of which tagged as conformance |", "|---|---|---|"]

    def row(title: str, part: list[Result]) -> str:
        tagged = [r for r in part if r.spec.is_conformance]
        return (f"| {title} | {sum(r.passed for r in part)} of {len(part)} "
                f"| {sum(r.passed for r in tagged)} of {len(tagged)} |")

    for area in sorted({r.spec.area for r in results}):
        lines.append(row(area, [r for r in results if r.spec.area == area]))
    lines.append(row("**all**", results))
    return "\n".join(lines)


def judge(results: list[Result], expected: dict[str, str]) -> int:
    lost = [r for r in results if not r.passed and r.spec.name not in expected]
    won = [r for r in results if r.passed and r.spec.name in expected]
    for r in won:
        print(f"passes, though failing.tsv lists it: {r.spec.name}")
    for r in lost:
        print(f"fails, and failing.tsv does not list it: {r.spec.name}\n    {r.why}")
    return 1 if lost or won else 0


@contextmanager
def control_plane() -> Iterator[str]:
    """Runs a real control plane during the block; yields its kubeconfig."""
    process = subprocess.Popen(
        [str(ROOT / "tests/control-plane/run.sh"), "--until-stdin-ends"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin and process.stdout
    try:
        values = {}
        for line in process.stdout:
            if line.strip() == "ready":
                break
            name, _, value = line.strip().partition("=")
            values[name] = value
        else:
            fail("the control plane does not start (see above)")
        yield values["kubeconfig"]
    finally:
        process.stdin.close()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--server", choices=["sandbox", "control-plane"], default="sandbox")
    parser.add_argument("--kopf", type=Path, help="the kopf command (for the sandbox)")
    parser.add_argument("--e2e", type=Path, required=True, help="Kubernetes' e2e.test")
    parser.add_argument("--kubectl", type=Path, required=True, help="of the same version")
    parser.add_argument("--only", default="", help="regular expression: specs whose position or name it matches")
    parser.add_argument("--jobs", type=int, default=2, help="specs at once (default: 2)")
    parser.add_argument("--logs", type=Path, required=True, help="folder for the outputs of the specs")
    parser.add_argument("--results", type=Path, help="file to write the Markdown table to")
    args = parser.parse_args()
    args.kubeconfig = None
    specs = [s for s in read_specs() if re.search(args.only, f"{s.position} {s.name}")]
    if not specs:
        fail(f"no spec matches {args.only!r}")
    if args.server == "sandbox":
        if args.kopf is None:
            fail("the sandbox needs --kopf")
        known = read_failing()
        results = run_all(Runner(args), specs, args.jobs, known)
    else:
        known = {}
        with control_plane() as kubeconfig:
            args.kubeconfig = kubeconfig
            create_nodes(args, specs)
            results = run_all(Runner(args), specs, args.jobs, known)
    print()
    print(table(results))
    if args.results:
        args.results.write_text(table(results) + "\n", encoding="utf-8")
    raise SystemExit(judge(results, known))


def create_nodes(args: argparse.Namespace, specs: list[Spec]) -> None:
    """Creates nodes for all specs of a shared server; specs that need none ignore them."""
    if not any(spec.needs_nodes for spec in specs):
        return
    kubectl = [str(args.kubectl), f"--kubeconfig={args.kubeconfig}"]
    subprocess.run([*kubectl, "apply", "-f", str(NODES)], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*kubectl, "apply", "--server-side", "--force-conflicts", "--subresource=status",
                    "-f", str(NODES)], check=True, stdout=subprocess.DEVNULL)
    # New nodes get a taint until their kubelets report.
    subprocess.run([*kubectl, "patch", "nodes", "node-1", "node-2", "--type=merge",
                    "-p", '{"spec": {"taints": null}}'], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
