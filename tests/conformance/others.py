#!/usr/bin/env python3
"""
Runs integration tests of controller-runtime and kube-rs on sandboxes, in place of their own clusters.

Their published sources are tested: the Go module of ``controller-runtime/go.mod``, and the crates of the
operator in the benches. Only the standard library is used. Usage: see --help and README.md.
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODULE = HERE / "controller-runtime"
# Depends on all crates of kube-rs.
OPERATOR = HERE.parents[1] / "benches" / "implementations" / "kube-rs"

# Packages whose suites start an API server.
PACKAGES = [
    "client", "client/apiutil", "cache", "cluster", "builder", "source", "handler", "controller",
    "controller/controllerutil", "manager", "internal/recorder",
]
# Tests of kube-rs that are ignored without a cluster.
CRATES = {
    "kube-client": ["--features", "client,rustls-tls,ring,ws,jsonpatch"],
    "kube-runtime": [],
    "kube": ["--features", "client,derive,runtime,rustls-tls,ring,ws,jsonpatch"],
}
# The crates of kube-rs; they test each other. Published manifests lack such development dependencies.
FAMILY = ["kube", "kube-client", "kube-core", "kube-derive", "kube-runtime"]
TESTED_BY_KUBE = """
[dev-dependencies.kube]
path = "../kube"
features = ["client", "derive", "runtime", "rustls-tls", "ring", "ws"]
"""
SECONDS = 600
SUMMARY = re.compile(r"(\d+) Passed \| (\d+) Failed")
RESULT = re.compile(r"test result: \w+\. (\d+) passed; (\d+) failed")


def fail(message: str) -> None:
    print(f"conformance: {message}", file=sys.stderr)
    raise SystemExit(1)


def run(name: str, command: list[str], logs: Path, **options: object) -> str:
    """Runs a command, and keeps its output in a file of the given name."""
    process = subprocess.Popen(
        command, text=True, errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True, **options)  # type: ignore[call-overload]
    try:
        output: str = process.communicate(timeout=SECONDS)[0]
    except BaseException as e:
        # The group: the sandbox and its command.
        os.killpg(process.pid, signal.SIGKILL)
        output = process.communicate()[0]
        if not isinstance(e, subprocess.TimeoutExpired):
            raise
        output += f"\nno result within {SECONDS} seconds\n"
    (logs / f"{name.replace('/', '-')}.log").write_text(output, encoding="utf-8")
    return output


def read_failing() -> dict[str, int]:
    """Returns the numbers of tests that are known to fail, by suite."""
    lines = (HERE / "failing-others.tsv").read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines if line and not line.startswith("#"))
    return {name: int(number) for name, number, _ in rows}


def controller_runtime(kopf: Path, logs: Path) -> dict[str, tuple[int, int]]:
    """Returns passed and failed specs by package."""
    if shutil.which("go") is None:
        fail("'go' is not found: install Go (https://go.dev/doc/install)")
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-mod=readonly",
                   "CGO_ENABLED": "0"}
    path = "sigs.k8s.io/controller-runtime"
    listed = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", path], cwd=MODULE, env=environment, text=True,
        stdout=subprocess.PIPE, check=True)
    folder = Path(listed.stdout.strip())
    programs = logs.parent / "controller-runtime"
    programs.mkdir(parents=True, exist_ok=True)
    results = {}
    for package in PACKAGES:
        program = programs / f"{package.replace('/', '-')}.test"
        subprocess.run(
            ["go", "test", "-c", "-vet=off", "-o", str(program), f"{path}/pkg/{package}"],
            cwd=MODULE, env=environment, check=True)
        output = run(
            f"controller-runtime/{package}",
            [str(kopf), "sandbox", "--", str(program), "--ginkgo.no-color"],
            logs, cwd=folder / "pkg" / package, env={**environment, "USE_EXISTING_CLUSTER": "true"})
        found = SUMMARY.search(output)
        counts = (int(found[1]), int(found[2])) if found else (0, 1)
        # Tests without Ginkgo are not in its summary.
        plain = len(re.findall(r"^--- FAIL", output, re.MULTILINE)) if counts[1] == 0 else 0
        results[f"controller-runtime {package}"] = (counts[0], counts[1] + plain)
        show(f"controller-runtime {package}", results)
    return results


def copy_kube_rs(folder: Path) -> None:
    """Makes one workspace of the published sources of kube-rs."""
    listed = subprocess.run(
        ["cargo", "metadata", "--format-version=1", "--locked"], cwd=OPERATOR, text=True,
        stdout=subprocess.PIPE, check=True)
    manifests = {p["name"]: Path(p["manifest_path"]) for p in json.loads(listed.stdout)["packages"]}
    for crate in FAMILY:
        shutil.copytree(manifests[crate].parent, folder / crate, dirs_exist_ok=True)
        # The published file can require versions that are withdrawn.
        (folder / crate / "Cargo.lock").unlink(missing_ok=True)
    for crate in ["kube-client", "kube-runtime"]:
        with (folder / crate / "Cargo.toml").open("a", encoding="utf-8") as manifest:
            manifest.write(TESTED_BY_KUBE)
    shutil.copyfile(OPERATOR / "Cargo.lock", folder / "Cargo.lock")
    patches = "".join(f'{crate} = {{ path = "{crate}" }}\n' for crate in FAMILY)
    (folder / "Cargo.toml").write_text(
        f'[workspace]\nresolver = "3"\nmembers = {json.dumps(FAMILY)}\n\n[patch.crates-io]\n{patches}',
        encoding="utf-8")


def kube_rs(kopf: Path, logs: Path) -> dict[str, tuple[int, int]]:
    """Returns passed and failed tests by crate."""
    folder = logs.parent / "kube-rs"
    copy_kube_rs(folder)
    results = {}
    for crate, options in CRATES.items():
        test = ["cargo", "test", "--lib", *options]
        # Not within the time of the tests: building takes minutes.
        subprocess.run([*test, "--quiet", "--no-run"], cwd=folder / crate, check=True)
        output = run(
            f"kube-rs/{crate}",
            [str(kopf), "sandbox", "--simulate=pods", "--", *test, "--", "--ignored", "--test-threads=1"],
            logs, cwd=folder / crate)
        found = RESULT.search(output)
        results[f"kube-rs {crate}"] = (int(found[1]), int(found[2])) if found else (0, 1)
        show(f"kube-rs {crate}", results)
    return results


def show(name: str, results: dict[str, tuple[int, int]]) -> None:
    passed, failed = results[name]
    print(f"{name}: {passed} passed, {failed} failed", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--kopf", type=Path, required=True, help="the kopf command")
    parser.add_argument("--logs", type=Path, required=True, help="folder for the outputs")
    parser.add_argument("--suite", choices=["controller-runtime", "kube-rs"], help="only one of them")
    args = parser.parse_args()
    args.logs.mkdir(parents=True, exist_ok=True)
    results: dict[str, tuple[int, int]] = {}
    if args.suite != "kube-rs":
        results |= controller_runtime(args.kopf.resolve(), args.logs.resolve())
    if args.suite != "controller-runtime":
        results |= kube_rs(args.kopf.resolve(), args.logs.resolve())
    known = read_failing()
    print("\n| suite | passed |\n|---|---|")
    for name, (passed, failed) in results.items():
        print(f"| {name} | {passed} of {passed + failed} |")
    lost = [name for name, (_, failed) in results.items() if failed > known.get(name, 0)]
    for name in lost:
        print(f"{name}: more tests fail than failing-others.tsv lists")
    raise SystemExit(1 if lost else 0)


if __name__ == "__main__":
    main()
