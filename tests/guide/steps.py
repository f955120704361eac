"""Prints a section of a page of the guide as a shell script.

A block after a line with a file name in backquotes and a colon is the content of that file. Lines of `console`
blocks that start with `$ ` are commands. Commands with `--sandbox` run until a handler has succeeded. Blocks marked
`no_run` are run if the reason above them names this test.

Usage: steps.py PAGE SECTION
"""

import re
import sys

PRELUDE = r"""set -euo pipefail
until_handled() {
    "$@" >run.log 2>&1 &
    local pid=$! second
    for second in $(seq 600); do
        if grep -q "Handler '.*' succeeded" run.log; then
            kill -INT "$pid"
            wait "$pid"
            return
        fi
        kill -0 "$pid" 2>/dev/null || break
        sleep 1
    done
    echo "error: no handler has succeeded: $*" >&2
    cat run.log >&2
    kill "$pid" 2>/dev/null || true
    return 1
}
"""
THIS = "tests/guide/getting-started.sh"
FILE = re.compile(r"^`(?P<name>[\w./-]+)`:$")
FENCE = re.compile(r"^```(?P<info>.*)$")


def section_of(page: str, title: str) -> list[str]:
    """Returns the lines of a section of the second level."""
    lines = page.splitlines()
    titles = [index for index, line in enumerate(lines) if line.startswith("## ")]
    for start, end in zip(titles, [*titles[1:], len(lines)], strict=True):
        if lines[start].removeprefix("## ").lower() == title:
            return lines[start + 1 : end]
    raise SystemExit(f"error: the page has no section {title!r}")


def steps(lines: list[str]) -> list[str]:
    """Returns the shell commands for the files and commands of a section."""
    script: list[str] = []
    name: str | None = None
    block: list[str] | None = None
    info = reason = ""
    for line in lines:
        fence = FENCE.match(line)
        if block is None and fence:
            block, info = [], fence["info"]
        elif block is not None and fence:
            is_run = info == "console" or (info == "console,no_run" and THIS in reason)
            script += write(name, block) if name else run(block) if is_run else []
            block, name, reason = None, None, ""
        elif block is not None:
            block.append(line)
        elif line.startswith("<!--"):
            reason = line
        elif line.strip():
            match = FILE.match(line)
            name = match["name"] if match else None
    return script


def write(name: str, content: list[str]) -> list[str]:
    return [
        f"echo 'guide: {name}' >&2",
        f"mkdir -p \"$(dirname '{name}')\"",
        f"cat >'{name}' <<'END OF FILE'",
        *content,
        "END OF FILE",
    ]


def run(lines: list[str]) -> list[str]:
    script = []
    for line in lines:
        if not line.startswith("$ "):
            continue
        command = line.removeprefix("$ ")
        script.append(f"echo {quoted('guide: $ ' + command)} >&2")
        script.append(f"until_handled {command}" if "--sandbox" in command else command)
    return script


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def main() -> None:
    page, title = sys.argv[1:]
    with open(page) as file:
        lines = section_of(file.read(), title)
    script = steps(lines)
    if not script:
        raise SystemExit(f"error: the section {title!r} has no steps")
    print(PRELUDE + "\n".join(script))


if __name__ == "__main__":
    main()
