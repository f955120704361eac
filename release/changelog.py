"""Checks the changelog: a section for the version or for unreleased changes, and the form of its lines.

Usage: changelog.py CHANGELOG VERSION
"""

import re
import sys

KINDS = ("added", "changed", "fixed", "removed", "breaking", "deprecated", "security")
LINE = re.compile(r"^- \*\*(?P<kind>[a-z]+)\*\* \S")


def problems(text: str, version: str) -> list[str]:
    lines = text.splitlines()
    titles = [line.removeprefix("## ").strip() for line in lines if line.startswith("## ")]
    found = []
    if not any(title == "Unreleased" or title.startswith(version) for title in titles):
        found.append(f"missing section '## {version}' or '## Unreleased'")
    for number, line in enumerate(lines, start=1):
        if not line.startswith("- "):
            continue
        match = LINE.match(line)
        if match is None:
            found.append(f"line {number} does not start with '- **kind** '")
        elif match["kind"] not in KINDS:
            found.append(f"line {number}: {match['kind']!r} is not one of {', '.join(KINDS)}")
    return found


def main() -> None:
    path, version = sys.argv[1:]
    with open(path) as file:
        found = problems(file.read(), version)
    for problem in found:
        print(f"error: {path}: {problem}", file=sys.stderr)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
