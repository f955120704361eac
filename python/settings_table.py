"""Writes the table of settings that exist in one language only into docs/reference/settings.md.

The names are read from the code of both languages. Every exception needs a reason here; a reason for
settings that exist in both languages is an error. Tests compare the page with this table.

Usage: python python/settings_table.py
"""

from __future__ import annotations

import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "settings.md"
RUST = ROOT / "crates" / "kopf-core" / "src" / "handling" / "settings"

BEGIN = "<!-- begin: python/settings_table.py -->\n"
END = "<!-- end: python/settings_table.py -->\n"

#: Settings of Rust, those of Python for the same purpose, and the reason for the difference.
EXCEPTIONS = [
    (
        ("watching.page_size",),
        ("watching.chunk_size",),
        "Python has the name of the original, where the default is none",
    ),
    (
        ("watching.selectors",),
        ("watching.label_selectors", "watching.field_selectors", "watching.shard_selectors"),
        "Python has the mappings of the original; in Rust, one list has all selectors of a resource",
    ),
    (
        ("persistence.secret_values",),
        ("persistence.digest_secrets", "persistence.digest_key"),
        "in Rust, one enum, because a key without digests has no meaning",
    ),
    ((), ("execution.executor",), "only Python has executors; the threads of Rust are those of tokio"),
    (
        (),
        ("posting.worker_limit", "posting.idle_timeout"),
        "of the original, accepted without effect: the engine posts events without workers",
    ),
]


def python_settings() -> set[str]:
    """Returns the settings of Python, without deprecated ones."""
    import kopf

    settings = kopf.OperatorSettings()
    names = {
        f"{group.name}.{field.name.removeprefix('_')}"
        for group in dataclasses.fields(settings)
        for field in dataclasses.fields(getattr(settings, group.name))
    }
    return names - {"queueing.batch_window"}


def rust_settings() -> set[str]:
    """Returns the settings of Rust, read from the sources."""
    sources = "\n".join(path.read_text() for path in sorted(RUST.glob("*.rs")))

    def fields(struct: str) -> list[tuple[str, str]]:
        body = re.search(rf"^pub struct {struct} {{$(.*?)^}}$", sources, re.MULTILINE | re.DOTALL)
        assert body is not None, f"{struct} is not found in {RUST}"
        return re.findall(r"^    pub (\w+): (.+),$", body[1], re.MULTILINE)

    return {f"{group}.{name}" for group, type_ in fields("Settings") for name, _ in fields(type_)}


def table() -> str:
    """Returns the table; raises an error if the exceptions are not those of the code."""
    rust, python = rust_settings(), python_settings()
    only_rust = {name for names, _, _ in EXCEPTIONS for name in names}
    only_python = {name for _, names, _ in EXCEPTIONS for name in names}
    if (rust - python, python - rust) != (only_rust, only_python):
        wrong = sorted(((rust - python) ^ only_rust) | ((python - rust) ^ only_python))
        raise ValueError(
            f"exceptions and code differ in {', '.join(wrong)}: add the setting to the other language, "
            f"or correct EXCEPTIONS in python/settings_table.py"
        )
    rows = [f"| {_cell(one)} | {_cell(other)} | {why} |\n" for one, other, why in EXCEPTIONS]
    return f"{BEGIN}| in Rust | in Python | why |\n|---|---|---|\n{''.join(rows)}{END}"


def _cell(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "–"


def main() -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(before + table() + rest.partition(END)[2])


if __name__ == "__main__":
    main()
