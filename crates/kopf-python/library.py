"""Prints the path of the shared library of this interpreter, which the tests in Rust embed."""

import pathlib
import sys
import sysconfig


def find() -> pathlib.Path | None:
    name = sysconfig.get_config_var("INSTSONAME") or ""
    if ".so" not in name:
        return None
    folder = sysconfig.get_config_var("LIBDIR") or ""
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    folders = [folder, f"{folder}/{multiarch}", f"{sys.base_prefix}/lib"]
    paths = [pathlib.Path(folder) / name for folder in folders]
    return next((path for path in paths if path.exists()), None)


if __name__ == "__main__":
    path = find() if sys.version_info >= (3, 11) else None
    if path is None:
        sys.exit(1)
    print(path)
