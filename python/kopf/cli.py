"""The command line: running, developing, deploying and inspecting operators."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kopf._front.bridge import exits, loggers, loops
from kopf._front.tools import loaders, sandbox_cli, versions
from kopf._front.tools.sandbox_cli import reported

if TYPE_CHECKING:
    import concurrent.futures
    import threading

    from kopf._front.state.configuration import OperatorSettings
    from kopf._front.state.credentials import Vault
    from kopf._front.declare.registries import OperatorRegistry

    Flag = asyncio.Future[Any] | asyncio.Event | concurrent.futures.Future[Any] | threading.Event
    _ParamType = click.ParamType[str]
else:
    # Generic only for type checkers.
    _ParamType = click.ParamType

__all__ = ["CLIControls", "freeze", "logging_options", "main", "resume", "run"]

_F = TypeVar("_F", bound=Callable[..., Any])

#: The priority of developers' operators, above all usual ones.
_DEV_PRIORITY = 666

#: The longest pause of operators, in seconds: a hundred years.
_MAX_LIFETIME = 100 * 366 * 86400


@dataclasses.dataclass()
class CLIControls:
    """Objects for the operator that cannot be passed as command-line options; used in tests."""

    ready_flag: Flag | None = None
    stop_flag: Flag | None = None
    vault: Vault | None = None
    registry: OperatorRegistry | None = None
    settings: OperatorSettings | None = None
    loop: asyncio.AbstractEventLoop | None = None


class _Commands(click.Group):
    """The group of all commands."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the command of the process; reports failures without frames of Kopf, and exits with 1.

        Test runners call `main()` instead, which raises the exceptions.
        """
        exits.own_process()
        try:
            return super().__call__(*args, **kwargs)
        except Exception as exc:
            failure = loaders.describe_failure(exc) or _describe_end(exc)
            if failure is None:
                raise
            click.echo(failure, err=True)
            sys.exit(1)


def _describe_end(exc: Exception) -> str | None:
    """Returns the text for an error that ended the operator; `None` for all other exceptions.

    The traceback is that of the handler or callback that caused the error, if any.
    """
    from kopf._front.bridge import running, tracebacks
    from kopf._front.objects import errors

    if not isinstance(exc, errors.ActivityError | errors.LoginError | running.OperatorError):
        return None
    cause = exc.__cause__
    is_shown = cause is not None and tracebacks.without_own(cause.__traceback__) is not None
    trace = tracebacks.format_exception(cause) if cause is not None and is_shown else ""
    return f"{trace}Error: {exc}"


class _Checked(_ParamType):
    """A string that the native part checks."""

    def __init__(self, name: str, check: str) -> None:
        self.name = name
        self._check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from kopf import _kopf

        try:
            getattr(_kopf, self._check)(value)
        except ValueError as exc:
            self.fail(str(exc), param, ctx)
        return value


class _Priority(click.types.IntParamType):
    """A priority among peers: an integer of 64 bits. The range is not a part of the help."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not -(2**63) <= number < 2**63:
            self.fail(f"{number} is not an integer of 64 bits.", param, ctx)
        return number


_NAMESPACE = _Checked("text", "check_namespace")
_ENDPOINT = _Checked("text", "check_endpoint")
_PORT = click.IntRange(0, 65535)
_PRIORITY = _Priority()
#: The range of numbers of shards.
_SHARDS = (1, 256)


def logging_options(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the logging options to a command, and sets up logging before the command runs."""

    @click.option("-v", "--verbose", is_flag=True, help="Show debug messages.")
    @click.option("-d", "--debug", is_flag=True, help="Show debug messages of Kopf and asyncio.")
    @click.option("-q", "--quiet", is_flag=True, help="Show warnings and errors only.")
    @click.option(
        "--log-format",
        type=click.Choice(loggers.LogFormat, case_sensitive=False),
        default="full",
        help="Default: full.",
    )
    @click.option("--log-refkey", type=str, help="The key of the object in JSON logs.")
    @click.option(
        "--log-prefix/--no-log-prefix", default=None, help="Prefix messages with [namespace/name]."
    )
    @functools.wraps(fn)
    def wrapper(
        verbose: bool,
        quiet: bool,
        debug: bool,
        *args: Any,
        log_format: loggers.LogFormat = loggers.LogFormat.FULL,
        log_prefix: bool | None = None,
        log_refkey: str | None = None,
        **kwargs: Any,
    ) -> Any:
        loggers.configure(
            debug=debug,
            verbose=verbose,
            quiet=quiet,
            log_format=log_format,
            log_refkey=log_refkey,
            log_prefix=log_prefix,
        )
        return fn(*args, **kwargs)

    return wrapper


def _scope_options(fn: _F) -> _F:
    """Adds the options of namespaces."""
    fn = click.option(
        "-n", "--namespace", "namespaces", multiple=True, type=_NAMESPACE,
        help="Namespace or pattern; repeatable.",
    )(fn)
    return click.option(
        "-A", "--all-namespaces", "clusterwide", is_flag=True, help="Serve the whole cluster."
    )(fn)


def _check_scope(namespaces: tuple[str, ...], clusterwide: bool) -> None:
    if namespaces and clusterwide:
        raise click.UsageError("Either --namespace or --all-namespaces can be used, not both.")


@click.group(
    name="kopf",
    cls=_Commands,
    context_settings={"auto_envvar_prefix": "KOPF"},
)
@click.version_option(version=versions.version, prog_name="kopf")
@click.make_pass_decorator(CLIControls, ensure=True)
def main(__controls: CLIControls) -> None:
    pass


def _with_replicas(
    settings: OperatorSettings | None,
    enabled: bool,
    name: str | None,
    namespace: str | None,
    shards: str | None,
) -> OperatorSettings:
    """Returns the settings with the options of several replicas."""
    from kopf._front.state.configuration import OperatorSettings

    settings = settings if settings is not None else OperatorSettings()
    settings.leading.enabled = settings.leading.enabled or enabled or name is not None
    settings.leading.name = name or settings.leading.name
    settings.leading.namespace = namespace or settings.leading.namespace
    if shards is not None and shards.lower() == "auto":
        settings.leading.shards = "auto"
    elif shards is not None:
        least, most = _SHARDS
        if not shards.isdecimal() or not least <= int(shards) <= most:
            raise click.UsageError(
                f"--shards must be auto or a number from {least} to {most}, got {shards!r}."
            )
        settings.leading.shards = int(shards)
    return settings


def _check_replicas(settings: OperatorSettings, registry: OperatorRegistry) -> None:
    """Checks that replicas have a name. Startup handlers can set it later."""
    is_replicated = settings.leading.enabled or settings.leading.shards is not None
    activities = registry._activities.get_all_handlers()
    can_set = any(handler.activity == "startup" for handler in activities)
    if is_replicated and not settings.leading.name and not can_set:
        raise click.UsageError(
            "Replicas require --leader-elect-name: a name that only the replicas of this operator "
            "share."
        )


@main.command()
@logging_options
@_scope_options
@click.option("--standalone", is_flag=True, default=None, help="Ignore other operators.")
@click.option("--dev", is_flag=True, help="Take precedence over deployed operators.")
@click.option(
    "-L", "--liveness", "liveness_endpoint", type=_ENDPOINT, help="URL of the health endpoint."
)
@click.option(
    "--metrics",
    "metrics_endpoint",
    type=_ENDPOINT,
    envvar="KOPF_RUN_METRICS",
    help="URL of the metrics; default: /metrics of the health endpoint.",
)
@click.option(
    "-P", "--peering", "peering_name", envvar="KOPF_RUN_PEERING", help="Peering object to use."
)
@click.option("-p", "--priority", type=_PRIORITY, help="Priority among peers; default: 0.")
@click.option("--leader-elect", is_flag=True, help="Handle objects only with a Lease.")
@click.option("--leader-elect-name", help="Name of the Lease; implies --leader-elect.")
@click.option("--leader-elect-namespace", help="Namespace of the Lease.")
@click.option("--shards", help="Divide objects among replicas: number of shards, or auto.")
@click.option("-m", "--module", "modules", multiple=True, help="Module to import; repeatable.")
@click.option("--install-crds", is_flag=True, help="Create or update the CRDs of models.")
@click.option("--sandbox", is_flag=True, help="Run on an API server in this process, in memory.")
@click.option(
    "-f", "--filename", "filenames", multiple=True, help="Manifest for the sandbox; repeatable."
)
@click.option("--sandbox-port", type=_PORT, help="Port of the sandbox; default: any free one.")
@click.argument("paths", nargs=-1)
@click.make_pass_decorator(CLIControls, ensure=True)
def run(
    __controls: CLIControls,
    paths: list[str],
    modules: list[str],
    peering_name: str | None,
    priority: int | None,
    dev: bool | None,
    standalone: bool | None,
    namespaces: tuple[str, ...],
    clusterwide: bool,
    liveness_endpoint: str | None,
    install_crds: bool,
    metrics_endpoint: str | None,
    leader_elect: bool,
    leader_elect_name: str | None,
    leader_elect_namespace: str | None,
    shards: str | None,
    sandbox: bool,
    filenames: tuple[str, ...],
    sandbox_port: int | None,
) -> None:
    """Start an operator process and handle all the requests."""
    from kopf._front.bridge import running
    from kopf._front.declare import registries
    from kopf._front.state import configuration

    # The variable of early releases, still found in deployments.
    legacy = os.environ.get("KOPF_RUN_NAMESPACE")
    if legacy:
        try:
            _NAMESPACE.convert(legacy, None, None)
        except click.BadParameter as exc:
            raise click.UsageError(f"KOPF_RUN_NAMESPACE: {exc.message}") from exc
    namespaces = (*namespaces, legacy) if legacy else tuple(namespaces)
    _check_scope(namespaces, clusterwide)
    if not sandbox and (filenames or sandbox_port is not None):
        raise click.UsageError("--filename and --sandbox-port require --sandbox.")
    settings = __controls.settings
    settings = settings if settings is not None else configuration.OperatorSettings()
    settings.scanning.install_crds |= install_crds
    # The sandbox grants all permissions.
    settings.scanning.review_permissions |= not sandbox
    # Webhooks are called only by the sandbox, from this machine.
    settings.admission.loopback |= sandbox
    if leader_elect or leader_elect_name or leader_elect_namespace or shards:
        settings = _with_replicas(
            settings, leader_elect, leader_elect_name, leader_elect_namespace, shards
        )
    if __controls.registry is not None:
        registries.set_default_registry(__controls.registry)

    with contextlib.ExitStack() as stack:
        if sandbox:
            from kopf._front.tools import sandboxes

            with reported():
                cluster = stack.enter_context(sandboxes.sandbox(*filenames, port=sandbox_port, environ=True))
            page = sandboxes.open_page(cluster)
            click.echo(sandboxes.greeting(cluster, "The operator runs on a sandbox", page))
            clusterwide = not namespaces
        loaders.preload(paths=paths, modules=modules)
        _check_replicas(settings, __controls.registry or registries.get_default_registry())
        loop = stack.enter_context(loops.proper_loop(__controls.loop))
        running.run(
            standalone=standalone,
            namespaces=namespaces,
            clusterwide=clusterwide,
            priority=_DEV_PRIORITY if dev else priority,
            peering_name=peering_name,
            liveness_endpoint=liveness_endpoint,
            metrics_endpoint=metrics_endpoint,
            registry=__controls.registry,
            settings=settings,
            stop_flag=__controls.stop_flag,
            ready_flag=__controls.ready_flag,
            vault=__controls.vault,
            handle_signals=True,
            loop=loop,
        )


@main.command()
@logging_options
@_scope_options
@click.option("-i", "--id", help="Identity of the record; default: the user and the host.")
@click.option("--dev", is_flag=True, help="Use the priority of developers' operators.")
@click.option("-P", "--peering", "peering_name", required=True, envvar="KOPF_FREEZE_PEERING")
@click.option("-p", "--priority", type=_PRIORITY, default=100, required=True)
@click.option(
    "-t", "--lifetime", type=click.IntRange(0, _MAX_LIFETIME), required=True,
    help="Seconds until they resume.",
)
@click.option("-m", "--message", help="Not stored.")
def freeze(
    id: str | None,
    message: str | None,
    lifetime: int,
    namespaces: tuple[str, ...],
    clusterwide: bool,
    peering_name: str,
    priority: int,
    dev: bool,
) -> None:
    """Pause the resource handling in the operator(s)."""
    from kopf._front.tools import freezing

    _check_scope(namespaces, clusterwide)
    with reported():
        freezing.freeze(
            peering_name=peering_name,
            priority=_DEV_PRIORITY if dev else priority,
            lifetime=lifetime,
            identity=id,
            namespaces=namespaces,
            clusterwide=clusterwide,
        )


@main.command()
@logging_options
@_scope_options
@click.option("-i", "--id", help="Identity of the record; default: the user and the host.")
@click.option("-P", "--peering", "peering_name", required=True, envvar="KOPF_RESUME_PEERING")
def resume(
    id: str | None,
    namespaces: tuple[str, ...],
    clusterwide: bool,
    peering_name: str,
) -> None:
    """Resume the resource handling in the operator(s)."""
    from kopf._front.tools import freezing

    _check_scope(namespaces, clusterwide)
    with reported():
        freezing.resume(
            peering_name=peering_name,
            identity=id,
            namespaces=namespaces,
            clusterwide=clusterwide,
        )


main.add_command(sandbox_cli.sandbox)


@main.command()
@click.option("--once", is_flag=True, help="Exit at the end instead of waiting for Ctrl-C.")
def demo(once: bool) -> None:
    """Show an operator at work on a sandbox, step by step."""
    from kopf._front.tools import demos

    demos.run(once=once)


@main.command()
@click.option("-m", "--module", "modules", multiple=True, help="Module to import; repeatable.")
@click.argument("paths", nargs=-1)
def crd(paths: list[str], modules: list[str]) -> None:
    """Print the custom resource definitions of the models in files and modules."""
    from kopf._front.declare import schemas

    loaders.preload(paths=paths, modules=modules)
    if not schemas.declared():
        raise click.ClickException("no model is declared with @kopf.crd in the files and modules")
    with reported():
        text = schemas.to_yaml(schemas.declared())
    click.echo(text, nl=False)


def _plan_options(fn: _F) -> _F:
    """Adds the options that `rbac` and `manifests` share."""
    for option in reversed([
        click.option("--name", help="Name of all objects; default: that of the first file."),
        click.option("--namespace", help="Namespace of the operator; default: its name."),
        click.option("--serve", multiple=True, help="Namespace to serve, as by `run -n`; repeatable."),
        click.option("--allow", multiple=True, metavar="VERBS:RESOURCE[.GROUP]",
                     help="Permissions for requests of handlers; repeatable."),
        click.option("-f", "--filename", "filenames", multiple=True,
                     help="File with CRDs of other resources; repeatable."),
        click.option("--standalone", is_flag=True, help="Ignore other operators."),
        click.option("--peering", help="Peering object to use."),
        click.option("--managed-webhooks", help="Value of settings.admission.managed."),
        click.option("--install-crds", is_flag=True, help="Install CRDs at the start."),
        click.option("--leader-elect", is_flag=True, help="Elect a leader of the replicas."),
        click.option("-m", "--module", "modules", multiple=True, help="Module to import; repeatable."),
        click.argument("paths", nargs=-1),
    ]):
        fn = option(fn)
    return fn


def _print(printed: tuple[str, list[str]]) -> None:
    text, remarks = printed
    for remark in remarks:
        click.echo(f"note: {remark}", err=True)
    click.echo(text, nl=False)


@main.command()
@_plan_options
def rbac(**options: Any) -> None:
    """Print the service account, roles and bindings that the handlers need."""
    from kopf._front.tools import shipping

    with reported():
        _print(shipping.rbac(**options))


@main.command()
@click.option("--image", help="Image of the operator; default: NAME:latest.")
@click.option("--replicas", type=click.IntRange(min=0), default=1, help="Number of pods; default: 1.")
@click.option("--helm", type=click.Path(), help="Folder for a Helm chart; must be empty or absent.")
@_plan_options
def manifests(**options: Any) -> None:
    """Print the namespace, CRDs, roles, Deployment and Service of the operator."""
    from kopf._front.tools import shipping

    with reported():
        _print(shipping.manifests(**options))


@main.command()
@click.option("--legacy", is_flag=True, help="Use the API group of old releases: zalando.org.")
def peering(legacy: bool) -> None:
    """Print the CRDs of peering objects and the default objects, for kubectl."""
    from kopf import _kopf

    click.echo(_kopf.peering(legacy), nl=False)


@main.command()
@click.argument("name")
@click.option("--python", is_flag=True, help="The default; for symmetry with the Rust command.")
@click.option("--rust", is_flag=True, help="Write the operator in Rust.")
@click.option("--path", type=click.Path(), help="Folder to create; default: NAME.")
@click.option("--kopf-path", type=click.Path(exists=True),
              help="Kopf itself: a wheel or, with --rust, the folder of its sources; default: a release.")
def new(name: str, python: bool, rust: bool, path: str | None, kopf_path: str | None) -> None:
    """Create a project: an operator with tests, Dockerfile, manifests and CI workflow."""
    from kopf import _kopf

    if python and rust:
        raise click.UsageError("Either --python or --rust can be used, not both.")
    options = {"name": name, "rust": rust, "path": path or name, "kopf_path": kopf_path}
    with reported():
        click.echo(_kopf.new_project(options), nl=False)


@main.command()
@click.argument("shell", type=click.Choice(["bash", "fish", "zsh"]))
def completions(shell: str) -> None:
    """Print the completions of this command for a shell."""
    from click.shell_completion import get_completion_class

    generator = get_completion_class(shell)
    assert generator is not None  # one of the choices
    click.echo(generator(main, {}, "kopf", "_KOPF_COMPLETE").source())


class _Native(click.Command):
    """A command whose arguments are parsed elsewhere, with `--` and what follows."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.params["arguments"] = tuple(args)
        return []


def _inspecting(name: str, summary: str) -> None:
    """Adds a native command, which parses its arguments and prints its help itself."""

    @main.command(
        cls=_Native,
        name=name,
        help=summary,
        add_help_option=False,
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    @click.pass_context
    def command(context: click.Context, /, arguments: tuple[str, ...]) -> None:
        from kopf import _kopf

        # The native part writes directly to the descriptors, not to the buffers of Python.
        sys.stdout.flush()
        sys.stderr.flush()
        native = _kopf.explore if name == "explore" else _kopf.inspect
        context.exit(native([name, *arguments]))


_inspecting("get", "List objects with the state of their handling.")
_inspecting("explain", "Show why an object is in its state, and what to do about it.")
_inspecting("retrigger", "Call the handlers of an object again.")
_inspecting("release", "Remove finalizers and annotations of an uninstalled operator.")
_inspecting("explore", "Find the bugs of an operator: crashes, stale caches, lost updates.")
_inspecting("ui", "Show objects, operators and errors on a local web page.")
