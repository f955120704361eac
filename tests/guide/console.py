"""Runs the `console` blocks of a page of the guide, and compares what they print with what the page shows.

Each page has its own folder and its own sandbox, to which `KUBECONFIG` points:

- A line that starts with `$ ` is a command; the lines below it are its output. Without such lines, only the exit code
  is checked. Commands that read are repeated until their output is the shown one.
- `kopf run`, `kopf sandbox` and commands that end with ` &` run in the background until the next one of the same kind
  or the end of the page; `^C` ends them earlier. Their output must contain the shown lines in this order.
- A `log` block contains lines that `kopf run` has logged by now, without times and loggers.
- A block whose first line is a comment with a file name, such as `# handlers.py`, is that file, and so is a block below
  a line with only the name (`` `handlers.py`: ``). `# handlers.py, continued` extends the file. The manifests of the
  examples, `crd.yaml` and `obj.yaml`, exist as well, and `bakery.yaml`, an object of the README.
- `<!-- continues: PAGE -->` creates the files of another page first.
- `<!-- sandbox: OPTIONS -->` sets the options of the sandbox; by default, it has the CRD of the examples.
- `console,no_run` blocks are not run; `<!-- not run: REASON -->` above the block says why (`xtask guide` checks it).

In shown output, `…` stands for any text, a line `…` for any lines. Times, ages, uids, ports and widths of columns are
not compared.

Usage: console.py KOPF-COMMAND PAGE…
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
MANIFESTS = [ROOT / "examples" / "crd.yaml", ROOT / "examples" / "obj.yaml", ROOT / "tests" / "guide" / "bakery.yaml"]
PATIENCE = 40.0

FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^`]*)$")
FILE_NAME = re.compile(r"^(?:#|//) (?P<name>[\w./-]+\.(?:py|rs|yaml|toml|json))(?P<continued>, continued)?$")
TITLE = re.compile(r"^`(?P<name>[\w./-]+)`:$")
CONTINUES = re.compile(r"^<!-- continues: (?P<page>.*) -->$", re.MULTILINE)
OPTIONS = re.compile(r"^<!-- sandbox: (?P<options>.*) -->$", re.MULTILINE)
BACKGROUND = re.compile(r"^kopf run\b|^kopf sandbox (?!export|import)(?!.* -- )|^kopf sandbox$|&$")
READING = re.compile(r"^(kubectl (-\S+ )*(get|describe|logs|events|auth)|kopf (get|explain)|curl|cat) ")

#: Parts of output that differ from run to run, with what they may be replaced by.
VARIABLE = [
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|\+00:00)?",
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    r"(?:127\.0\.0\.1|localhost):\d{4,5}",
    r"token=[0-9a-f]+",
    r"/(?:tmp|run|root|home)/\S*kopf-\S+",
    r"\b(?:\d+(?:\.\d+)?(?:ms|[smhd]))+\b",
    r"\b\d+(?:\.\d+)? (?:ms|s|min|h|d|seconds)\b",
    r"\"resourceVersion\": ?\"\d+\"",
]
VARIABLES = re.compile("|".join(VARIABLE) + "|…")


class Block(NamedTuple):
    """A fenced block of a page."""

    line: int
    info: str
    lines: list[str]
    title: str | None = None

    def write(self, folder: pathlib.Path) -> bool:
        """Writes the block if it is a file."""
        match = FILE_NAME.match(self.lines[0]) if self.lines else None
        name = match["name"] if match else self.title
        if name is None or self.is_run:
            return False
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a" if match and match["continued"] else "w") as output:
            output.write("\n".join(self.lines) + "\n\n")
        return True

    @property
    def is_run(self) -> bool:
        return self.info.split(",")[0] == "console" and "no_run" not in self.info


class Command(NamedTuple):
    """A command of a block, with its shown output."""

    line: int
    text: str
    shown: list[str]


class Mismatch(Exception):
    """A command that does not do what the page says."""


def blocks_of(text: str) -> Iterator[Block]:
    opened: Block | None = None
    indent, title = "", None
    for number, line in enumerate(text.splitlines(), start=1):
        fence = FENCE.match(line)
        if opened is None:
            if fence:
                opened, indent = Block(number, fence["info"].strip(), [], title), fence["indent"]
            elif line.strip() and not line.startswith("<!--"):
                match = TITLE.match(line)
                title = match and match["name"]
        elif fence and not fence["info"]:
            yield opened
            opened, title = None, None
        else:
            opened.lines.append(line.removeprefix(indent))


def commands_of(block: Block) -> Iterator[Command]:
    command: Command | None = None
    end: str | None = None
    for number, line in enumerate(block.lines, start=block.line + 1):
        if command and end is not None:
            command = command._replace(text=command.text + "\n" + line)
            end = None if line == end else end
        elif line.startswith("$ "):
            if command:
                yield command
            command = Command(number, line.removeprefix("$ "), [])
            heredoc = re.search(r"<<'?(\w+)'?", line)
            end = heredoc[1] if heredoc else None
        elif command and not command.shown and line.startswith("> "):
            command = command._replace(text=command.text + "\n" + line.removeprefix("> "))
        elif command:
            command.shown.append(line)
    if command:
        yield command


def pattern(line: str) -> re.Pattern[str]:
    """Returns the pattern of a shown line."""
    result, at = "", 0
    for match in VARIABLES.finditer(line):
        result += re.escape(line[at : match.start()])
        kinds = (kind for kind in VARIABLE if re.fullmatch(kind, match[0]))
        result += ".*" if match[0] == "…" else f"(?:{next(kinds)})"
        at = match.end()
    return re.compile(result + re.escape(line[at:]))


def fits(shown: list[str], printed: list[str]) -> bool:
    """Returns `True` if the printed lines are the shown ones."""
    if not shown:
        return not printed
    if shown[0].strip() == "…":
        return any(fits(shown[1:], printed[start:]) for start in range(len(printed) + 1))
    return bool(printed) and matches(shown[0], printed[0]) and fits(shown[1:], printed[1:])


def matches(shown: str, printed: str) -> bool:
    return pattern(normal(shown)).fullmatch(normal(printed)) is not None


def normal(line: str) -> str:
    """Returns a line without what differs between versions of kubectl, and without widths of columns."""
    line = re.sub(r"(\"\S+\" deleted) from \S+ namespace$", r"\1", " ".join(line.split()))
    return re.sub(r"(\S+/\S+) (labeled|modified|unlabeled)$", r"\1 labeled", line)


def missing(shown: list[str], printed: list[str]) -> str | None:
    """Returns the first shown line that is not printed after its predecessors."""
    rest = iter(printed)
    for line in shown:
        if line.strip() not in ("", "…") and not any(matches(line, other) for other in rest):
            return line
    return None


class Process:
    """A command in the background."""

    def __init__(self, command: str, folder: pathlib.Path, env: dict[str, str]) -> None:
        self.command = command.removesuffix("&").strip()
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            ["bash", "-c", f"exec {self.command}"], cwd=folder, env=env, stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=subprocess.STDOUT,
        )

    def printed(self) -> list[str]:
        self.log.seek(0)
        return self.log.read().splitlines()

    def sees(self, shown: list[str]) -> None:
        deadline = time.monotonic() + PATIENCE
        while (absent := missing(shown, self.printed())) is not None:
            has_ended = self.process.poll() is not None and absent == missing(shown, self.printed())
            if has_ended or time.monotonic() > deadline:
                printed = "\n".join(self.printed())
                raise Mismatch(f"{self.command!r} does not print {absent!r} (in this place), but:\n{printed}")
            time.sleep(0.1)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Mismatch(f"{self.command!r} does not stop") from None


class Session:
    """The folder, environment and processes of a page."""

    def __init__(self, kopf: list[str], folder: pathlib.Path) -> None:
        self.folder = folder
        self.running: dict[str, Process] = {}
        tools = folder / ".bin"
        tools.mkdir()
        script = tools / "kopf"
        script.write_text(f"#!/bin/sh\nexec {shlex.join(kopf)} \"$@\"\n")
        script.chmod(0o755)
        path = f"{tools}:{pathlib.Path(kopf[0]).parent}:{os.environ['PATH']}"
        self.env = {**os.environ, "PATH": path, "NO_COLOR": "1", "KUBECONFIG": str(folder / "kubeconfig")}
        for manifest in MANIFESTS:
            (folder / manifest.name).write_text(manifest.read_text())

    def run(self, path: pathlib.Path) -> None:
        page = path.read_text()
        for earlier in CONTINUES.finditer(page):
            for block in blocks_of((path.parent / earlier["page"]).read_text()):
                block.write(self.folder)
        options = OPTIONS.search(page)
        server = f"kopf sandbox --kubeconfig kubeconfig {options['options'] if options else '-f crd.yaml'}"
        has_server = False
        try:
            for block in blocks_of(page):
                if not block.write(self.folder) and block.is_run:
                    if not has_server:
                        # Files of the page can be manifests of its sandbox.
                        self.start("server", server, ["  kubeconfig  …"])
                        has_server = True
                    for command in commands_of(block):
                        self.execute(command)
                elif block.info == "log":
                    self.check_log(block)
        finally:
            with contextlib.ExitStack() as stack:
                # All processes are stopped, even if one of them does not stop in time.
                for process in self.running.values():
                    stack.callback(process.stop)

    def start(self, kind: str, command: str, shown: list[str]) -> None:
        if kind in self.running:
            self.running.pop(kind).stop()
        process = self.running[kind] = Process(command, self.folder, self.env)
        process.sees(shown)

    def execute(self, command: Command) -> None:
        try:
            if BACKGROUND.search(command.text):
                self.launch(command)
            elif match := re.match(r"^(export|cd) (.*)$", command.text):
                self.change(match[1], match[2])
            else:
                self.call(command)
        except Mismatch as mismatch:
            raise Mismatch(f"line {command.line}: {mismatch}") from None

    def launch(self, command: Command) -> None:
        kind = " ".join(command.text.split()[:2])
        shown, stopped, last = command.shown, False, []
        if "^C" in shown:
            at = shown.index("^C")
            shown, stopped, last = shown[:at], True, shown[at + 1 :]
        self.start(kind, command.text, shown)
        if stopped:
            process = self.running.pop(kind)
            process.stop()
            process.sees([*shown, *last])

    def check_log(self, block: Block) -> None:
        try:
            self.running["kopf run"].sees([f"…{line}" if line.strip() != "…" else line for line in block.lines])
        except Mismatch as mismatch:
            raise Mismatch(f"line {block.line}: {mismatch}") from None

    def change(self, verb: str, argument: str) -> None:
        if verb == "cd":
            self.folder = self.folder / argument
        else:
            name, _, value = argument.partition("=")
            self.env[name] = value

    def call(self, command: Command) -> None:
        deadline = time.monotonic() + (PATIENCE if READING.match(command.text) else 0)
        while True:
            done = subprocess.run(
                ["bash", "-c", command.text], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
            )
            printed = [line for line in done.stdout.splitlines() if line.strip()]
            shown = [line for line in command.shown if line.strip()]
            if fits(shown, printed) if shown else done.returncode == 0:
                return
            if time.monotonic() > deadline:
                raise Mismatch(f"{command.text!r} (exit code {done.returncode}) prints:\n{done.stdout}")
            time.sleep(0.5)


def run_page(kopf: list[str], page: pathlib.Path) -> None:
    """Runs the blocks of a page. Raises `Mismatch` with the line, the command and its output."""
    with tempfile.TemporaryDirectory(prefix="kopf-guide-") as folder:
        Session(kopf, pathlib.Path(folder)).run(page)


def main() -> None:
    failed = False
    for name in sys.argv[2:]:
        try:
            run_page(shlex.split(sys.argv[1]), pathlib.Path(name))
        except Mismatch as mismatch:
            failed = True
            print(f"{name}: {mismatch}", file=sys.stderr)
        else:
            print(f"{name}: ok", file=sys.stderr)
    sys.exit(failed)


if __name__ == "__main__":
    main()
