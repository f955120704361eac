"""The Python blocks of the documentation.

Blocks marked ``python`` are executed, each with its own default registry. Blocks marked
``python,no_run`` are only compiled. A block whose first line is a comment with a file name, such as
``# operator.py``, is a file for the following blocks of its page. Functions named ``test_*`` without
parameters are called.
"""

from __future__ import annotations

import inspect
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import kopf

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

#: Manifests that blocks and their tests can use.
MANIFESTS = [ROOT / "examples" / "crd.yaml", ROOT / "examples" / "obj.yaml"]

FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^`\n]*)$")
FILE_NAME = re.compile(r"^# (?P<name>[\w-]+\.py)$")


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


BLOCKS = [
    block for page in PAGES for block in blocks_of(page) if block.info.split(",")[0] == "python"
]


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
            (folder / former.file_name).write_text(former.source)
    # Dataclasses look up their module by name.
    module = type(sys)("guide")
    module.__dict__["kopf"] = kopf
    monkeypatch.setitem(sys.modules, "guide", module)
    exec(code, module.__dict__)
    for name, value in list(module.__dict__.items()):
        if name.startswith("test_") and not inspect.signature(value).parameters:
            value()


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
