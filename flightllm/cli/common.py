"""Code that several commands share: options and the connection to a server."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from flightllm.client import Client
from flightllm.common.command_line import Server, login_options, read_login
from flightllm.common.flight_address import Tls, pem_of
from flightllm.config import ENGINES, Config, TablePlace
from flightllm.connection.configuration import OWN_CONFIG, configuration_here
from flightllm.errors import ConfigError, SqlError

DEFAULT_URI = "grpc://127.0.0.1:31337"
ASK_ABOVE = 1.0
"""By default, a command asks before it runs a statement with a predicted cost above this, in dollars."""


class TableParameter(click.ParamType[tuple[str, Path | str]]):
    """An option `NAME=PATH`, read as a pair; an address such as `s3://…` stays a text."""

    name = "NAME=PATH"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Path | str]:
        """Split at the first `=`; the path becomes absolute."""
        name, separator, path = str(value).partition("=")
        if not separator or not name or not path:
            self.fail(f"expected NAME=PATH, got {value!r}", param, ctx)
        return name, path if "://" in path else Path(path).expanduser().absolute()


def csv_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option for CSV files, passed on as `csv`."""
    return click.option("--csv", type=SettingParameter(), multiple=True, callback=_checked_csv,
                        help="How CSV files are written: delimiter, quote, escape, nulls, encoding, header, decimal,"
                             " skip, comment, dates or types. Repeatable.")(command)  # fmt: skip


def _checked_csv(
    _context: click.Context, _parameter: click.Parameter, given: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    if given:
        from flightllm.errors import InvalidInputError
        from flightllm.file_formats.options import CsvOptions

        try:
            CsvOptions.of(dict(given))
        except InvalidInputError as error:
            raise click.BadParameter(str(error)) from error
    return given


class SettingParameter(click.ParamType[tuple[str, str]]):
    """An option `NAME=VALUE`, read as a pair."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Split at the first `=`."""
        name, separator, text = str(value).partition("=")
        if not separator or not name:
            self.fail(f"expected NAME=VALUE, got {value!r}", param, ctx)
        return name, text


def config_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that define a `Config`; see `load_config`."""
    options = [
        click.option("--config", "config_file", type=click.Path(path_type=Path), metavar="FILE",
                     help="TOML file, by default flightllm.toml of this folder, if there is one; or default, gpu,"
                          " cluster, ray, container for a shipped one."),
        click.option("--engine", type=click.Choice(ENGINES), help="Inference engine; overrides the file."),
        click.option("--model", help="Model name or folder; overrides the file."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Files:
    """Sources that a command opens without a server, as the user gave them, and the configuration for them."""

    sources: tuple[str, ...] = ()
    config_file: Path | None = None
    engine: str | None = None
    model: str | None = None
    csv: tuple[tuple[str, str], ...] = ()
    """Options for CSV files, by name."""

    def check(self) -> None:
        """Check that no option configures a server here while the command queries another server.

        Raises:
            UsageError: there is a configuration but there are no sources.
        """
        if not self.sources and (self.config_file or self.engine or self.model or self.csv):
            raise click.UsageError(
                "--config, --engine, --model and --csv work only with --open: a running server has its own."
            )


def file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for files without a server, passed on as `files`, and the options about costly statements.

    The command gets `ask_above`: the predicted dollars above which it asks the user, or None for never.
    """

    @wraps(command)
    def with_files(
        *args: Any,
        sources: tuple[str, ...],
        config_file: Path | None,
        engine: str | None,
        model: str | None,
        csv: tuple[tuple[str, str], ...],
        yes: bool,
        ask_above: float,
        **given: Any,
    ) -> Any:
        files = Files(sources, config_file, engine, model, csv)
        return command(*args, files=files, ask_above=None if yes else ask_above, **given)

    dear = [
        click.option("--yes", is_flag=True, help="Never ask before a statement with a high predicted cost."),
        click.option("--ask-above", type=click.FloatRange(0), default=ASK_ABOVE, show_default=True, metavar="DOLLARS",
                     help="On a terminal, ask before a statement with a higher predicted cost, if a price is known."),
    ]  # fmt: skip
    opened = click.option("--open", "sources", multiple=True, metavar="FILE|FOLDER|URL",
                          help="Query files without a server; each becomes a table. Repeatable.")  # fmt: skip
    return opened(csv_option(config_options(dear[0](dear[1](with_files)))))


def data_folder_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option that names the data folder of this machine's server, as `serve` finds it."""

    @wraps(command)
    def with_found(*args: Any, config_file: Path | None, **given: Any) -> Any:
        return command(*args, config_file=found_config(config_file), **given)

    return click.option("--config", "config_file", type=click.Path(path_type=Path), metavar="FILE",
                        help="The server's TOML file, which can name its data folder; by default flightllm.toml of"
                             " this folder, if there is one.")(with_found)  # fmt: skip


def found_config(given: Path | None) -> Path | None:
    """Return the configuration that `--config` names, or else that of the current folder, with a note."""
    found, about = configuration_here(given)
    if about:
        how = "leaves it out" if found else "reads it"
        tell(f"{about}; --config {'default' if found else OWN_CONFIG} {how}")
    return found


def tell(text: str) -> None:
    """Print a note on standard error."""
    click.echo(f"note: {text}", err=True)


def load_config(
    config_file: Path | None,
    engine: str | None,
    model: str | None,
    listen: str | None = None,
    tables: Sequence[tuple[str, TablePlace]] = (),
) -> Config:
    """Read the configuration that `config_options` define; `tables` come from the command line.

    Raises:
        ConfigError: a setting is wrong, a table's name is not valid in SQL, or two tables have the same name.
    """
    given: dict[str, TablePlace] = {}
    for name, path in tables:
        if name in given:
            raise ConfigError(f"--table {name}={given[name]} and --table {name}={path}: give each table its own name")
        given[name] = path
    config = Config.load(config_file, listen=listen, engine=engine, model=model, tables=given)
    _check_names(list(config.tables))
    return config


def _check_names(names: Sequence[str]) -> None:
    """Raise `ConfigError` for a name that SQL cannot read, and for two names that are equal in SQL."""
    from flightllm.common.names import TableName, quoted
    from flightllm.sql.names import parse_name

    seen: dict[TableName, str] = {}
    for name in names:
        try:
            table = parse_name(name)
        except SqlError as error:
            raise ConfigError(
                f"{name!r} is not a table name: write letters, digits and _, a letter first, or use double quotes:"
                f" "
                f"--table '{quoted(name)}=PATH', or '{quoted(name)}' = \"PATH\" under [tables]"
            ) from error
        if table in seen:
            raise ConfigError(f"the tables {seen[table]!r} and {name!r} have the same name in SQL: rename one")
        seen[table] = name


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name the server, and pass them on as the argument `server`; see `connect`."""
    uri = click.option(
        "--uri", envvar="FLIGHTLLM_URI", default=DEFAULT_URI, show_default=True, show_envvar=True, help="The server."
    )
    return login_options(command, uri)


@contextmanager
def connect(server: Server, settings: Mapping[str, str] | None = None) -> Iterator[Client]:
    """Open a client with the login and the per-call settings."""
    with client_of(server, settings, login=read_login(server.user)) as client:
        yield client


def client_of(
    server: Server, settings: Mapping[str, str] | None = None, *, login: tuple[str, str] | None = None
) -> Client:
    """Return a client with a login, or with the server's token if there is no login; the caller closes it."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # otherwise gRPC prints its own lines between our messages
    headers = {f"x-flightllm-{name}": value for name, value in (settings or {}).items()}
    if server.token and login is None:
        headers["authorization"] = f"Bearer {server.token}"
    trusted = None if server.tls_ca is None else pem_of("--tls-ca", str(server.tls_ca))
    return Client(server.uri, headers, login=login, tls=Tls(trusted))
