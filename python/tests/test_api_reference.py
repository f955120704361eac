"""The reference of the Python API: complete, current, and with docstrings that explain something.

``python/api_reference.py`` makes the pages from the sources; their examples are run by ``test_docs.py``.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import pathlib
import sys
from typing import Any

import pytest

import kopf
import kopf.testing

ROOT = pathlib.Path(__file__).parents[2]

#: The minimum of a docstring: shorter ones only repeat the name.
WORDS = 12


@functools.cache
def reference() -> Any:
    """Returns the script that makes the pages."""
    path = ROOT / "python" / "api_reference.py"
    spec = importlib.util.spec_from_file_location("api_reference", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["api_reference"] = module
    spec.loader.exec_module(module)
    return module


NAMES = [name for page in reference().PAGES for name in page.names]
DECORATORS = [
    f"on.{name}"
    for name, value in vars(kopf.on).items()
    if inspect.isfunction(value) and value.__module__ == "kopf.on" and not name.startswith("_")
]


def test_every_public_name_is_on_one_page() -> None:
    public = {*kopf.__all__, *kopf._LAZY, "Conditions", "ApplyError", "FieldConflict", *DECORATORS}
    public |= {f"testing.{name}" for name in kopf.testing.__all__}
    assert len(NAMES) == len(set(NAMES))
    # Functions of hierarchies that the original exports without listing them.
    unlisted = {"harmonize_naming", "adjust_namespace"}
    assert public - {"on"} - set(reference().ALIASES) == set(NAMES) - unlisted


def test_pages_are_current() -> None:
    for name, text in reference().pages().items():
        page = reference().FOLDER / name
        assert page.exists() and page.read_text() == text, f"run python/api_reference.py: {name} is outdated"
    assert sorted(page.name for page in reference().FOLDER.glob("*.md")) == sorted(reference().pages())
    assert reference().index() in reference().INDEX.read_text(), "run python/api_reference.py"


@pytest.mark.parametrize("name", NAMES)
def test_docstrings_explain_the_name(name: str) -> None:
    found = reference().find(name)
    assert len(found.doc.split()) >= WORDS, f"the docstring of kopf.{name} explains nothing: {found.doc!r}"


@pytest.mark.parametrize("name", NAMES)
def test_functions_and_classes_have_examples(name: str) -> None:
    found = reference().find(name)
    doc = reference().parse(found.doc)
    is_data = isinstance(found.node, ast.ClassDef) and any(
        ast.unparse(base) in ("TypedDict", "Protocol", "RuntimeError", "Collection[_V]")
        for base in found.node.bases
    )
    if isinstance(found.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and not is_data:
        # It is described as not supported.
        assert doc.has_example or name == "AiohttpSession"


def undescribed(name: str) -> list[str]:
    """Returns the arguments of a function or a constructor that its docstring does not explain."""
    script = reference()
    found = script.find(name)
    known = {*script.parse(found.doc).arguments}
    if name in DECORATORS or name in ("subhandler", "register"):
        known |= {*script.options(), "arg1", "arg2", "arg3", "fn"}
    if isinstance(found.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        given = script.arguments(found.node)
    elif isinstance(found.node, ast.ClassDef) and known:
        given = script.constructor(found.node) or []
    else:
        given = []
    return [arg.name for arg in given if arg.name.strip("*") not in known]


@pytest.mark.parametrize("name", NAMES)
def test_all_arguments_are_explained(name: str) -> None:
    assert undescribed(name) == []


#: Classes that only Kopf creates.
MADE_BY_KOPF = {
    "AppliedChild", "Body", "Diff", "Meta", "OperatorRegistry", "OperatorSettings", "Resource", "Spec", "Status",
    "testing.Exploration", "testing.Finding",
}


@pytest.mark.parametrize("name", NAMES)
def test_constructors_are_explained(name: str) -> None:
    found = reference().find(name)
    if isinstance(found.node, ast.ClassDef) and name not in MADE_BY_KOPF and reference().constructor(found.node):
        assert reference().parse(found.doc).arguments


def test_missing_arguments_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = reference().find("adopt")
    shorter = found._replace(doc=found.doc.replace("- ``strict``", "- ``forced``"))
    monkeypatch.setattr(reference(), "find", lambda name: shorter)
    assert undescribed("adopt") == ["strict"]


def test_settings_have_texts() -> None:
    page = reference().pages()["settings.md"]
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) > 60
    assert [row for row in rows if row.endswith("|  |")] == []


@pytest.mark.parametrize("text, expected", [
    ("Says ``a``::", "Says `a`:"),
    ("See :func:`kopf.run`.", "See [`kopf.run`](running.md#kopfrun)."),
    ("See :class:`kopf.daemon`.", "See [`kopf.daemon`](background.md#kopfdaemon)."),
    ("Raises :class:`ValueError`.", "Raises `ValueError`."),
])
def test_roles_become_links(text: str, expected: str) -> None:
    assert reference().markdown(text) == expected


def test_examples_keep_their_empty_lines() -> None:
    doc = reference().parse("One::\n\n    a = 1\n\n    b = 2\n\nArguments:\n\n- ``a``: one\n  two.\n")
    assert doc.parts == ["One:", "```python\na = 1\n\nb = 2\n```", reference().TABLE]
    assert doc.arguments == {"a": "one two."}
