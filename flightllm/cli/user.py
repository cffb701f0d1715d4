"""`flightllm user` and `flightllm token`: users and tokens, stored in the data folder of this machine's server."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from flightllm.access.file import AccessFile
from flightllm.access.store import AccessStore, Allowance, User
from flightllm.cli.common import data_folder_option
from flightllm.common.command_line import PASSWORD, OneLineErrors
from flightllm.common.principal import ROLES
from flightllm.config import Config
from flightllm.connection.render import as_table, console_of, put
from flightllm.errors import InvalidInputError


@click.group(cls=OneLineErrors)
def user() -> None:
    """Add, change and list users.

    A server with users lets only these users in. The commands change the data folder, so run them on the server's
    machine; the server applies changes at once.

    \b
    flightllm user add alice --role admin
    flightllm user add bob --role readonly --group analysts --daily-tokens 1000000
    """


@click.group(cls=OneLineErrors)
def token() -> None:
    """Make, list and revoke API tokens.

    A token logs a user in without the password.
    """


def _attributes(command: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.option(
            "--role",
            type=click.Choice(ROLES),
            help="admin can do everything, readonly can only query. By default, a new user has the role user.",
        ),
        click.option("--group", "groups", multiple=True, help="A name for several users in grants. Repeatable."),
        click.option("--tenant", help="Users of different tenants share no prefix cache."),
        click.option(
            "--linked/--not-linked",
            default=None,
            help="The identity provider's user of this name is this user, with the role in its JWT.",
        ),
        click.option("--daily-calls", type=click.IntRange(0), help="AI calls a day (UTC)."),
        click.option("--daily-tokens", type=click.IntRange(0), help="Tokens a day, of prompts and answers."),
        click.option("--daily-cost", type=click.FloatRange(0), help="Cost a day, by the prices in [engine]."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@contextmanager
def _store(config_file: Path | None) -> Iterator[AccessStore]:
    store = AccessStore(Config.load(config_file).data_folder / "access.sqlite")
    try:
        yield store
    finally:
        store.close()


@user.command()
@data_folder_option
@_attributes
@click.option("--no-password", is_flag=True, help="Allow logins only by token, certificate or, with --linked, JWT.")
@click.option("--again", is_flag=True, help="Give the user the tables of a former user with this name.")
@click.option("--reset", is_flag=True, help="Start without the users and rights of a lost or damaged access.sqlite.")
@click.argument("name")
def add(config_file: Path | None, name: str, *, no_password: bool, again: bool, reset: bool, **attributes: Any) -> None:
    """Add a user; reads the password from FLIGHTLLM_PASSWORD, standard input or the terminal."""
    given = User(name, attributes["role"] or "user")
    if reset:
        aside = AccessFile(Config.load(config_file).data_folder / "access.sqlite").reset()
        click.echo("started without users, grants, row filters and column masks" + (f"; kept {aside}" if aside else ""))
    with _store(config_file) as store:
        store.add_user(_changed(given, attributes), None if no_password else _password(), again=again)
    click.echo(f"added {name} ({given.role}) in {Config.load(config_file).data_folder}")


@user.command("set")
@data_folder_option
@_attributes
@click.option("--unlimited", is_flag=True, help="Lift all daily limits first.")
@click.option("--no-groups", is_flag=True, help="Remove the user from all groups first.")
@click.option("--force", is_flag=True, help="Change the user even if no admin is left.")
@click.argument("name")
def set_(
    config_file: Path | None, name: str, *, unlimited: bool, no_groups: bool, force: bool, **attributes: Any
) -> None:
    """Change a user's role, groups, tenant, link or daily limits; the others stay."""
    with _store(config_file) as store:
        kept = store.user(name)
        if unlimited:
            kept = replace(kept, allowance=Allowance())
        if no_groups:
            kept = replace(kept, groups=frozenset())
        changed = _changed(kept, attributes)
        if not force and changed.role != "admin":
            _check_admins(store, name)
        store.change_user(changed)
    click.echo(f"changed {name}")


@user.command()
@data_folder_option
@click.argument("name")
def passwd(config_file: Path | None, name: str) -> None:
    """Change a user's password; this ends logins with the old password."""
    with _store(config_file) as store:
        store.change_user(store.user(name), _password())
    click.echo(f"changed the password of {name}")


@user.command()
@data_folder_option
@click.option("--force", is_flag=True, help="Remove the user even if no admin is left.")
@click.argument("name")
def drop(config_file: Path | None, name: str, *, force: bool) -> None:
    """Remove a user with its tokens and grants; afterwards, its tables belong to the admins."""
    with _store(config_file) as store:
        if not force:
            _check_admins(store, name)
        store.drop_user(name)
    click.echo(f"dropped {name}")


@user.command("list")
@data_folder_option
def list_users(config_file: Path | None) -> None:
    """List the users."""
    with _store(config_file) as store:
        users = store.snapshot().users
    rows = [
        (u.name, u.role, ", ".join(sorted(u.groups)), u.tenant, _yes(u.password), _yes(u.linked), *_limits(u.allowance))
        for u in users.values()
    ]
    titles = ("name", "role", "groups", "tenant", "password", "linked", "calls a day", "tokens a day", "cost a day")
    _print(titles, rows)


@token.command()
@data_folder_option
@click.option("--days", type=click.IntRange(1), default=90, show_default=True, help="Days until the token expires.")
@click.option("--forever", is_flag=True, help="Make the token valid until it is revoked.")
@click.option("--label", default="", help="Purpose of the token.")
@click.argument("name", metavar="USER")
def create(config_file: Path | None, days: int, label: str, name: str, *, forever: bool) -> None:
    """Make a token for a user and print it. It cannot be shown again."""
    expires = None if forever else datetime.now(UTC) + timedelta(days=days)
    with _store(config_file) as store:
        click.echo(store.add_token(name, label, expires))


@token.command("list")
@data_folder_option
def list_tokens(config_file: Path | None) -> None:
    """List the tokens without their text."""
    with _store(config_file) as store:
        tokens = store.snapshot().tokens.values()
    rows = [(t.id, t.user, t.label, _day(t.created), _day(t.expires)) for t in sorted(tokens, key=lambda t: t.created)]
    _print(("id", "user", "label", "created", "expires"), rows)


@token.command()
@data_folder_option
@click.argument("id_", metavar="ID")
def revoke(config_file: Path | None, id_: str) -> None:
    """Revoke a token."""
    with _store(config_file) as store:
        store.drop_token(id_)
    click.echo(f"revoked {id_}")


def _check_admins(store: AccessStore, name: str) -> None:
    """Raise `InvalidInputError` if a user is the only admin."""
    if [user.name for user in store.snapshot().users.values() if user.role == "admin"] == [name]:
        raise InvalidInputError(
            f"{name!r} is the last admin: make another user an admin first, or add --force to leave the server"
            " without an admin"
        )


def _changed(user: User, attributes: dict[str, Any]) -> User:
    """Return a user with the given attributes."""
    allowance = user.allowance
    for name in ("calls", "tokens", "cost"):
        if attributes[f"daily_{name}"] is not None:
            allowance = replace(allowance, **{name: attributes[f"daily_{name}"]})
    return replace(
        user,
        role=attributes["role"] or user.role,
        groups=frozenset(attributes["groups"]) or user.groups,
        tenant=user.tenant if attributes["tenant"] is None else attributes["tenant"],
        allowance=allowance,
        linked=user.linked if attributes["linked"] is None else attributes["linked"],
    )


def _password() -> str:
    if PASSWORD in os.environ:
        return os.environ[PASSWORD]
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    answer: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    return answer


def _print(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    put(console_of(), as_table(pa.schema([(title, pa.string()) for title in titles]), rows))


def _yes(value: object) -> str:
    return "yes" if value else "no"


def _limits(allowance: Allowance) -> tuple[str, str, str]:
    calls, tokens, cost = ("" if v is None else f"{v:,}" for v in (allowance.calls, allowance.tokens, allowance.cost))
    return calls, tokens, cost


def _day(moment: datetime | None) -> str:
    return "never" if moment is None else f"{moment:%Y-%m-%d}"
