"""`help()` of decorators explains their options; type checkers know the additions."""

from __future__ import annotations

import ast
import inspect
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import kopf
import pytest
from kopf._front.declare import documenting

DECORATORS = {
    name: value for name, value in vars(kopf.on).items()
    if inspect.isfunction(value) and not name.startswith("_")
}


@pytest.mark.parametrize("name", DECORATORS)
def test_all_options_are_explained(name: str) -> None:
    fn = DECORATORS[name]
    options = [one.name for one in inspect.signature(fn).parameters.values()
               if one.kind is inspect.Parameter.KEYWORD_ONLY]
    text = inspect.getdoc(fn) or ""
    missing = [option for option in options if f"- ``{option}``: " not in text]
    assert missing == [], "add them to kopf._front.declare.documenting.OPTIONS"
    assert all(len(line) <= 100 for line in text.splitlines())


@pytest.mark.parametrize("name", DECORATORS)
def test_decorators_have_an_example_that_compiles(name: str) -> None:
    text = (inspect.getdoc(DECORATORS[name]) or "").partition("\n\nOptions:")[0]
    blocks = re.findall(r"::\n\n((?:    .*\n|\n)+)", text + "\n")
    assert blocks, "no example"
    for block in blocks:
        ast.parse(textwrap.dedent(block))
        assert name in block


def test_explained_options_exist() -> None:
    options = {one for fn in DECORATORS.values() for one in inspect.signature(fn).parameters}
    assert set(documenting.OPTIONS) <= options


def test_docstrings_can_be_absent() -> None:
    code = "import kopf, sys; sys.exit(kopf.on.create.__doc__ is not None)"
    assert subprocess.run([sys.executable, "-OO", "-c", code], check=False).returncode == 0


CODE = '''
import asyncio, dataclasses
from typing import Any
import kopf
from kopf import testing

@kopf.crd("kopf.dev", "v1", "gateways", columns=[kopf.PrinterColumn("Host", ".spec.host", type="string")])
@dataclasses.dataclass
class Gateway:
    host: str

reveal_type(Gateway)

@kopf.on.create(Gateway)
@kopf.on.update("kopfexamples", owns=[Gateway, "pods"])
@kopf.timer(Gateway, interval=1)
async def fn(spec: Gateway, **_: Any) -> None:
    child = await kopf.apply_child(Gateway("x"))
    reveal_type(child)
    reveal_type(child.effect)
    reveal_type(child.object)
    await asyncio.gather(kopf.apply_child({}), kopf.apply_child({}))

@kopf.on.delete(Gateway)
def gone(**_: Any) -> None:
    reveal_type(kopf.apply_child({}, force=True).effect)
    try:
        kopf.apply_child({})
    except kopf.ApplyError as error:
        reveal_type(error.code)
        reveal_type(error.reason)
        reveal_type(error.conflicts)

def test() -> None:
    with testing.sandbox("crd.yaml", time="virtual", environ=True) as cluster:
        reveal_type(cluster)
        cluster.advance(60, patience=1)
        reveal_type(cluster.add_faults({"fault": "reset"}))
        reveal_type(cluster.new_event_loop())
    testing.sandbox(time="never")  # error
    kopf.PrinterColumn("Host", ".spec.host", type="text")  # error
    kopf.OperatorSettings().posting.enabeld = False  # error
    kopf.apply_child_sync({})  # error
'''

REVEALED = [
    "def (host: str) -> code.Gateway",
    "kopf.AppliedChild",
    "Literal['created'] | Literal['changed'] | Literal['unchanged']",
    "dict[str, Any]",
    "Literal['created'] | Literal['changed'] | Literal['unchanged']",
    "int | None",
    "str | None",
    "tuple[tuple[str, str, fallback=kopf.FieldConflict], ...]",
    "kopf.sandbox",
    "list[int]",
    "asyncio.events.AbstractEventLoop",
]


def test_type_checkers_know_the_additions(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "code.py"
    path.write_text(CODE)
    options = ["--strict", "--no-error-summary", "--cache-dir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(path)], capture_output=True, text=True, check=False,
        env={**os.environ, "MYPYPATH": os.environ.get("PYTHONPATH", "")},
    )
    lines = CODE.splitlines()
    revealed, errors = [], []
    for line in done.stdout.splitlines():
        number, kind, text = line.partition("code.py:")[2].split(":", 2)
        if "Revealed type is" in text:
            text = text.partition('"')[2].removesuffix('"').replace("builtins.", "")
            revealed.append(re.sub(r"\bkopf\.(_\w+\.)+(\w+\.)*(?=[A-Za-z])", "kopf.", text))
        elif kind.strip() == "error":
            errors.append(int(number))
    assert errors == [number for number, line in enumerate(lines, 1) if line.endswith("# error")]
    assert revealed == REVEALED
