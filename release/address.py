"""Sets or checks the address of the repository, which registries show: in Cargo.toml and pyproject.toml.

Without an address, checks that both files have the same one. With --public, it must not be the placeholder.

Usage: address.py [ADDRESS | --public]
"""

import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLACEHOLDER = ".example/"


def replace(path: pathlib.Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


def main() -> None:
    argument = sys.argv[1] if len(sys.argv) > 1 else None
    cargo, pyproject = ROOT / "Cargo.toml", ROOT / "pyproject.toml"
    address = tomllib.loads(cargo.read_text())["workspace"]["package"]["repository"]
    urls = tomllib.loads(pyproject.read_text())["project"]["urls"]
    wrong = [name for name, url in urls.items() if not url.startswith(address)]
    if wrong or urls["Repository"] != address:
        raise SystemExit(f"error: pyproject.toml has other addresses than {address}: {', '.join(wrong)}")
    if argument == "--public":
        if PLACEHOLDER in address:
            raise SystemExit(f"error: {address} is a placeholder: run release/address.py with the address of the repository")
    elif argument is not None:
        if not re.fullmatch(r"https://[^/\s\"]+(/[^/\s\"]+)+", argument):
            raise SystemExit(f"error: invalid address {argument!r}: must be like https://host/owner/name")
        replace(cargo, f'"{address}"', f'"{argument}"')
        replace(pyproject, f'"{address}', f'"{argument}')


if __name__ == "__main__":
    main()
