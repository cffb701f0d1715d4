"""Tells why no server starts with a data folder."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from flightllm.access.control import check_owners
from flightllm.access.store import AccessStore
from flightllm.catalog.models import Objects
from flightllm.errors import FlightLLMError
from flightllm.storage.damage import check_places, list_of_tables, owners_of
from flightllm.storage.lock import check_lock


def reasons_not_to_start(folder: Path) -> Iterator[str]:
    """Yield why a server refuses to start with this data folder, one reason for each damaged or missing file.

    A server can run meanwhile.
    """
    owners = set[str]()
    tables = folder / "tables"
    with closing(AccessStore(folder / "access.sqlite")) as store:
        checks: tuple[Callable[[], object], ...] = (
            lambda: check_lock(folder),
            lambda: owners.update(owners_of(tables, list_of_tables(tables))),
            lambda: check_places(tables),
            lambda: check_lock(tables),
            lambda: owners.update(Objects(folder).owners),
            store.snapshot,
        )
        reasons = [reason for check in checks if (reason := _reason(check))]
        yield from reasons
        if not reasons and (missing := _reason(lambda: check_owners(store, owners))):
            yield missing


def _reason(check: Callable[[], object]) -> str:
    """Return the error of a check, or ""."""
    try:
        check()
    except FlightLLMError as error:
        return str(error)
    return ""
