"""The Python blocks of the documentation.

Blocks marked ``python`` are executed, each with its own default registry. Blocks marked
``python,no_run`` are only compiled. A block whose first line is a comment with a file name, such as
``# handlers.py``, is a file for the following blocks of its page. Functions named ``test_*`` without
parameters are called.

Blocks marked ``console`` are run by ``tests/guide/console.py``, which compares their output. Blocks
of data are parsed. Tables of settings, options and names are compared with the package.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import inspect
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import yaml

import kopf

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

#: Manifests that blocks and their tests can use.
MANIFESTS = [ROOT / "examples" / "crd.yaml", ROOT / "examples" / "obj.yaml"]

FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^`\n]*)$")
FILE_NAME = re.compile(r"^# (?P<name>[\w-]+\.py)(?P<continued>, continued)?$")


class Block(NamedTuple):
    """A fenced block of a page."""

    page: pathlib.Path
    line: int
    info: str
    source: str

    @property
    def label(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_run(self) -> bool:
        return self.info == "python"

    @property
    def file_name(self) -> str | None:
        match = FILE_NAME.match(self.source.partition("\n")[0])
        return match and match["name"]

    def compile(self) -> Any:
        """Compiles the block with the lines of the page in tracebacks."""
        padding = "\n" * self.line
        return compile(padding + self.source, str(self.page), "exec", dont_inherit=True)


def blocks_of(page: pathlib.Path) -> Iterator[Block]:
    opened: tuple[int, str, str] | None = None
    content: list[str] = []
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        fence = FENCE.match(line)
        if opened is None:
            if fence:
                opened, content = (number, fence["info"].strip(), fence["indent"]), []
        elif fence and not fence["info"]:
            start, info, indent = opened
            source = "\n".join(item.removeprefix(indent) for item in content)
            yield Block(page, start, info, source + "\n")
            opened = None
        else:
            content.append(line)
    assert opened is None, f"{page}:{opened and opened[0]}: the block is not closed"


ALL = [block for page in PAGES for block in blocks_of(page)]
BLOCKS = [block for block in ALL if block.info.split(",")[0] == "python"]

#: Pages with commands that are run.
CONSOLE = sorted({block.page for block in ALL if block.info == "console"})

#: Loaders of formats of data.
FORMATS = {
    "yaml": lambda text: list(yaml.safe_load_all(text)),
    "json": json.loads,
    "toml": tomllib.loads,
}

REFERENCE = ROOT / "docs" / "reference"


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The current folder of a block, with the manifests of the examples."""
    for manifest in MANIFESTS:
        (tmp_path / manifest.name).write_text(manifest.read_text())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.native
@pytest.mark.usefixtures("clean_logging", "clean_imports", "default_registry")
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.label)
def test_block_runs(
    block: Block, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = block.compile()
    if not block.is_run:
        return
    for former in BLOCKS:
        if former.page == block.page and former.line < block.line and former.file_name:
            mode = "a" if former.source.partition("\n")[0].endswith(", continued") else "w"
            with (folder / former.file_name).open(mode) as file:
                file.write(former.source)
    # Dataclasses look up their module by name.
    module = type(sys)("guide")
    module.__dict__["kopf"] = kopf
    monkeypatch.setitem(sys.modules, "guide", module)
    exec(code, module.__dict__)
    for name, value in list(module.__dict__.items()):
        if name.startswith("test_") and not inspect.signature(value).parameters:
            value()


OUTPUT = "<!-- output of the block above -->"


def outputs() -> list[tuple[Block, Block]]:
    """Returns the Python blocks that are followed by what they print."""
    pairs = []
    for block, below in zip(ALL, ALL[1:], strict=False):
        lines = below.page.read_text().splitlines()
        if below.info == "text" and lines[below.line - 2].strip() == OUTPUT:
            assert block.page == below.page and block.is_run, below.label
            pairs.append((block, below))
    return pairs


@pytest.mark.native
@pytest.mark.usefixtures("clean_logging", "clean_imports", "default_registry")
@pytest.mark.parametrize("block, below", outputs(), ids=lambda block: block.label)
def test_blocks_print_what_is_shown(
    block: Block, below: Block, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(block.compile(), {"kopf": kopf})
    assert capsys.readouterr().out == below.source


def test_blocks_have_known_marks() -> None:
    unknown = [block.label for block in BLOCKS if block.info not in ("python", "python,no_run")]
    assert not unknown, f"unknown marks of blocks: {', '.join(unknown)}"


def test_failures_name_the_page_and_line(tmp_path: pathlib.Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\nx = 1\nraise ValueError(x)\n```\n")
    (block,) = blocks_of(page)
    with pytest.raises(ValueError) as caught:
        exec(block.compile(), {})
    last = caught.traceback[-1]
    assert (str(last.path), last.lineno + 1) == (str(page), 5)


def test_unclosed_blocks_are_reported(tmp_path: pathlib.Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n")
    with pytest.raises(AssertionError, match="page.md:1: the block is not closed"):
        list(blocks_of(page))


@functools.cache
def console() -> Any:
    """Returns the module that runs commands of pages."""
    path = ROOT / "tests" / "guide" / "console.py"
    spec = importlib.util.spec_from_file_location("console", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["console"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def kubectl() -> str | None:
    """The folder of kubectl: that of ``PATH``, or of the control plane that ``make e2e`` builds."""
    if found := shutil.which("kubectl"):
        return str(pathlib.Path(found).parent)
    default = os.environ.get("XDG_CACHE_HOME", str(pathlib.Path.home() / ".cache")) + "/kopf"
    cache = pathlib.Path(os.environ.get("KOPF_CACHE", default))
    built = sorted(cache.glob("control-plane/*/bin/kubectl"))
    return str(built[-1].parent) if built else None


@pytest.mark.native
@pytest.mark.parametrize("page", CONSOLE, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_print_what_the_page_shows(
    page: pathlib.Path, kubectl: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kubectl is not None:
        monkeypatch.setenv("PATH", f"{kubectl}:{os.environ['PATH']}")
    elif any(block.page == page and "kubectl" in block.source for block in ALL):
        pytest.skip("kubectl is not installed, and `make e2e` has not built it")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))
    console().run_page([sys.executable, "-m", "kopf"], page)


@pytest.mark.parametrize("shown, printed, expected", [
    ("[2026-11-17 08:44:10,917] x", "[2027-01-02 03:04:05,006] x", True),
    ("[2026-11-17 08:44:10,917] x", "[2027-01-02 03:04:05,006] y", False),
    ("my-claim   Bound   5s", "my-claim  Bound  12s", True),
    ("my-claim   Bound   5s", "my-claim  Pending  12s", False),
    ("a … c", "a b c", True),
    ("a … c", "a b d", False),
])
def test_shown_lines_are_compared_without_times(shown: str, printed: str, expected: bool) -> None:
    assert console().matches(shown, printed) is expected


def test_shown_output_is_complete() -> None:
    fits = console().fits
    assert fits(["a", "…", "d"], ["a", "b", "c", "d"])
    assert not fits(["a", "d"], ["a", "b", "d"])
    assert not fits(["a"], ["a", "b"])


def test_commands_with_other_output_are_reported(tmp_path: pathlib.Path) -> None:
    session = console().Session([sys.executable], tmp_path)
    command = console().Command(7, "echo one", ["two"])
    with pytest.raises(console().Mismatch, match="line 7: 'echo one'.*prints:\none"):
        session.execute(command)


@pytest.mark.parametrize(
    "block", [block for block in ALL if block.info in FORMATS], ids=lambda block: block.label
)
def test_data_is_well_formed(block: Block) -> None:
    FORMATS[block.info](block.source)


def settings() -> dict[str, Any]:
    """Returns the names and default values of all settings."""
    result = {}
    for group in dataclasses.fields(kopf.OperatorSettings()):
        values = getattr(kopf.OperatorSettings(), group.name)
        for field in dataclasses.fields(values):
            name = field.name.removeprefix("_")
            result[f"{group.name}.{name}"] = getattr(values, field.name)
    result.pop("queueing.batch_window")
    return result


def documented_settings() -> dict[str, str]:
    """Returns the names and defaults in the tables, without those of Rust only."""
    page = (REFERENCE / "settings.md").read_text().partition("## Settings of one language")[0]
    rows = re.findall(r"^\| (Python: )?`([\w.]+)` \| (.*?) \| (.*) \|$", page, re.MULTILINE)
    return {
        name: default
        for mark, name, default, text in rows
        if mark or not text.startswith("Rust only")
    }


def test_all_settings_are_documented() -> None:
    assert sorted(settings()) == sorted(documented_settings())


def test_documented_defaults_of_settings_are_true() -> None:
    documented = documented_settings()
    for name, value in settings().items():
        default = documented[name]
        if isinstance(value, bool):
            # The default of `peering.clusterwide` follows the scope of the operator.
            is_true = default.split(";")[0] == str(value).lower()
            assert is_true or name == "peering.clusterwide", name
        elif isinstance(value, int | float) and name != "posting.level":
            text = f"{value // 1024**2} MiB" if name.endswith("_bytes") else f"{value:g}"
            assert re.match(rf"{text}( s)?\b", default), (name, value, default)
        elif value is None and default[0].isdigit():
            pytest.fail(f"{name} is None, and {default} is documented")


def settings_table() -> Any:
    """Returns the script that generates the table of settings of one language."""
    path = ROOT / "python" / "settings_table.py"
    spec = importlib.util.spec_from_file_location("settings_table", path)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_settings_of_one_language_are_in_the_generated_table() -> None:
    script = settings_table()
    assert len(script.rust_settings()) > 60
    assert script.table() in (REFERENCE / "settings.md").read_text(), "run python/settings_table.py"


def test_settings_of_one_language_need_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    script = settings_table()
    monkeypatch.setattr(script, "rust_settings", lambda: script.python_settings() | {"posting.new"})
    with pytest.raises(ValueError, match=r"posting\.new.*add the setting to the other language"):
        script.table()


LONG_OPTION = re.compile(r"--[a-z][a-z-]+")


def options(*command: str) -> set[str]:
    """Returns the long options in the help of a command."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "COLUMNS": "200", "NO_COLOR": "1"}
    call = [sys.executable, "-m", "kopf", *command, "--help"]
    help_text = subprocess.run(call, env=env, capture_output=True, text=True, check=True).stdout
    lines = [line for line in help_text.splitlines() if re.match(r"\s+-", line)]
    return {option for line in lines for option in LONG_OPTION.findall(line)} - {"--help"}


def sections(page: pathlib.Path) -> dict[str, str]:
    parts = re.split(r"^## (.*)$", page.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


COMMAND_PAGES = {
    **sections(REFERENCE / "command-line.md"), **sections(REFERENCE / "tools.md"),
}

COMMANDS = [title for title in COMMAND_PAGES if title.startswith("kopf ")]


@pytest.mark.native
@pytest.mark.parametrize("command", COMMANDS)
def test_all_options_of_commands_are_documented(command: str) -> None:
    section = COMMAND_PAGES[command]
    rows = re.findall(r"^\| (.*?) \| ", section, re.MULTILINE)
    documented = {option for row in rows for option in LONG_OPTION.findall(row)}
    assert documented == options(*command.split()[1:])


@pytest.mark.native
def test_all_commands_are_documented() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    call = [sys.executable, "-m", "kopf", "--help"]
    help_text = subprocess.run(call, env=env, capture_output=True, text=True, check=True).stdout
    listed = help_text.partition("Commands:\n")[2].splitlines()
    names = {line.split()[0] for line in listed if line.strip()}
    assert names == {command.split()[1] for command in COMMANDS}


def numbers(text: str) -> set[str]:
    """Returns the numbers in a text, without separators of thousands."""
    return {number.replace(",", "") for number in re.findall(r"\d[\d,]*(?:\.\d+)?", text)}


def readme_figures() -> dict[str, tuple[str, str]]:
    """Returns the figures in the table of the README, with the pages that they are from."""
    section = sections(ROOT / "README.md")["Why Kopf"]
    rows = re.findall(r"^\| (\w.*?) \| (.*?) \| \[.*?\]\((.*?)(?:#.*?)?\) \|$", section, re.MULTILINE)
    return {title: (figures, page) for title, figures, page in rows}


def test_figures_of_the_readme_are_on_their_pages() -> None:
    assert len(readme_figures()) == 5
    for title, (figures, page) in readme_figures().items():
        known = [float(number) for number in numbers((ROOT / page).read_text())]
        for shown in numbers(figures):
            digits = len(shown.partition(".")[2])
            assert float(shown) in [round(number, digits) for number in known], (title, shown, page)


def test_readme_states_the_versions_of_the_code() -> None:
    status = " ".join(sections(ROOT / "README.md")["Status"].split())
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    control_plane = (ROOT / "tests" / "control-plane" / "go.mod").read_text()
    kubernetes = re.search(r"k8s.io/kubernetes v(1\.\d+)\.\d+", control_plane)
    assert kubernetes is not None
    assert f"Version {cargo['version']}" in status
    assert f"Rust {cargo['rust-version']} or newer" in status
    assert f"CPython {project['requires-python'].removeprefix('>=')} or newer" in status
    assert f"Kopf {kopf.__version__.rpartition('.')[0]}" in status
    assert f"Kubernetes {kubernetes[1]}" in status
