"""What several commands share: options, one-line errors and the connection to a server."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click

from flightllm.client import Client
from flightllm.config import ENGINES, Config
from flightllm.errors import FlightLLMError

DEFAULT_URI = "grpc://127.0.0.1:31337"


class Failure(click.ClickException):
    """An error of ours on its way to the terminal: one line, exit code 1."""

    def show(self, file: Any = None) -> None:
        """Print the message after `error: `, on standard error unless told otherwise."""
        click.echo(f"error: {' '.join(self.format_message().split())}", file=file, err=file is None)


class OneLineErrors(click.Group):
    """A group whose commands may raise `FlightLLMError`: the user sees its message, never a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; map errors of ours, and only those, to `Failure`."""
        try:
            return super().invoke(ctx)
        except FlightLLMError as error:
            _fail(error)


def _fail(error: FlightLLMError) -> NoReturn:
    raise Failure(str(error)) from error


class TableParameter(click.ParamType[tuple[str, Path]]):
    """`NAME=PATH`, as a pair."""

    name = "NAME=PATH"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Path]:
        """Split at the first `=`; the path becomes absolute."""
        name, separator, path = str(value).partition("=")
        if not separator or not name or not path:
            self.fail(f"expected NAME=PATH, got {value!r}", param, ctx)
        return name, Path(path).expanduser().absolute()


class SettingParameter(click.ParamType[tuple[str, str]]):
    """`NAME=VALUE`, as a pair."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Split at the first `=`."""
        name, separator, text = str(value).partition("=")
        if not separator or not name:
            self.fail(f"expected NAME=VALUE, got {value!r}", param, ctx)
        return name, text


def config_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that make a `Config`; see `load_config`."""
    options = [
        click.option("--config", "config_file", type=click.Path(path_type=Path), metavar="FILE",
                     help="TOML file; or default, gpu, cluster for a shipped one."),
        click.option("--engine", type=click.Choice(ENGINES), help="Inference engine, over the file's."),
        click.option("--model", help="Model name or folder, over the file's."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def load_config(
    config_file: Path | None,
    engine: str | None,
    model: str | None,
    listen: str | None = None,
    tables: Mapping[str, Path] | None = None,
) -> Config:
    """Read the configuration that `config_options` name."""
    return Config.load(config_file, listen=listen, engine=engine, model=model, tables=tables)


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say which server to ask; see `connect`."""
    options = [
        click.option("--uri", envvar="FLIGHTLLM_URI", default=DEFAULT_URI, show_default=True, show_envvar=True,
                     help="Server to ask."),
        click.option("--token", envvar="FLIGHTLLM_TOKEN", show_envvar=True, help="Bearer token, if it asks for one."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@contextmanager
def connect(uri: str, token: str | None, settings: Mapping[str, str] | None = None) -> Iterator[Client]:
    """Open a client that sends the token and the per-call settings."""
    headers = {f"x-flightllm-{name}": value for name, value in (settings or {}).items()}
    if token:
        headers["authorization"] = f"Bearer {token}"
    with Client(uri, headers) as client:
        yield client
