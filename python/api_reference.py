"""Writes the pages of docs/reference/python/ from the docstrings of the package.

The sources are parsed, not imported, so that any Python 3.11 can run it without the extension. A docstring has
paragraphs, examples (indented blocks), and a list of arguments: ``- ``name``: text.`` below ``Arguments:``. "The
arguments are those of :func:`kopf.run`" refers to another list. Tests compare the pages with this script, run
their examples, and check that no public name and no argument is missing.

Usage: python python/api_reference.py [FOLDER]
"""

from __future__ import annotations

import ast
import functools
import pathlib
import re
import sys
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python" / "kopf"
FOLDER = ROOT / "docs" / "reference" / "python"
INDEX = ROOT / "docs" / "reference" / "python-api.md"

BEGIN = "<!-- begin: python/api_reference.py -->\n"
END = "<!-- end: python/api_reference.py -->\n"


class Page(NamedTuple):
    """A page of the reference: its file, title, introduction, and the names on it."""

    file: str
    title: str
    text: str
    names: tuple[str, ...]


PAGES = [
    Page(
        "changes", "Decorators for changes",
        "You want a function to be called when an object is created, changed or deleted. These decorators declare it; "
        "[Handlers](../../guide/handlers.md) explains when each of them is called, and what happens if it fails.",
        ("on.create", "on.update", "on.delete", "on.field", "on.resume", "on.reconcile"),
    ),
    Page(
        "background", "Decorators for events, daemons, timers and indices",
        "Not everything is a change: you watch objects of others, keep a task running for each object, or look objects "
        "up. See [Daemons](../../guide/daemons.md), [Timers](../../guide/timers.md) and "
        "[Indices](../../guide/indexing.md).",
        ("on.event", "on.child", "on.daemon", "on.timer", "on.index"),
    ),
    Page(
        "activities", "Decorators for the operator and its webhooks",
        "The operator itself starts, logs in, is probed, and exits; API servers ask it before they store objects. See "
        "[Startup and shutdown](../../operate/startup.md) and [Admission](../../guide/admission.md).",
        ("on.startup", "on.cleanup", "on.login", "on.probe", "on.validate", "on.mutate", "on.convert"),
    ),
    Page(
        "subhandlers", "Sub-handlers",
        "One handler has many steps, and each of them should be retried on its own. See "
        "[Sub-handlers](../../guide/sub-handlers.md).",
        ("subhandler", "register", "execute"),
    ),
    Page(
        "running", "Running operators",
        "Your program is not only an operator, or you run several of them. See [Embedding](../../operate/embedding.md).",
        ("run", "operator", "spawn_tasks", "run_tasks", "configure", "LogFormat"),
    ),
    Page(
        "registries", "Registries and lifecycles",
        "Which handlers does an operator have, and which one of them comes next? See "
        "[Registries](../../guide/loading.md#registries).",
        (
            "OperatorRegistry", "get_default_registry", "set_default_registry", "lifecycles",
            "get_default_lifecycle", "set_default_lifecycle",
        ),
    ),
    Page(
        "settings", "Settings",
        "Every setting with its type and default. [Configuration](../../operate/configuration.md) explains the important "
        "ones, and [Settings](../settings.md) compares them with those of Rust.",
        ("OperatorSettings",),
    ),
    Page(
        "errors", "Errors",
        "What to raise in a handler, and what Kopf raises. See [Errors and retries](../../guide/errors.md).",
        (
            "TemporaryError", "PermanentError", "ErrorsMode", "HandlerTimeoutError", "HandlerRetriesError",
            "AdmissionError", "LoginError", "ApplyError", "FieldConflict",
        ),
    ),
    Page(
        "objects", "Objects and their parts",
        "The types of arguments of handlers, for annotations. See [Arguments](../../guide/arguments.md).",
        (
            "Body", "Meta", "Spec", "Status", "Labels", "Annotations", "RawBody", "RawEvent", "RawEventType",
            "BodyEssence", "ObjectReference", "OwnerReference", "Resource", "HandlerId", "Logger", "ObjectLogger",
            "LocalObjectLogger",
        ),
    ),
    Page(
        "patches", "Changes and patches",
        "What has changed, and what you change. See [Patches](../../guide/patches.md) and "
        "[Status conditions](../../guide/conditions.md).",
        (
            "Reason", "Diff", "DiffItem", "DiffOperation", "FieldPath", "FieldSpec", "Patch", "PatchFn", "Conditions",
            "Trigger", "Triggers", "Requeue",
        ),
    ),
    Page(
        "memory", "Filters, memos, indices and stop flags",
        "Values and types for [filters](../../guide/filters.md), [memos](../../guide/memos.md), "
        "[indices](../../guide/indexing.md) and [daemons](../../guide/daemons.md).",
        (
            "EVERYTHING", "PRESENT", "ABSENT", "all_", "any_", "none_", "not_", "Memo", "Index", "Store",
            "DaemonStopped", "SyncDaemonStopperChecker", "AsyncDaemonStopperChecker", "DaemonStoppingReason",
        ),
    ),
    Page(
        "children", "Children of objects",
        "Your handler creates other objects, and they should be deleted together with theirs. See "
        "[Children of objects](../../guide/children.md).",
        (
            "adopt", "label", "harmonize_naming", "adjust_namespace", "append_owner_reference",
            "remove_owner_reference", "build_object_reference", "build_owner_reference",
        ),
    ),
    Page(
        "applying", "Applied children and models",
        "The objects that you create should stay as you want them, and yours should be checked. See "
        "[Applying children](../../guide/applying-children.md) and [Typed objects](../../guide/models.md).",
        ("apply_child", "AppliedChild", "children", "crd", "PrinterColumn"),
    ),
    Page(
        "events", "Kubernetes events",
        "Users see what happens to their objects with `kubectl describe`. See "
        "[Kubernetes events](../../guide/events.md).",
        ("event", "info", "warn", "exception"),
    ),
    Page(
        "login", "Logging in",
        "The operator needs credentials. See [Authentication](../../operate/authentication.md).",
        (
            "ConnectionInfo", "login_with_service_account", "login_with_kubeconfig", "login_via_client",
            "login_via_async_client", "login_via_pykube", "AiohttpSession",
        ),
    ),
    Page(
        "storages", "Storages",
        "Which handlers are done, and what the object looked like then, is stored on the object, unless you choose "
        "another place. See [Where the state is stored](../../operate/storages.md).",
        (
            "ProgressStorage", "AnnotationsProgressStorage", "StatusProgressStorage", "MultiProgressStorage",
            "SmartProgressStorage", "ProgressRecord", "DiffBaseStorage", "AnnotationsDiffBaseStorage",
            "StatusDiffBaseStorage", "MultiDiffBaseStorage",
        ),
    ),
    Page(
        "webhooks", "Webhook servers",
        "API servers must reach your operator. See [Webhook servers and tunnels](../../guide/webhook-servers.md).",
        (
            "WebhookServer", "WebhookAutoServer", "WebhookK3dServer", "WebhookMinikubeServer",
            "WebhookDockerDesktopServer", "WebhookNgrokTunnel", "WebhookAutoTunnel", "WebhookServerProtocol",
            "WebhookFn", "WebhookClientConfig", "WebhookClientConfigService", "UserInfo", "Headers", "SSLPeer",
            "Operation",
        ),
    ),
    Page(
        "testing", "kopf.testing",
        "An API server and a runner for tests. See [Tests in Python](../../test/python.md).",
        (
            "testing.sandbox", "testing.sandbox_fixture", "testing.KopfRunner", "testing.ClusterClient",
            "testing.ClusterError", "testing.VirtualTimeError",
        ),
    ),
    Page(
        "exploring", "Explorations",
        "Does your operator survive a crash between two requests? See [kopf explore](../../test/explore.md).",
        ("testing.explore", "testing.Exploration", "testing.Finding", "testing.ExplorationError"),
    ),
]

#: Names in both modules, with the page of the first one.
ALIASES = {"daemon": "on.daemon", "timer": "on.timer", "index": "on.index",
           "on.subhandler": "subhandler", "on.register": "register"}

Callable = ast.FunctionDef | ast.AsyncFunctionDef


class Found(NamedTuple):
    """A definition in the sources, and its docstring."""

    node: ast.stmt | ast.Module
    doc: str


class Argument(NamedTuple):
    """An argument of a function or a constructor, as written in the sources."""

    name: str
    type: str
    default: str | None
    #: ``/`` and ``*`` of signatures are in front of this argument.
    mark: str = ""


# --- the sources ---------------------------------------------------------------------------------


_PARSED: dict[str, ast.Module] = {}


def tree(module: str) -> ast.Module:
    if module not in _PARSED:
        path = PACKAGE.parent / module.replace(".", "/")
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        _PARSED[module] = ast.parse(file.read_text())
    return _PARSED[module]


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yields statements, also those for type checkers."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from statements(node.body)


def find(name: str, module: str = "kopf") -> Found:
    """Returns the definition of a public name; follows imports."""
    first, _, rest = name.partition(".")
    if module == "kopf" and rest and first in ("on", "testing"):
        return find(rest, f"kopf.{first}")
    if module == "kopf" and name == "lifecycles":
        node = tree("kopf._front.declare.lifecycles")
        return Found(node, string(node.body[0]))
    nodes = list(statements(tree(module).body))
    for node, following in zip(nodes, [*nodes[1:], None], strict=True):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            return Found(node, string(node.body[0]))
        if isinstance(node, ast.Assign) and name in targets(node):
            return Found(node, string(following))
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return find(alias.name, node.module)
    raise LookupError(f"{module}.{name} is not found in the sources")


def targets(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.AnnAssign):
        return [node.target.id] if isinstance(node.target, ast.Name) else []
    return [item.id for item in getattr(node, "targets", []) if isinstance(item, ast.Name)]


def string(node: ast.stmt | None) -> str:
    """Returns the text of a docstring: a literal at the beginning of a body, or below an assignment.

    The indentation is that of the literal. `inspect.cleandoc` would remove that of examples, too, if the first
    line is the only text.
    """
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value.value.replace("\n" + " " * node.col_offset, "\n").strip()
    return ""


def decorators(node: ast.stmt) -> list[str]:
    return [ast.unparse(item) for item in getattr(node, "decorator_list", [])]


def arguments(fn: Callable) -> list[Argument]:
    """Returns the arguments of a function, without ``self``."""
    args = fn.args
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + list(args.defaults)
    result = [_argument(arg, default) for arg, default in zip(positional, defaults, strict=True)]
    if args.posonlyargs and len(args.posonlyargs) < len(positional):
        at = len(args.posonlyargs)
        result[at] = result[at]._replace(mark="/, ")
    if args.vararg:
        result.append(_argument(args.vararg, None)._replace(name=f"*{args.vararg.arg}"))
    for index, (arg, default) in enumerate(zip(args.kwonlyargs, args.kw_defaults, strict=True)):
        slash = "/, " if index == 0 and args.posonlyargs and not args.args else ""
        star = "*, " if index == 0 and not args.vararg else ""
        result.append(_argument(arg, default)._replace(mark=slash + star))
    # Others are only named by it, to be refused with advice.
    is_refused = args.kwarg and args.kwarg.annotation and ast.unparse(args.kwarg.annotation) == "NoReturn"
    if args.kwarg and not is_refused:
        result.append(_argument(args.kwarg, None)._replace(name=f"**{args.kwarg.arg}"))
    public = [item for item in result if item.name != "self" and not item.name.strip("*").startswith("_")]
    return [item for item in result if item in public or item.name == "__msg"]


def _argument(arg: ast.arg, default: ast.expr | None) -> Argument:
    type_ = ast.unparse(arg.annotation) if arg.annotation else ""
    # Private markers of absent arguments, and modules of types, mean nothing to readers.
    type_ = re.sub(r" \| _UNSET\b|\b(?:dicts|flags|datetime)\.(?=[A-Z])", "", type_)
    text = None if default is None else ast.unparse(default)
    return Argument(arg.arg, type_, "…" if text == "_UNSET.token" else text)


def constructor(cls: ast.ClassDef) -> list[Argument] | None:
    """Returns the arguments of a constructor, or of the fields of a dataclass; ``None`` without any."""
    for node in cls.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            return [_renamed(item) for item in arguments(node)]
    if any(text.startswith("dataclasses.dataclass") for text in decorators(cls)):
        return [
            Argument(targets(node)[0], ast.unparse(node.annotation), ast.unparse(node.value) if node.value else None)
            for node in dataclass_fields(cls)
        ]
    return None


def dataclass_fields(cls: ast.ClassDef) -> list[ast.AnnAssign]:
    """Returns the fields of a dataclass, after those of its bases in the same module."""
    own = [node for node in cls.body if isinstance(node, ast.AnnAssign)]
    return [field for base in same_module_bases(cls) for field in dataclass_fields(base)] + own


def same_module_bases(cls: ast.ClassDef) -> list[ast.ClassDef]:
    names = [ast.unparse(base) for base in cls.bases]
    modules = [module for module in cached_modules() if cls in module.body]
    return [
        node for module in modules for node in module.body
        if isinstance(node, ast.ClassDef) and node.name in names
    ]


def cached_modules() -> list[ast.Module]:
    """Returns the modules that were parsed so far."""
    return list(_PARSED.values())


def _renamed(item: Argument) -> Argument:
    return item._replace(name="message") if item.name == "__msg" else item


@functools.cache
def options() -> dict[str, str]:
    """Returns the options of decorators with their meanings."""
    for node in tree("kopf._front.declare.documenting").body:
        if targets(node) == ["OPTIONS"]:
            found: dict[str, str] = ast.literal_eval(node.value)  # type: ignore[attr-defined]
            return found
    raise LookupError("OPTIONS are not found in documenting.py")


# --- docstrings ----------------------------------------------------------------------------------


class Doc(NamedTuple):
    """A parsed docstring: Markdown, and the meanings of arguments."""

    parts: list[str]
    arguments: dict[str, str]
    #: The arguments are described at another name.
    is_reference: bool

    @property
    def has_example(self) -> bool:
        return any(part.startswith("```python") for part in self.parts)


#: The place of the table of arguments.
TABLE = "\0"

ITEM = re.compile(r"^- (?P<names>``\w+``(?:, ``\w+``)*): (?P<text>.*)$", re.DOTALL)
SAME = re.compile(r"^The arguments are those of :\w+:`kopf\.(?P<name>\w+)`")


def parse(doc: str) -> Doc:
    """Parses a docstring."""
    parts: list[str] = []
    known: dict[str, str] = {}
    in_arguments = is_reference = False
    for block in blocks(doc):
        if block.startswith("    "):
            parts.append(f"```python\n{textwrap.dedent(block)}\n```")
            continue
        if block.startswith(".. code-block::") or block.strip() == "::":
            continue
        if match := SAME.match(block):
            known.update(parse(find(match["name"]).doc).arguments)
            is_reference = True
        if re.match(r"Arguments(, .*)?:$", block):
            in_arguments = True
            parts.append(TABLE)
            continue
        if block.startswith("- "):
            items = re.split(r"\n(?=- )", block)
            if in_arguments:
                for item in items:
                    match = ITEM.match(item)
                    assert match is not None, f"invalid argument in a docstring: {item!r}"
                    for name in re.findall(r"\w+", match["names"]):
                        known[name] = markdown(match["text"])
                in_arguments = False
                continue
            parts.append("\n".join("- " + markdown(item[2:]) for item in items))
            continue
        parts.append(markdown(block))
    return Doc(parts, known, is_reference)


def blocks(doc: str) -> Iterator[str]:
    """Yields paragraphs and indented examples; empty lines do not end an example."""
    lines: list[str] = []
    for line in [*doc.expandtabs().splitlines(), ""]:
        is_code = bool(lines) and lines[0].startswith("    ")
        if line.strip() and is_code and not line.startswith("    "):
            yield "\n".join(lines).rstrip()
            lines = [line]
        elif line.strip() or is_code:
            lines.append(line)
        elif lines:
            yield "\n".join(lines)
            lines = []
    if any(line.strip() for line in lines):
        yield "\n".join(lines).rstrip()


def markdown(text: str) -> str:
    """Converts a paragraph: joined lines, roles as links, the `::` before examples as a colon."""
    text = " ".join(text.split())
    text = re.sub(r"\s*::$", ":", text)
    text = re.sub(r"``(.+?)``", r"`\1`", text)
    return re.sub(r":\w+:`~?([\w.]+)`", _link, text)


def _link(match: re.Match[str]) -> str:
    name = match[1].removeprefix("kopf.")
    page = page_of(ALIASES.get(name, name))
    if page is None:
        return f"`{match[1]}`"
    return f"[`{match[1]}`]({page.file}.md#{anchor(name)})"


def page_of(name: str) -> Page | None:
    return next((page for page in PAGES if name in page.names), None)


def anchor(name: str) -> str:
    return "kopf" + name.replace(".", "").lower()


# --- pages ---------------------------------------------------------------------------------------


def wrapped(text: str) -> str:
    if text.startswith(("```", "|")):
        return text
    if text.startswith("- "):
        lines = text.split("\n")
        return "\n".join(textwrap.fill(line, 120, subsequent_indent="  ", **_WRAP) for line in lines)
    return textwrap.fill(text, 120, **_WRAP)


_WRAP = {"break_long_words": False, "break_on_hyphens": False}


def entry(name: str) -> list[str]:
    """Returns the section of a name."""
    found = find(name)
    doc = parse(found.doc)
    node = found.node
    parts = [f"## kopf.{name}"]
    if isinstance(node, ast.Module):
        parts += doc.parts + lifecycle_list(node)
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        parts += function(name, node, doc)
    elif isinstance(node, ast.ClassDef):
        parts += klass(name, node, doc)
    else:
        value = ast.unparse(node.value)  # type: ignore[union-attr]
        parts += [f"`{value}`" if len(value) < 100 else "", *doc.parts]
    return [wrapped(part) for part in parts if part]


def function(name: str, node: Callable, doc: Doc) -> list[str]:
    args = arguments(node)
    is_decorator = any(arg.name in options() for arg in args) and name.split(".")[-1] not in ("run", "label")
    if is_decorator and (name.startswith("on.") or name in ("subhandler", "register")):
        resource = "resource, " if any(arg.name == "arg1" for arg in args) else ""
        fn = "fn, " if name == "register" else ""
        names = ", ".join(f"`{arg.name}`" for arg in args if arg.name in options())
        sign = "" if name == "register" else "@"
        return [f"`{sign}kopf.{name}({resource}{fn}*, …)`", *doc.parts, f"[Options](options.md): {names}."]
    prefix = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    if doc.is_reference:
        return [f"`{prefix}kopf.{name}(…)`", *doc.parts]
    return [signature(f"{prefix}kopf.{name}", args), *described(doc, args)]


def signature(name: str, args: list[Argument]) -> str:
    texts = [f"{arg.mark}{arg.name}" + (f"={arg.default}" if arg.default is not None else "") for arg in args]
    whole = f"{name}({', '.join(texts)})"
    return f"`{whole}`"


def described(doc: Doc, args: list[Argument]) -> list[str]:
    """Returns the docstring with the table of arguments in its place."""
    return [table(doc, args) if part == TABLE else part for part in doc.parts]


def table(doc: Doc, args: list[Argument]) -> str:
    # Arguments that are explained together have one row.
    groups: dict[str, list[Argument]] = {}
    for arg in args:
        if (meaning := doc.arguments.get(arg.name.strip("*"))) is not None:
            groups.setdefault(meaning, []).append(arg)
    rows = []
    for meaning, group in groups.items():
        names = ", ".join(f"`{arg.name}`" for arg in group)
        types = ", ".join(dict.fromkeys(code(arg.type) for arg in group))
        defaults = ", ".join(dict.fromkeys(default(arg) for arg in group))
        rows.append(f"| {names} | {types} | {defaults} | {meaning.removesuffix('.')} |")
    if not rows:
        return ""
    return "| argument | type | default | meaning |\n|---|---|---|---|\n" + "\n".join(rows)


def default(arg: Argument) -> str:
    is_required = arg.default is None and not arg.name.startswith("*")
    return "required" if is_required else code(arg.default or "")


def code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else "–"


def klass(name: str, node: ast.ClassDef, doc: Doc) -> list[str]:
    if name == "OperatorSettings":
        return [*doc.parts, *settings(node)]
    args = constructor(node) if doc.arguments and not doc.is_reference else None
    bases = [ast.unparse(base) for base in node.bases]
    head = signature(f"kopf.{name}", args) if args is not None else ""
    parts = [head, *described(doc, args or [])]
    if any(base in ("TypedDict", "NamedTuple") for base in bases) or not doc.arguments:
        parts.append(fields(node, is_enum=any("enum." in base for base in bases)))
    parts.append(methods(node))
    return parts


def fields(node: ast.ClassDef, *, is_enum: bool) -> str:
    """Returns the documented fields or members of a class."""
    rows = []
    for item, following in zip(node.body, [*node.body[1:], None], strict=True):
        if not isinstance(item, (ast.Assign, ast.AnnAssign)) or not targets(item):
            continue
        text = string(following)
        if text and not targets(item)[0].startswith("_"):
            rows.append(f"| `{targets(item)[0]}` | {markdown(text.partition(chr(10) * 2)[0]).removesuffix('.')} |")
    title = "member" if is_enum else "attribute"
    return f"| {title} | meaning |\n|---|---|\n" + "\n".join(rows) if rows else ""


def methods(node: ast.ClassDef) -> str:
    """Returns the public methods and properties with their first paragraphs."""
    rows = []
    for item in node.body:
        if not isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) or item.name.startswith("_"):
            continue
        text = string(item.body[0])
        if not text or any(mark.endswith(".setter") for mark in decorators(item)):
            continue
        first = markdown(next(blocks(text)))
        prefix = "await " if isinstance(item, ast.AsyncFunctionDef) else ""
        call = "" if "property" in decorators(item) else signature("", arguments(item)).strip("`")
        rows.append(f"| `{prefix}.{item.name}{call}` | {first.removesuffix('.').removesuffix(':')} |")
    return "| method or property | meaning |\n|---|---|\n" + "\n".join(rows) if rows else ""


def lifecycle_list(module: ast.Module) -> list[str]:
    names = [node for node in module.body if isinstance(node, ast.FunctionDef) and "default" not in node.name]
    rows = [
        f"| `kopf.lifecycles.{node.name}` | {markdown(string(node.body[0])).removesuffix('.')} |"
        for node in names
    ]
    return ["| lifecycle | meaning |\n|---|---|\n" + "\n".join(rows)]


def settings(node: ast.ClassDef) -> list[str]:
    """Returns a table for each group of settings."""
    parts = []
    classes = {item.name: item for item in tree("kopf._front.state.configuration").body if isinstance(item, ast.ClassDef)}
    for group in node.body:
        if not isinstance(group, ast.AnnAssign) or targets(group)[0].startswith("_"):
            continue
        cls = classes[ast.unparse(group.annotation)]
        name = targets(group)[0]
        title = string(cls.body[0]).removesuffix(".")
        parts += [f"### settings.{name}", f"{title}.", setting_table(name, cls)]
    return parts


def setting_table(group: str, cls: ast.ClassDef) -> str:
    rows = []
    for item, following in zip(cls.body, [*cls.body[1:], None], strict=True):
        if isinstance(item, ast.AnnAssign) and not targets(item)[0].startswith("_"):
            text = markdown(string(following).partition("\n\n")[0]).removesuffix(".")
            type_ = ast.unparse(item.annotation)
            rows.append(f"| `{targets(item)[0]}` | {code(type_)} | {default_of(item.value)} | {text} |")
        elif isinstance(item, ast.FunctionDef) and decorators(item) == ["property"] and item.name != "batch_window":
            text = markdown(string(item.body[0])).removesuffix(".")
            type_ = ast.unparse(item.returns) if item.returns else ""
            rows.append(f"| `{item.name}` | {code(type_)} | – | {text} |")
    return "| setting | type | default | meaning |\n|---|---|---|---|\n" + "\n".join(rows)


def default_of(value: ast.expr | None) -> str:
    """Returns the default value of a field of a dataclass, calculated if it is a sum or product."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "dataclasses.field":
        given = {item.arg: item.value for item in value.keywords}
        if "default" in given:
            return default_of(given["default"])
        factory = ast.unparse(given["default_factory"])
        return {"SelectorMapping": "empty", "_make_executor": "threads"}.get(factory, f"`{factory.split('.')[-1]}()`")
    if isinstance(value, ast.BinOp):
        return code(f"{product(value):,}")
    if isinstance(value, ast.Subscript) or ast.unparse(value or ast.Constant(0)) == "FIBONACCI":
        fibonacci = [1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610]
        stop = int(ast.unparse(value.slice).strip(":")) if isinstance(value, ast.Subscript) else len(fibonacci)
        return code(", ".join(map(str, fibonacci[:stop])))
    return code(ast.unparse(value)) if value is not None else "–"


def product(value: ast.expr) -> int:
    """Returns the value of a product of numbers, such as `64 * 1024`."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        return product(value.left) * product(value.right)
    return int(ast.literal_eval(value))


def option_page() -> str:
    """Returns the page of the options of decorators."""
    users: dict[str, list[str]] = {name: [] for name in options()}
    for page in PAGES:
        for name in page.names:
            node = find(name).node
            if isinstance(node, ast.FunctionDef) and (name.startswith("on.") or name == "subhandler"):
                for arg in arguments(node):
                    if arg.name in users:
                        users[arg.name].append(name.removeprefix("on."))
    every = max(users.values(), key=len)
    rows = []
    for name, text in options().items():
        by, others = users[name], [user for user in every if user not in users[name]]
        listed = ", ".join(f"`{user}`" for user in (by if len(by) <= len(others) else others))
        shown = "all" if not others else listed if len(by) <= len(others) else f"all but {listed}"
        rows.append(f"| `{name}` | {shown} | {markdown(text)} |")
    example = textwrap.dedent('''\
        ```python
        def is_large(spec, **_):
            return spec.get("size", 0) > 10


        @kopf.on.update(
            "kopf.dev", "v1", "kopfexamples",
            id="resize",
            field="spec.size",
            old=kopf.PRESENT,
            labels={"team": "blue", "paused": kopf.ABSENT},
            when=is_large,
            retries=5,
            backoff=30,
            errors=kopf.ErrorsMode.PERMANENT,
        )
        def resize_large_ones(old, new, logger, **_):
            logger.info(f"from {old} to {new}")
        ```''')
    text = (
        "Which objects is a handler for, how often is it retried, what is it called? Options of the decorators say so. "
        "The positional arguments [select the resource](../../guide/resources.md); everything else is a keyword:"
    )
    return "\n\n".join([
        "# Options of decorators", wrapped(text), example,
        "| option | of | meaning |\n|---|---|---|\n" + "\n".join(rows),
    ]) + "\n"


def pages() -> dict[str, str]:
    """Returns the content of all pages by their file names."""
    result = {"options.md": option_page()}
    for page in PAGES:
        parts = [f"# {page.title}", wrapped(page.text)]
        for name in page.names:
            parts += entry(name)
        result[f"{page.file}.md"] = "\n\n".join(parts) + "\n"
    return result


def index() -> str:
    """Returns the list of all names for the page of the API."""
    rows = []
    for page in PAGES:
        names = ", ".join(f"[`{name}`](python/{page.file}.md#{anchor(name)})" for name in page.names)
        rows.append(f"| [{page.title}](python/{page.file}.md) | {names} |\n")
    return f"{BEGIN}| page | names |\n|---|---|\n{''.join(rows)}{END}"


def main() -> None:
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text)
    before, _, rest = INDEX.read_text().partition(BEGIN)
    (folder.parent / INDEX.name).write_text(before + index() + rest.partition(END)[2])


if __name__ == "__main__":
    main()
