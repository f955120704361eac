"""`kopf sandbox`: an API server in this process, standalone or for a program."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import click

__all__ = ["reported", "sandbox"]

#: The key of the program after `--` in the context of the command.
_PROGRAM = "kopf.program"

#: Exit codes of shells for programs that cannot be run.
_NOT_EXECUTABLE = 126
_NOT_FOUND = 127


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Reports errors of the native part and of files without tracebacks; the exit code is 1."""
    try:
        yield
    except (RuntimeError, ValueError, OSError) as exc:
        raise click.ClickException(str(exc)) from exc


class _Sandbox(click.Group):
    """A command that has subcommands, or is followed by `--` and a program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            where = args.index("--")
            ctx.meta[_PROGRAM] = args[where + 1:]
            args = args[:where]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS] [-- PROGRAM [ARGS]...]"]


@click.group(cls=_Sandbox, invoke_without_command=True)
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; default: any free one.")
@click.option("--address", help="IP address to listen on; default: loopback.")
@click.option("--rbac", is_flag=True, help="Check every request against roles and bindings.")
@click.option("--kubeconfig", type=click.Path(dir_okay=False), help="File for the credentials.")
@click.option("--data", type=click.Path(file_okay=False), help="Folder to keep the objects in.")
@click.option("--simulate", metavar="KINDS", help="Kinds to simulate, such as pods,jobs, or all.")
@click.option("--ready-after", type=float, metavar="SECONDS", help="Delay of simulated pods.")
@click.option("--answers", type=click.Path(exists=True, dir_okay=False),
              help="Logs of simulated containers and results of commands in them, in YAML.")
@click.option("--faults", type=click.Path(exists=True, dir_okay=False), help="Rules of faults.")
@click.option("--seed", type=int, help="Number that makes uids and faults repeatable.")
@click.option("--service", "services", multiple=True, metavar="NAMESPACE/NAME=URL",
              help="URL of the server behind a Service of webhooks; repeatable.")
@click.option("-f", "--filename", "filenames", multiple=True, help="Manifest; repeatable.")
@click.option("--dump", "dumps", multiple=True,
              help="Manifest of objects to store unchanged, with uids; repeatable.")
@click.pass_context
def sandbox(
    context: click.Context, /, filenames: tuple[str, ...], simulate: str | None, **options: Any,
) -> None:
    """Run a Kubernetes API server in this process until Ctrl-C, or for a program.

    A program after `--` runs with KUBECONFIG set. The sandbox ends with the program, and this
    command exits with the same exit code.
    """
    if context.invoked_subcommand is not None:
        if filenames or simulate or any(options.values()):
            raise click.UsageError("Options of the sandbox cannot be combined with a subcommand.")
        return
    from kopf._front.tools import sandboxes

    cluster = sandboxes.sandbox(*filenames, simulate=simulate or False, environ=True, **options)
    program = context.meta.get(_PROGRAM)
    code = 0
    with reported(), cluster:
        if cluster.warning:
            click.echo(f"warning: {cluster.warning}", err=True)
        if program:
            code = _run(program)
        else:
            click.echo(sandboxes.greeting(cluster, "The sandbox is ready"))
            sandboxes.wait_for_signal()
    context.exit(code)


def _run(program: list[str]) -> int:
    try:
        return _run_program(program)
    except OSError as exc:
        click.echo(f"Error: cannot run {program[0]}: {exc.strerror}", err=True)
        return _NOT_FOUND if isinstance(exc, FileNotFoundError) else _NOT_EXECUTABLE


def _run_program(command: list[str]) -> int:
    """Runs a program and returns its exit code as a shell does; signals are passed on to it."""
    import signal
    import subprocess
    import sys

    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def forward(number: int, _: object) -> None:
        if process is None:
            early.append(number)
        # A terminal also sends its signals to the program.
        elif number not in of_terminal or not sys.stdin.isatty():
            process.send_signal(number)

    names = ("SIGINT", "SIGQUIT", "SIGHUP", "SIGTERM", "SIGUSR1", "SIGUSR2")
    signals = [getattr(signal, name) for name in names if hasattr(signal, name)]
    of_terminal = signals[:-3]
    former = {number: signal.signal(number, forward) for number in signals}
    try:
        process = subprocess.Popen(command)
        for number in early:
            process.send_signal(number)
        code = process.wait()
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


@sandbox.command(name="export")
@click.option("--data", type=click.Path(exists=True, file_okay=False), required=True, help="The folder.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", help="Default: yaml.")
def export(data: str, output: str) -> None:
    """Print all objects of a data folder as one list. No sandbox may use the folder."""
    from kopf import _kopf

    with reported():
        objects = {"apiVersion": "v1", "kind": "List", "items": _kopf.export_data(data)}
    if output == "json":
        import json

        click.echo(json.dumps(objects))
    else:
        import yaml

        click.echo(yaml.safe_dump(objects, sort_keys=False, allow_unicode=True), nl=False)


@sandbox.command(name="import")
@click.option("--data", type=click.Path(file_okay=False), required=True, help="The folder.")
@click.option("-f", "--filename", "filenames", multiple=True, required=True, help="Dump; repeatable.")
def import_(data: str, filenames: tuple[str, ...]) -> None:
    """Store the objects of dumps unchanged in a data folder, with uids, statuses and owners."""
    from kopf import _kopf
    from kopf._front.tools import sandboxes

    with reported():
        texts = [text for name in filenames for text in sandboxes.read_manifest(name)]
        count, warning = _kopf.import_data(data, texts)
    if warning:
        click.echo(f"warning: {warning}", err=True)
    objects = "1 object" if count == 1 else f"{count} objects"
    click.echo(f"stored {objects} in {data}")
