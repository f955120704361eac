"""Runs an operator of the installed package on a sandbox.

Usage: try_wheel.py EXAMPLES
"""

import importlib.metadata
import pathlib
import subprocess
import sys
import tempfile

import kopf
from kopf.testing import KopfRunner, sandbox

HANDLERS = """
import kopf

@kopf.on.create("kopfexamples")
async def created(**_):
    return "hello"
"""


def main() -> None:
    examples = pathlib.Path(sys.argv[1])
    source = pathlib.Path(kopf.__file__)
    assert source.is_relative_to(sys.prefix), f"{source} is not the installed package"
    assert importlib.metadata.version("kopf-rs") == kopf.__engine__
    if sys.prefix != sys.base_prefix:  # Environments have the command; emulated interpreters start no programs.
        command = pathlib.Path(sys.prefix, "bin", "kopf")
        subprocess.run([command, "--version"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as folder:
        handlers = pathlib.Path(folder, "handlers.py")
        handlers.write_text(HANDLERS)
        with (
            sandbox(examples / "crd.yaml", examples / "obj.yaml") as cluster,
            KopfRunner(["run", "-A", str(handlers)], timeout=60),
        ):
            cluster.wait(
                "kopfexamples.kopf.dev", "kopf-example-1",
                lambda body: body.get("status", {}).get("created") == "hello",
            )


if __name__ == "__main__":
    main()
