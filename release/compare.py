"""Compares two archives of the same release, and names the members that differ.

Usage: compare.py WHEEL WHEEL
"""

import hashlib
import pathlib
import sys
import zipfile


def members(path: str) -> dict[str, tuple[object, ...]]:
    with zipfile.ZipFile(path) as archive:
        return {
            info.filename: (hashlib.sha256(archive.read(info)).hexdigest(), info.date_time, info.external_attr)
            for info in archive.infolist()
        }


def main() -> None:
    first, second = sys.argv[1:]
    if pathlib.Path(first).read_bytes() == pathlib.Path(second).read_bytes():
        print(f"release: two builds of {pathlib.Path(first).name} are identical", file=sys.stderr)
        return
    ours, theirs = members(first), members(second)
    different = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    for name in different or ["(the order or the compression)"]:
        print(f"error: {name} differs: {ours.get(name)}, {theirs.get(name)}", file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    main()
