"""Explorations: an operator in processes of its own, with one thing going wrong in each run."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_Path = str | os.PathLike[str]


class ExplorationError(Exception):
    """No exploration is possible: the operator is not stable, or the input is invalid.

    Its message is that of ``kopf explore``, which says what to do::

        def explore_if_stable() -> None:
            try:
                kopf.testing.explore("handlers.py", object="obj.yaml").check()
            except kopf.testing.ExplorationError as error:
                print(f"not explored: {error}")
    """


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something that went wrong with the operator: what was done to it, and what was wrong then.

    As a text, it is one sentence::

        def print_findings(found: kopf.testing.Exploration) -> None:
            for finding in found.findings:
                print(finding, finding.oracles)
    """

    description: str
    """What was done to the operator, in one sentence."""
    effects: tuple[str, ...]
    """What was wrong then."""
    oracles: tuple[str, ...]
    """The violated rules, such as ``converged`` and ``quiet``."""
    data: Mapping[str, Any]
    """The finding as in the report: deviation, steps, differences."""

    def __str__(self) -> str:
        return f"If {self.description}, then {'; '.join(self.effects)}"


@dataclasses.dataclass(frozen=True)
class Exploration:
    """The result of an exploration: all findings that could be repeated, and the whole report.

    In a test, it is checked, which fails with all findings::

        def check(found: kopf.testing.Exploration) -> None:
            found.check()
            assert found.data["findings"] == []
    """

    findings: tuple[Finding, ...]
    """What was found, without what could not be repeated."""
    data: Mapping[str, Any]
    """The whole report, as of ``kopf explore -o json``."""

    def check(self) -> None:
        """Raises an ``AssertionError`` with all findings, if there are any."""
        if self.findings:
            raise AssertionError("\n".join(str(one) for one in self.findings))


def explore(
    *files: _Path,
    command: Sequence[_Path] | None = None,
    manifests: Iterable[_Path] = (),
    object: _Path | Mapping[str, Any] | None = None,
    scenario: _Path | Sequence[Mapping[str, Any]] | None = None,
    only: Iterable[str] = (),
    always: Iterable[str] = (),
    finally_: Iterable[str] = (),
    ignore: Iterable[str] = (),
    without: Iterable[str] = (),
    report: _Path | None = None,
    **options: str | int | bool,
) -> Exploration:
    """Explores an operator, as ``kopf explore`` does: runs it often, with one fault in each run.

    The operator is the files with handlers, or any other command. It runs in processes of its own,
    each on its own API server in memory. Returns what was found::

        def check_operator(time: str = "5m") -> None:
            found = kopf.testing.explore(
                "handlers.py", manifests=["crd.yaml"], object="obj.yaml", time=time,
            )
            found.check()

    Arguments:

    - ``files``: files with handlers, for ``kopf run``.
    - ``command``: the command of an operator in any language, instead of files.
    - ``manifests``: files with objects that exist before the operator starts, with its CRDs.
    - ``object``: an object, or a file with one, from which the scenario is derived: it is created,
      each field is changed and changed back, and it is deleted.
    - ``scenario``: a file with the steps of the user, or a list of steps, instead of an object.
    - ``only``: the deviations to try, such as ``"crash"`` and ``"stale"``; by default all.
    - ``always``: expressions in CEL that must hold after each change.
    - ``finally_``: expressions in CEL that must hold at the end.
    - ``ignore``: paths of fields that are not compared.
    - ``without``: the rules that are not checked, such as ``"quiet"``.
    - ``report``: a folder for the report; by default, there is none.
    - ``options``: other options of the command line, with underscores: ``plans=100``,
      ``settle="1s"``, ``simulate="all"``, ``replicas=2``, ``fail_fast=True``.
    """
    if bool(files) == (command is not None):
        raise TypeError("either files with handlers or a command is required, not both")
    if command is None:
        run = [sys.executable, "-m", "kopf", "run", "--all-namespaces", "--standalone"]
        command = [*run, *files]
    arguments: list[str] = ["-o", "json"]
    for name, values in [
        ("filename", manifests), ("only", only), ("always", always), ("finally", finally_),
        ("ignore", ignore), ("without", without),
    ]:
        for value in values:
            arguments += [f"--{name}", os.fspath(value)]
    for name, option in options.items():
        if option is True:
            arguments.append(_name(name))
        elif option is not False:
            arguments += [_name(name), str(option)]
    # JSON is YAML.
    given: list[tuple[str, _Path | Mapping[str, Any] | None]] = [("object", object)]
    if isinstance(scenario, (str, os.PathLike)) or scenario is None:
        given.append(("scenario", scenario))
    else:
        given.append(("scenario", {"steps": list(scenario)}))
    with tempfile.TemporaryDirectory(prefix="kopf-explore-") as folder:
        for name, content in given:
            if isinstance(content, Mapping):
                path = pathlib.Path(folder) / f"{name}.yaml"
                path.write_text(json.dumps(content), encoding="utf-8")
                arguments += [f"--{name}", str(path)]
            elif content is not None:
                arguments += [f"--{name}", os.fspath(content)]
        arguments += ["--report", f"{folder}/report" if report is None else os.fspath(report)]
        return _run([*arguments, "--", *(os.fspath(word) for word in command)])


def _name(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def _run(arguments: list[str]) -> Exploration:
    process = subprocess.run(
        [sys.executable, "-m", "kopf", "explore", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", check=False,
    )
    if process.returncode not in (0, 1):
        raise ExplorationError(process.stderr.strip())
    data = json.loads(process.stdout)
    findings = [
        Finding(
            description=one["description"],
            effects=tuple(complaint["summary"] for complaint in one["complaints"]),
            oracles=tuple(complaint["oracle"] for complaint in one["complaints"]),
            data=one,
        )
        for one in data["findings"]
    ]
    return Exploration(findings=tuple(findings), data=data)
