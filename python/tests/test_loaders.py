"""Loading of handler files and modules, and descriptions of failures."""

from __future__ import annotations

import operator
import pathlib
import sys

import pytest

from kopf._front.declare import registries
from kopf._front.tools.loaders import describe_failure, preload

pytestmark = pytest.mark.usefixtures("clean_imports")


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def failure(paths: list[str] | None = None, modules: list[str] | None = None) -> str:
    with pytest.raises(Exception) as caught:
        preload(paths or [], modules or [])
    description = describe_failure(caught.value)
    assert description is not None
    return description


def test_files_are_loaded_in_order_before_modules(folder: pathlib.Path) -> None:
    trace = "import sys\nsys.kopf_trace = getattr(sys, 'kopf_trace', []) + [__name__]\n"
    for name in ("one.py", "two.py", "kopf_test_module.py"):
        (folder / name).write_text(trace)
    try:
        preload(["two.py", "one.py"], ["kopf_test_module"])
        found = sys.kopf_trace  # type: ignore[attr-defined]
    finally:
        del sys.kopf_trace  # type: ignore[attr-defined]
        del sys.modules["kopf_test_module"]
    assert found == ["__kopf_script_0__two.py", "__kopf_script_1__one.py", "kopf_test_module"]


def test_directories_of_files_are_on_the_import_path(folder: pathlib.Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "kopf_test_helper.py").write_text("value = 1")
    (folder / "sub" / "main.py").write_text("import kopf_test_helper")
    preload(["sub/main.py"], [])
    assert sys.path[0] == str(folder / "sub")
    del sys.modules["kopf_test_helper"]


def test_files_named_as_standard_modules_do_not_replace_them(folder: pathlib.Path) -> None:
    (folder / "operator.py").write_text("import operator; assert operator.itemgetter")
    preload(["operator.py"], [])
    assert sys.modules["operator"] is operator


def test_string_annotations_of_dataclasses_are_resolved(folder: pathlib.Path) -> None:
    (folder / "x.py").write_text(
        "from __future__ import annotations\nimport dataclasses\nfrom typing import ClassVar\n"
        "@dataclasses.dataclass\nclass A:\n    x: ClassVar[int] = 1\n"
        "assert not dataclasses.fields(A)\n"
    )
    preload(["x.py"], [])


def test_missing_file(folder: pathlib.Path) -> None:
    assert failure(["absent.py"]) == "Error: cannot load absent.py: no such file"


def test_directory(folder: pathlib.Path) -> None:
    (folder / "package").mkdir()
    assert "it is a directory; use -m for packages" in failure(["package"])


def test_other_kind_of_file(folder: pathlib.Path) -> None:
    (folder / "notes.txt").write_text("")
    assert "Failed loading notes.txt: no module or loader." in failure(["notes.txt"])


def test_missing_module() -> None:
    text = failure(modules=["kopf_absent.handlers"])
    assert text.startswith("Error: cannot load module kopf_absent.handlers: No module named")
    assert "Traceback" not in text


def test_missing_import_of_a_file_has_a_traceback(folder: pathlib.Path) -> None:
    (folder / "x.py").write_text("import kopf_absent\n")
    text = failure(["x.py"])
    assert 'x.py", line 1, in <module>' in text
    assert text.endswith("cannot load x.py: ModuleNotFoundError: No module named 'kopf_absent'")


def test_syntax_error_names_the_line(folder: pathlib.Path) -> None:
    (folder / "x.py").write_text("import kopf\ndef f(:\n")
    text = failure(["x.py"])
    assert 'x.py", line 2' in text
    assert text.endswith("Error: cannot load x.py: SyntaxError: invalid syntax")


def test_exception_has_only_frames_of_the_user(folder: pathlib.Path) -> None:
    (folder / "x.py").write_text("def f():\n    raise ValueError('boom')\nf()\n")
    text = failure(["x.py"])
    files = [line for line in text.splitlines() if line.startswith("  File ")]
    assert [line.rpartition("x.py")[2] for line in files] == [
        '", line 3, in <module>',
        '", line 2, in f',
    ]
    assert text.endswith("Error: cannot load x.py: ValueError: boom")


def test_other_exceptions_are_not_described() -> None:
    assert describe_failure(ValueError()) is None


@pytest.mark.parametrize("line", [
    "@kopf.on.create()", "@kopf.on.create('x', field=5)", "@kopf.on.create('x', errors='x')",
    "@kopf.timer('x', interval='x')",
])
def test_frames_of_the_framework_are_omitted(folder: pathlib.Path, line: str) -> None:
    (folder / "x.py").write_text(f"import kopf\n{line}\ndef fn(**_): ...\n")
    description = failure(["x.py"])
    assert line in description
    assert "_front" not in description


def test_frames_between_those_of_the_user_are_kept(folder: pathlib.Path) -> None:
    (folder / "x.py").write_text(
        "import json\ndef hook(_): raise ValueError('deep')\n"
        "json.loads('{}', object_hook=hook)\n"
    )
    description = failure(["x.py"])
    assert "in hook" in description
    assert "in loads" in description


def test_files_without_handlers_are_reported(
    folder: pathlib.Path, caplog: pytest.LogCaptureFixture,
) -> None:
    (folder / "empty.py").write_text("def create(**_): pass\n")
    (folder / "full.py").write_text(
        "import kopf\n@kopf.on.create('kopfexamples')\ndef create(**_): pass\n")
    (folder / "kopf_empty_module.py").write_text("")
    former = registries._default_registry
    try:
        preload(["empty.py", "full.py"], ["kopf_empty_module"])
    finally:
        registries._default_registry = former
        del sys.modules["kopf_empty_module"]
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert messages[0].startswith("No handlers are declared in empty.py: functions need a decorator")
    assert messages[1].startswith("No handlers are declared in module kopf_empty_module:")


@pytest.mark.parametrize(
    ("decorator", "function"),
    [
        ("kopf.on.create", "async def fn(**_)"),
        ("kopf.on.update", "def fn(**_)"),
        ("kopf.on.event", "def fn(spec, **_)"),
        ("kopf.timer", "def fn(body)"),
        ("kopf.on.validate", "def fn(spec, meta, **_)"),
    ],
)
def test_decorators_without_parentheses_are_errors(
    folder: pathlib.Path, decorator: str, function: str,
) -> None:
    (folder / "bare.py").write_text(f"import kopf\n@{decorator}\n{function}: pass\n")
    text = failure(["bare.py"])
    assert text.endswith(
        f"TypeError: fn() is decorated without parentheses: add the resource, such as "
        f"@{decorator}('kopfexamples')"), text


def test_functions_of_resources_are_no_handlers(folder: pathlib.Path) -> None:
    (folder / "selecting.py").write_text(
        "import kopf\n"
        "registry = kopf.OperatorRegistry()\n"
        "for fn in (lambda resource: True, lambda r, **_: True, bool, str.isalpha):\n"
        "    kopf.on.create(fn, registry=registry)\n")
    preload(["selecting.py"], [])
