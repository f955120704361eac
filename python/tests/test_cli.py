"""The command line: options, variables, exit codes. Expected results are those of Kopf 1.45.2."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import threading
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from behaviour import until
from kopf import cli
from kopf._front.bridge import loggers, running

pytestmark = pytest.mark.usefixtures("clean_imports", "clean_logging")

DEFAULTS = {
    "standalone": None,
    "namespaces": (),
    "clusterwide": False,
    "priority": None,
    "peering_name": None,
    "liveness_endpoint": None,
    "metrics_endpoint": None,
    "registry": None,
    "settings": None,
    "stop_flag": None,
    "ready_flag": None,
    "vault": None,
    "handle_signals": True,
}


class Calls(list[dict[str, Any]]):
    """Calls of `running.run()`, and methods that cause them."""

    def invoke(self, *args: str, env: dict[str, str] | None = None, obj: Any = None) -> Result:
        return CliRunner().invoke(cli.main, args, env=env, obj=obj)

    def options(self, *args: str, env: dict[str, str] | None = None) -> dict[str, Any]:
        result = self.invoke("run", *args, env=env)
        assert result.exit_code == 0, result.output
        (call,) = self
        call.pop("loop")
        call.pop("settings")
        return {key: value for key, value in call.items() if value != DEFAULTS[key]}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    found = Calls()
    monkeypatch.setattr(running, "run", lambda **kwargs: found.append(kwargs))
    return found


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ([], {}),
        (["-A"], {"clusterwide": True}),
        (["--all-namespaces"], {"clusterwide": True}),
        (["-n", "a*,!b", "--namespace", "c"], {"namespaces": ("a*,!b", "c")}),
        (["--standalone"], {"standalone": True}),
        (["--dev"], {"priority": 666}),
        (["--dev", "-p", "5"], {"priority": 666}),
        (["--priority", "5"], {"priority": 5}),
        (["-P", "x"], {"peering_name": "x"}),
        (["-L", "http://:8080"], {"liveness_endpoint": "http://:8080"}),
        (["--metrics", "http://:9090"], {"metrics_endpoint": "http://:9090"}),
    ],
)
def test_options_of_running(calls: Calls, args: list[str], options: dict[str, Any]) -> None:
    assert calls.options(*args) == options


def test_settings_of_running(calls: Calls) -> None:
    calls.invoke("run", "-A")
    calls.invoke("run", "-A", "--install-crds")
    calls.invoke("run", "-A", "--sandbox")
    scanning = [call["settings"].scanning for call in calls]
    assert [settings.install_crds for settings in scanning] == [False, True, False]
    assert [settings.review_permissions for settings in scanning] == [True, True, False]


@pytest.mark.parametrize(
    ("env", "options"),
    [
        ({"KOPF_RUN_CLUSTERWIDE": "true"}, {"clusterwide": True}),
        ({"KOPF_RUN_NAMESPACES": "x y"}, {"namespaces": ("x", "y")}),
        ({"KOPF_RUN_NAMESPACE": "z"}, {"namespaces": ("z",)}),
        (
            {"KOPF_RUN_NAMESPACES": "x y", "KOPF_RUN_NAMESPACE": "z"},
            {"namespaces": ("x", "y", "z")},
        ),
        ({"KOPF_RUN_PEERING": "p", "KOPF_RUN_PEERING_NAME": "q"}, {"peering_name": "p"}),
        ({"KOPF_RUN_PEERING_NAME": "q"}, {"peering_name": "q"}),
        ({"KOPF_RUN_PRIORITY": "5"}, {"priority": 5}),
        ({"KOPF_RUN_STANDALONE": "1"}, {"standalone": True}),
        ({"KOPF_RUN_DEV": "true"}, {"priority": 666}),
        ({"KOPF_RUN_LIVENESS_ENDPOINT": "http://:1"}, {"liveness_endpoint": "http://:1"}),
        ({"KOPF_RUN_METRICS": "http://:2"}, {"metrics_endpoint": "http://:2"}),
        ({"KOPF_RUN_MODULES": "json os"}, {}),
    ],
)
def test_variables_of_running(calls: Calls, env: dict[str, str], options: dict[str, Any]) -> None:
    assert calls.options(env=env) == options


@pytest.mark.parametrize(
    ("args", "env", "expected"),
    [
        ([], {}, {}),
        (["-v"], {}, {"verbose": True}),
        (["-d", "-q"], {}, {"debug": True, "quiet": True}),
        (["--log-format", "PLAIN"], {}, {"log_format": loggers.LogFormat.PLAIN}),
        (["--log-refkey", "x", "--no-log-prefix"], {}, {"log_refkey": "x", "log_prefix": False}),
        ([], {"KOPF_RUN_LOG_FORMAT": "json"}, {"log_format": loggers.LogFormat.JSON}),
        ([], {"KOPF_RUN_LOG_PREFIX": "true"}, {"log_prefix": True}),
        ([], {"KOPF_RUN_VERBOSE": "true"}, {"verbose": True}),
    ],
)
def test_options_of_logging(
    calls: Calls,
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
    env: dict[str, str],
    expected: dict[str, Any],
) -> None:
    configured: list[dict[str, Any]] = []
    monkeypatch.setattr(loggers, "configure", lambda **kwargs: configured.append(kwargs))
    calls.options(*args, env=env)
    defaults = {"debug": False, "verbose": False, "quiet": False, "log_prefix": None,
                "log_format": loggers.LogFormat.FULL, "log_refkey": None}  # fmt: skip
    assert configured == [{**defaults, **expected}]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--bogus"], "No such option"),
        (["-n", "a", "-A"], "Either --namespace or --all-namespaces can be used, not both."),
        (["-p", "x"], "'x' is not a valid integer"),
        (["--log-format", "bogus"], "'bogus' is not one of 'plain', 'full', 'json'"),
        (["-f", "crd.yaml"], "--filename and --sandbox-port require --sandbox."),
    ],
)
def test_invalid_options_exit_with_2(calls: Calls, args: list[str], message: str) -> None:
    result = calls.invoke("run", *args)
    assert result.exit_code == 2
    assert message in result.output
    assert calls == []


def test_parameters_are_available_to_handler_files(calls: Calls, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("import click; click.echo(click.get_current_context().params['peering_name'])")
    assert calls.invoke("run", "-P", "mine", str(path)).stdout == "mine\n"


def test_exceptions_of_handler_files_reach_test_runners(
    calls: Calls, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "x.py"
    path.write_text("raise ValueError('boom')")
    result = calls.invoke("run", str(path))
    assert result.exit_code == 1
    assert isinstance(result.exception, ValueError)
    assert calls == []


def test_exit_codes_of_handler_files_are_kept(calls: Calls, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("import sys; sys.exit(5)")
    assert calls.invoke("run", str(path)).exit_code == 5


def test_controls_are_passed_to_the_operator(
    calls: Calls, default_registry: object, tmp_path: pathlib.Path
) -> None:
    from kopf._front.declare import registries

    mine, stop = registries.OperatorRegistry(), threading.Event()
    path = tmp_path / "x.py"
    path.write_text(
        "import click\nfrom kopf._front.declare import registries\n"
        "assert click.get_current_context().obj.registry is registries.get_default_registry()\n"
    )
    controls = cli.CLIControls(registry=mine, stop_flag=stop)
    result = calls.invoke("run", str(path), obj=controls)
    assert result.exit_code == 0, result.exception
    assert calls[0]["registry"] is mine
    assert calls[0]["stop_flag"] is stop


def test_uvloop_is_used_if_installed(calls: Calls) -> None:
    uvloop = pytest.importorskip("uvloop")
    calls.invoke("run")
    assert isinstance(calls[0]["loop"], uvloop.Loop)
    assert calls[0]["loop"].is_closed()


@pytest.mark.parametrize("command", ["freeze", "resume"])
def test_pausing_commands_require_a_peering(command: str) -> None:
    result = CliRunner().invoke(cli.main, [command, "-A"])
    assert result.exit_code == 2
    assert "Missing option '-P' / '--peering'" in result.output


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["-A"], {"priority": 100, "identity": None, "clusterwide": True}),
        (
            ["-n", "a", "-i", "me", "--dev"],
            {"priority": 666, "identity": "me", "namespaces": ("a",)},
        ),
    ],
)
def test_options_of_freezing(
    monkeypatch: pytest.MonkeyPatch, args: list[str], expected: dict[str, Any]
) -> None:
    from kopf._front.tools import freezing

    found: list[dict[str, Any]] = []
    monkeypatch.setattr(freezing, "freeze", lambda **kwargs: found.append(kwargs))
    result = CliRunner().invoke(
        cli.main, ["freeze", *args, "-t", "60"], env={"KOPF_FREEZE_PEERING": "x"}
    )
    assert result.exit_code == 0, result.output
    assert found[0]["lifetime"] == 60
    assert found[0]["peering_name"] == "x"
    assert {key: found[0][key] for key in expected} == expected


@pytest.mark.parametrize("command", [["freeze", "-t", "60"], ["resume"]])
def test_failures_of_pausing_are_reported(
    monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    from kopf._front.tools import freezing

    def fail(**_: Any) -> None:
        raise RuntimeError("the peering is not found")

    monkeypatch.setattr(freezing, command[0], fail)
    result = CliRunner().invoke(cli.main, [*command, "-A", "-P", "x"])
    assert result.exit_code == 1
    assert result.output.endswith("Error: the peering is not found\n")


def test_missing_manifests_are_reported(calls: Calls) -> None:
    result = calls.invoke("run", "--sandbox", "-f", "absent.yaml")
    assert result.exit_code == 1
    assert "absent.yaml" in result.output
    assert "Traceback" not in result.output
    assert calls == []


def test_commands_of_the_original_and_ours() -> None:
    assert set(cli.main.commands) == {
        "run", "freeze", "resume", "peering", "sandbox", "demo", "crd", "rbac", "manifests", "new",
        "completions", "explore", "get", "explain", "retrigger", "release", "ui",
    }
    assert isinstance(cli.main, click.Group)


def kopf(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kopf", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_completions_are_printed(shell: str) -> None:
    result = CliRunner().invoke(cli.main, ["completions", shell])
    assert result.exit_code == 0, result.output
    assert f"_KOPF_COMPLETE={shell}_complete" in result.output


def test_completions_of_other_shells_are_rejected() -> None:
    result = CliRunner().invoke(cli.main, ["completions", "csh"])
    assert result.exit_code == 2
    assert "'csh' is not one of 'bash', 'fish', 'zsh'" in result.output


def test_version() -> None:
    import kopf as package

    done = kopf("--version")
    assert done.stdout == f"kopf, version {package.__version__}\n"


def test_processes_report_broken_files(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("raise ValueError('boom')")
    done = kopf("run", str(path))
    assert done.returncode == 1
    assert done.stderr.endswith(f"Error: cannot load {path}: ValueError: boom\n")
    assert "click" not in done.stderr


@pytest.mark.native
def test_demo_exits_with_once() -> None:
    done = kopf("demo", "--once")
    assert done.returncode == 0, done.stderr
    assert "Now it is gone." in done.stdout


def test_options_of_replicas_become_settings(calls: Calls) -> None:
    calls.invoke("run", "--leader-elect-name", "op", "--leader-elect-namespace", "ns",
                 env={"KOPF_RUN_SHARDS": "4"})
    settings = calls[0]["settings"]
    assert settings.leading.enabled
    assert (settings.leading.name, settings.leading.namespace) == ("op", "ns")
    assert settings.leading.shards == 4


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--leader-elect"], "--leader-elect-name"),
        (["--leader-elect-name", "op", "--shards", "many"], "'many'"),
    ],
)
def test_invalid_options_of_replicas_are_rejected(
    calls: Calls, args: list[str], message: str
) -> None:
    result = calls.invoke("run", *args)
    assert result.exit_code == 2
    assert message in result.output
    assert not calls


@pytest.mark.native
@pytest.mark.parametrize(("args", "group"), [([], "kopf.dev"), (["--legacy"], "zalando.org")])
def test_peering_prints_crds_and_default_objects(args: list[str], group: str) -> None:
    yaml = pytest.importorskip("yaml")
    result = CliRunner().invoke(cli.main, ["peering", *args])
    assert result.exit_code == 0
    documents = list(yaml.safe_load_all(result.stdout))
    crds = [doc["spec"]["group"] for doc in documents if doc["kind"] == "CustomResourceDefinition"]
    assert crds == [group, group]
    assert {doc["metadata"]["name"] for doc in documents if doc["kind"].endswith("KopfPeering")} == {"default"}


@pytest.mark.native
@pytest.mark.parametrize(("code", "expected"), [
    ("import sys; sys.exit(3)", 3),
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137),
])
def test_exit_codes_of_programs_on_a_sandbox_are_returned(code: str, expected: int) -> None:
    assert kopf("sandbox", "--", sys.executable, "-c", code).returncode == expected


@pytest.mark.native
def test_programs_on_a_sandbox_use_its_kubeconfig() -> None:
    code = "import os; print(open(os.environ['KUBECONFIG']).read())"
    done = kopf("sandbox", "--", sys.executable, "-c", code)
    assert "kopf-sandbox" in done.stdout


@pytest.mark.native
def test_missing_programs_are_reported() -> None:
    done = kopf("sandbox", "--", "absent-program")
    assert done.returncode == 127
    assert done.stderr.startswith("Error: cannot run absent-program: No such file")


@pytest.mark.native
def test_signals_are_forwarded_to_programs(tmp_path: pathlib.Path) -> None:
    code = (
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        f"pathlib.Path({str(tmp_path / 'ready')!r}).touch()\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-m", "kopf", "sandbox", "--", sys.executable, "-c", code]
    with subprocess.Popen(command) as process:
        until((tmp_path / "ready").exists, "the start of the program")
        process.terminate()
        assert process.wait(60) == 5


@pytest.mark.native
@pytest.mark.parametrize(("args", "end"), [
    ([], "Ctrl-C stops it and deletes all objects.\n"),
    (["--data", "kept"], "Ctrl-C stops it and keeps the objects in kept.\n"),
])
def test_greeting_says_what_happens_to_objects(
    args: list[str], end: str, tmp_path: pathlib.Path,
) -> None:
    command = [sys.executable, "-u", "-m", "kopf", "sandbox", *args]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert end in iter(process.stdout.readline, "")
        finally:
            process.terminate()


@pytest.mark.native
def test_dumps_are_imported_and_exported(tmp_path: pathlib.Path) -> None:
    dump, folder = tmp_path / "dump.json", tmp_path / "data"
    uid = "11111111-2222-3333-4444-555555555555"
    dump.write_text(json.dumps({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
        "metadata": {"name": "one", "namespace": "default", "uid": uid},
    }))
    done = kopf("sandbox", "import", "--data", str(folder), "-f", str(dump))
    assert (done.returncode, done.stdout) == (0, f"stored 1 object in {folder}\n"), done.stderr
    done = kopf("sandbox", "export", "--data", str(folder), "-o", "json")
    assert done.returncode == 0, done.stderr
    [found] = [obj for obj in json.loads(done.stdout)["items"] if obj["metadata"].get("uid") == uid]
    assert found["data"] == {"a": "b"}
    assert uid in kopf("sandbox", "export", "--data", str(folder)).stdout


@pytest.mark.native
@pytest.mark.parametrize(("args", "code", "message"), [
    (["export", "--data", "."], 1, "not a data folder of a sandbox"),
    (["--service", "ops/op"], 1, "must be NAMESPACE/NAME=https://"),
    (["--service", "ops/op=http://127.0.0.1"], 1, "must be NAMESPACE/NAME=https://"),
    (["import", "--data", "x", "-f", "absent.yaml"], 1, "absent.yaml"),
    (["--port", "1", "export", "--data", "."], 2, "cannot be combined with a subcommand"),
    (["bogus"], 2, "No such command 'bogus'"),
])
def test_invalid_sandbox_commands_are_rejected(
    args: list[str], code: int, message: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli.main, ["sandbox", *args])
    assert result.exit_code == code
    assert message in result.output


@pytest.mark.parametrize(
    ("args", "env", "message"),
    [
        (["-L", "xyz://foo"], {}, "'-L' / '--liveness': invalid address \"xyz://foo\""),
        (["-L", "http://0.0.0.0:99999/h"], {}, "the port must be a number up to 65535"),
        (["--metrics", "nope"], {}, "'--metrics': invalid address \"nope\""),
        (["--shards=0", "--leader-elect-name", "x"], {}, "number from 1 to 256, got '0'"),
        (["-n", "a b"], {}, "invalid namespace pattern \"a b\""),
        ([], {"KOPF_RUN_NAMESPACE": "ns* default"}, "KOPF_RUN_NAMESPACE: invalid namespace pattern"),
        (["--sandbox", "--sandbox-port", "99999"], {}, "99999 is not in the range"),
        (["-p", "99999999999999999999"], {}, "is not an integer of 64 bits"),
    ],
)
def test_invalid_options_are_usage_errors(
    calls: Calls, args: list[str], env: dict[str, str], message: str,
) -> None:
    result = calls.invoke("run", *args, env=env)
    assert result.exit_code == 2
    assert message in result.output.splitlines()[-1]
    assert not calls


@pytest.mark.parametrize(
    "args",
    [
        ["freeze", "-A", "-P", "x", "--lifetime", "-5"],
        ["freeze", "-A", "-P", "x", "--lifetime", "99999999999999999999"],
        ["freeze", "-A", "-P", "x", "--lifetime", "5", "-p", "99999999999999999999"],
        ["sandbox", "--port", "80000"],
    ],
)
def test_numbers_out_of_range_are_usage_errors(args: list[str]) -> None:
    result = CliRunner().invoke(cli.main, args)
    assert result.exit_code == 2, result.output
