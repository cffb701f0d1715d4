"""Code that commands share: errors in one line, and the options that name a server and the login for it."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn

import click

from flightllm.common.redaction import redacted
from flightllm.errors import FlightLLMError

PASSWORD = "FLIGHTLLM_PASSWORD"  # noqa: S105 - the name of a variable


class CommandError(click.ClickException):
    """An error of ours, shown on the terminal: one line, exit code 1."""

    def show(self, file: Any = None) -> None:
        """Print the message after `error: `, by default on standard error."""
        click.echo(
            f"error: {printable(redacted(' '.join(self.format_message().split())))}", file=file, err=file is None
        )


def printable(text: str) -> str:
    """Return a foreign text that is safe for the terminal: control characters become spaces."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


class OneLineErrors(click.Group):
    """A group whose commands can raise `FlightLLMError`: the user sees the message, never a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn our errors, and errors about a file, into `CommandError`."""
        try:
            return super().invoke(ctx)
        except FlightLLMError as error:
            _fail(str(error), error)
        except OSError as error:
            if error.filename is None or isinstance(error, BrokenPipeError):  # click ends these quietly
                raise
            _fail(f"{error.filename}: {error.strerror}", error)


def _fail(message: str, error: Exception) -> NoReturn:
    raise CommandError(message) from error


@dataclass(frozen=True, slots=True)
class Server:
    """The server that a command queries, and the login for it."""

    uri: str
    token: str | None = None
    user: str | None = None
    tls_ca: Path | None = None
    """The certificates to trust, where the system does not trust the server's certificate."""


def login_options(command: Callable[..., Any], uri: Callable[..., Any]) -> Callable[..., Any]:
    """Add the login options besides `uri`, the option that names the server; see `server_options`."""

    @wraps(command)
    def with_server(
        uri: str, token: str | None, user: str | None, tls_ca: Path | None, *args: Any, **given: Any
    ) -> Any:
        return command(*args, server=Server(uri, token, user, tls_ca), **given)

    options = [
        uri,
        click.option("--user", envvar="FLIGHTLLM_USER", show_envvar=True,
                     help=f"User name; the password is read from {PASSWORD} or the terminal."),
        click.option("--token", envvar="FLIGHTLLM_TOKEN", show_envvar=True, help="Bearer token, in place of a user."),
        click.option("--tls-ca", envvar="FLIGHTLLM_TLS_CA", show_envvar=True, metavar="FILE",
                     type=click.Path(path_type=Path), help="Certificates to trust (PEM), for grpc+tls://."),
    ]  # fmt: skip
    for option in reversed(options):
        with_server = option(with_server)
    return with_server


def read_login(user: str | None) -> tuple[str, str] | None:
    """Return the user with the password, from the environment or the terminal; no user: None."""
    if not user:
        return None
    password = os.environ.get(PASSWORD)
    if password is None:
        if not sys.stdin.isatty():
            raise click.UsageError(f"give the password of {user} in the environment variable {PASSWORD}.")
        password = click.prompt(f"Password of {user}", hide_input=True, err=True)
    return user, str(password)
