"""Writes INDEX.md: the files of a release with their sizes and purposes.

Usage: index.py DIST VERSION
"""

import pathlib
import re
import sys

# The first matching pattern describes a file; every file needs one.
PURPOSES = [
    (r"python/.*-manylinux.*_(\w+?)\.whl", "Python package for Linux with glibc 2.17 or newer"),
    (r"python/.*-musllinux.*_(\w+?)\.whl", "Python package for Alpine and other Linux with musl 1.2 or newer"),
    (r"python/.*\.tar\.gz", "Python package to compile: needs Rust"),
    (r"kopf/.*\.tar\.gz", "the command `kopf` for any Linux: static, with completions and manual pages"),
    (r"images/kopf-python-.*", "image: base of Python operators"),
    (r"images/kopf-static-.*", "image: base of Rust operators, without any program"),
    (r"images/kopf-.*", "image: the command `kopf`, with the sandbox"),
    (r"crates/ORDER", "the order in which the crates are published"),
    (r"crates/.*\.crate", "crate"),
    (r"sbom/kopf-python-.*", "bill of materials of the wheels, CycloneDX 1.6"),
    (r"sbom/kopf-cli-.*", "bill of materials of the command, CycloneDX 1.6"),
]


def purpose(path: str) -> str:
    for pattern, text in PURPOSES:
        if re.fullmatch(pattern, path):
            return text
    raise SystemExit(f"error: {path} has no description: add one to {__file__}, or remove the file")


def size(number: int) -> str:
    return f"{number / 1e6:.1f} MB" if number >= 100_000 else f"{number / 1e3:.1f} kB"


def main() -> None:
    dist, version = pathlib.Path(sys.argv[1]), sys.argv[2]
    paths = sorted(path for path in dist.glob("*/**/*") if path.is_file())
    rows = [
        f"| `{path.relative_to(dist)}` | {size(path.stat().st_size)} | {purpose(str(path.relative_to(dist)))} |"
        for path in paths
    ]
    lines = [
        f"# Kopf {version}",
        "",
        "Verify the files with `sha256sum --check SHA256SUMS`. How to install them is on the page *Installation* of the",
        "guide. All files are under the MIT licence; the licences of linked crates are inside of wheels and programs.",
        "",
        "| file | size | content |",
        "|---|---|---|",
        *rows,
    ]
    (dist / "INDEX.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
