"""Write the parts of the reference pages that follow from the code: `python docs/generate.py`.

A part is between `<!-- begin NAME: … -->` and `<!-- end NAME -->`. `docs/keys.toml` says what each key means.
"""

import re
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click

from flightllm import config, errors
from flightllm.cli import main as command_line
from flightllm.cli.shell_commands import HELP
from flightllm.config import Config, EngineConfig
from flightllm.config.session_settings import Settings
from flightllm.flight.errors import to_status
from flightllm.flight.sqlstates import sqlstate
from flightllm.functions.base import COMMON_OPTIONS, AIFunction, Option
from flightllm.functions.registry import FunctionRegistry
from flightllm.session.database import Database

REFERENCE: Final = Path(__file__).parent / "reference"
_KEYS: Final = Path(__file__).parent / "keys.toml"
_VENDORS: Final = Path(__file__).parents[1] / "tests" / "dialect" / "vendor_functions.toml"
_SECTIONS: Final = {
    "config": Config,
    "server": config.ServerConfig,
    "auth": config.AuthConfig,
    "engine": EngineConfig,
    "embedding": config.EmbeddingConfig,
    "storage": config.StorageConfig,
    "storage.object_stores.NAME": config.ObjectStoreConfig,
    "attached.NAME": config.AttachedConfig,
    "models": config.ModelsConfig,
    "functions": config.FunctionsConfig,
    "limits": config.LimitsConfig,
    "cache": config.CacheConfig,
    "kvstore": config.KvStoreConfig,
    "recovery": config.RecoveryConfig,
    "log": config.LogConfig,
    "http": config.HttpConfig,
    "postgres": config.PostgresConfig,
    "tracing": config.TracingConfig,
}
OPTIONS: Final = {
    **{f"engine {name}": kind.options for name, kind in config.ENGINES.items()},
    "kv options": "flightllm.kvcache.options:KvOptions",
    **{f"embedding {name}": kind.options for name, kind in config.EMBEDDERS.items()},
}
"""The module with the options of each kind. Some of these modules are slow to import."""
_TITLES: Final = {"kv options": "KV options"}
_WORDS: Final = {
    "NotFound": "NOT_FOUND", "InvalidArgument": "INVALID_ARGUMENT",
    "Unimplemented": "UNIMPLEMENTED", "FlightUnauthenticatedError": "UNAUTHENTICATED",
    "FlightUnauthorizedError": "PERMISSION_DENIED", "FlightCancelledError": "CANCELLED",
    "FlightTimedOutError": "DEADLINE_EXCEEDED", "FlightUnavailableError": "UNAVAILABLE",
    "FlightServerError": "UNKNOWN", "FlightInternalError": "INTERNAL",
}  # fmt: skip
"""gRPC's names of the statuses that `flightllm.flight.errors` raises."""


def main(arguments: list[str]) -> int:
    """Write every page; with `--check` write nothing, and return how many pages differ."""
    return written(pages(), arguments)


def written(files: Mapping[Path, str], arguments: list[str]) -> int:
    """Write the files whose text differs, and print their paths; with `--check` only print and return how many."""
    differing = {path: text for path, text in files.items() if not path.exists() or path.read_text("utf-8") != text}
    for path, text in differing.items():
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path}\n")
    return len(differing) if "--check" in arguments else 0


def pages() -> Mapping[Path, str]:
    """Return the text of each page with generated parts, as it must be.

    Raises:
        ValueError: `keys.toml` misses a key, or has one that the code lacks.
    """
    meanings = tomllib.loads(_KEYS.read_text(encoding="utf-8"))
    parts: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], str]]] = {
        "function-table": ("functions.md", lambda _: _function_table()),
        "functions": ("functions.md", lambda _: _functions()),
        "settings": ("settings.md", lambda _: _settings()),
        "configuration": ("configuration.md", _configuration),
        "engines": ("engines.md", _engines),
        "system-tables": ("system-tables.md", _system_tables),
        "errors": ("errors.md", _errors),
        "cli": ("cli.md", lambda _: "\n".join(_commands(command_line, "flightllm"))),
        **{
            f"vendor-{dialect}": (f"vendors/{dialect}.md", partial(_vendor_functions, calls))
            for dialect, calls in tomllib.loads(_VENDORS.read_text(encoding="utf-8")).items()
        },
        "shell": ("cli.md", lambda _: f"```text\n{HELP}```"),
    }
    texts: dict[Path, str] = {}
    for name, (page, make) in parts.items():
        path = REFERENCE / page
        texts[path] = filled(path, name, make(meanings), texts.get(path))
    return texts


def filled(path: Path, name: str, part: str, text: str | None = None) -> str:
    """Return a page, or `text` in place of the page, with its generated part of this name replaced.

    Raises:
        ValueError: the page has no such part, or two.
    """
    marks = re.compile(rf"(<!-- begin {name}:.*?-->\n).*?(<!-- end {name} -->)", re.DOTALL)
    before = path.read_text(encoding="utf-8") if text is None else text
    after, count = marks.subn(lambda match: f"{match[1]}\n{part.strip()}\n\n{match[2]}", before)
    if count != 1:
        raise ValueError(f"{path} needs one part {name!r}")
    return after


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    lines = [list(head), *map(list, rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines) + "\n"


def _meant(meanings: Mapping[str, Any], section: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Return the names with their meanings."""
    names, known = list(names), meanings[section]
    missing, unknown = set(names) - set(known), set(known) - set(names)
    if missing or unknown:
        raise ValueError(f"docs/keys.toml [{section}]: missing {missing}, unknown {unknown}")
    return ((name, known[name]) for name in names)


def _written(value: object) -> str:
    """Return a default as TOML writes it; an empty text if there is no default."""
    match value:
        case bool():
            text = str(value).lower()
        case int():
            text = f"{value:_}" if value >= 10_000 else str(value)
        case float():
            text = f"{value:_.0f}" if value == int(value) and value >= 10_000 else f"{value:g}"
        case str():
            text = f'"{value}"'
        case None:
            return ""
        case Mapping() if not value:
            text = "{}"
        case _ if isinstance(value, tuple | list) and not value:
            text = "[]"
        case _:
            raise ValueError(f"no text for the default {value!r}")
    return f"`{text}`"


def _keys(owner: type, meanings: Mapping[str, Any], section: str, names: Iterable[str] | None = None) -> str:
    """Return the table of a dataclass's fields."""
    defaults = {
        one.name: one.default if one.default is not MISSING else _made(one.default_factory)
        for one in fields(owner)
        if (one.name in names if names is not None else one.name != "options")
    }
    rows = ((f"`{name}`", _written(defaults[name]), text) for name, text in _meant(meanings, section, defaults))
    return table(("key", "default", "meaning"), rows)


def _made(factory: Any) -> object:
    return None if factory is MISSING or factory is config.default_data_folder else factory()


def _configuration(meanings: Mapping[str, Any]) -> str:
    lines = []
    for section, owner in _SECTIONS.items():
        top = section == "config"
        anchor = section.removeprefix("storage.").removesuffix(".NAME")
        lines += ["## At the top" if top else f"## `[{section}]` {{#{anchor}}}", ""]
        lines += [_keys(owner, meanings, section, ["data_folder"] if top else None)]
    return "\n".join(lines)


def _engines(meanings: Mapping[str, Any]) -> str:
    lines = []
    for section in OPTIONS:
        kind = section.split()[-1]
        title = _TITLES.get(section) or f'`kind = "{kind}"`' + (" in `[embedding]`" if "embedding" in section else "")
        anchor = kind if section.startswith("engine ") else section.replace(" ", "-")
        lines += [f"## {title} {{#{anchor}}}", "", _keys(options_of(section), meanings, section)]
    return "\n".join(lines)


def options_of(section: str) -> type[Any]:
    """Return the dataclass of the options of one of `OPTIONS`."""
    module, _, name = OPTIONS[section].partition(":")
    found: type[Any] = getattr(import_module(module), name)
    return found


def _settings() -> str:
    kinds = {one.name: one.metadata["kind"] for one in fields(Settings)}
    usual = Settings().as_text()
    rows = (
        (f"`{name}`", _values(kinds[name]), f"`{usual[name]}`", text) for name, text in Settings.descriptions().items()
    )
    return table(("setting", "values", "default", "meaning"), rows)


def _values(kind: Any) -> str:
    """Return the values that a setting accepts, in the words of its own error."""
    try:
        kind.read("?")
    except ValueError as error:
        return str(error).partition("; '?'")[0].replace("'", "`")  # what is wrong with this value says nothing here
    raise ValueError(f"{kind} takes anything")


def _function_table() -> str:
    """Return the table of all functions, each with a link to its section."""
    rows = []
    for function in sorted(FunctionRegistry.load(), key=lambda one: one.name):
        call = _call(function, function.name, []) if isinstance(function, AIFunction) else function.signature()
        also = f", also {', '.join(f'`{name}`' for name in function.names[1:])}" if function.names[1:] else ""
        rows.append((f"[`{call}`](#{function.name}){also}", function.returns))
    return table(("function", "returns"), rows)


def _functions() -> str:
    common = {option.name for option in COMMON_OPTIONS}
    lines = []
    for function in sorted(FunctionRegistry.load(), key=lambda one: one.name):
        lines += [f"### {function.name}", "", function.summary, ""]
        if isinstance(function, AIFunction):
            own = [option for option in function.all_options if option.name not in common]
            taken = function.positional(function.name)
            calls = [_call(function, name, own) for name in function.names]
            lines += ["```text", *calls, "```", "", f"Returns {function.returns}.", ""]
            shown = [option for option in own if option.name not in taken]
            if shown:
                rows = ((f"`{one.name}`", _type(one), _default(one), _allowed(one)) for one in shown)
                lines += [table(("option", "type", "default", "values"), rows)]
        else:
            lines += ["```text", function.signature(), "```", "", f"Returns {function.returns}.", ""]
    return "\n".join(lines)


def _call(function: AIFunction, name: str, own: list[Option]) -> str:
    order = function.positional(name)
    options = ", ".join(f"{option.name} =>" for option in own if option.name not in order)
    return f"{name}({', '.join(order)}{' [, field…]' if function.fields else ''}{f' [, {options}]' if options else ''})"


def _type(option: Option) -> str:
    names = {str: "text", int: "whole number", float: "number", bool: "boolean", tuple: "schema or list", list: "list"}
    return names.get(option.type, "entries `{…}`")


def _default(option: Option) -> str:
    return "" if option.default is None else f"`{str(option.default).lower()}`" if option.default != "" else ""


def _allowed(option: Option) -> str:
    if option.choices:
        return ", ".join(f"`{choice}`" for choice in option.choices)
    if option.low is None and option.high is None:
        return ""
    low, high = (None if one is None else f"{one:_g}".replace("_", ",") for one in (option.low, option.high))
    return f"from {low}" if high is None else f"up to {high}" if low is None else f"{low} to {high}"


def _vendor_functions(calls: Sequence[Mapping[str, str]], _: Mapping[str, Any]) -> str:
    """Return what each call of a vendor does, from the table that the tests run."""
    names = [one["pasted"].partition("(")[0] for one in calls]
    named = sorted(zip(names, calls, strict=True), key=lambda one: one[0].lower())
    return table(
        ["Function", "Pasted", "Here"], ([f"`{name}`", f"`{one['pasted']}`", _here(one)] for name, one in named)
    )


def _here(one: Mapping[str, str]) -> str:
    if "ours" in one:
        return "as pasted" if one["ours"] == one["pasted"] else f"as pasted; ours is `{one['ours']}`"
    return f"write `{one['write']}`" if "write" in one else f"not there: {one['absent']}"


def _system_tables(meanings: Mapping[str, Any]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        database = Database.open(Config(engine=EngineConfig("fake"), data_folder=Path(folder)))
        try:
            schemas = {info.name.name: info.schema for info in database.catalog.store.system_tables()}
        finally:
            database.close()
    lines = []
    for name, text in _meant(meanings, "system tables", sorted(schemas)):
        lines += [f"## system.{name}", "", text, ""]
        lines += [table(("column", "type"), ((f"`{one.name}`", str(one.type)) for one in schemas[name]))]
    return "\n".join(lines)


def _errors(meanings: Mapping[str, Any]) -> str:
    classes = {one.__name__: one for one in _subclasses(errors.FlightLLMError)}
    rows = []
    for name, text in _meant(meanings, "errors", classes):
        one = classes[name]
        error = one("x", "x") if one is errors.MissingExtraError else one("x")
        rows.append((f"`{name}`", f"`{sqlstate(error)}`", _WORDS[type(to_status(error)).__name__], text))
    return table(("class", "SQLSTATE", "gRPC status", "when"), rows)


def _subclasses(one: type[Any]) -> Iterator[type[Any]]:
    for child in one.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from _subclasses(child)


def _commands(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[str]:
    """Yield the help of a command, then the help of its subcommands."""
    settings = {} if parent else command.context_settings
    context = click.Context(command, parent, name, terminal_width=100, max_content_width=100, **settings)
    heading = "##" if parent is None or parent.parent is None else "###"
    yield from (f"{heading} {context.command_path}", "", "```text", command.get_help(context).strip(), "```", "")
    if isinstance(command, click.Group):
        for below in sorted(command.list_commands(context)):
            found = command.get_command(context, below)
            if found is not None and found.name == below:  # a command's second name has the same text
                yield from _commands(found, below, context)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
