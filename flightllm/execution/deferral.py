"""The statements that wait for a provider's batch endpoint, as queries see them."""

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from flightllm.common.principal import Principal


@dataclass(frozen=True, slots=True)
class DeferredStatement:
    """A statement with all that a later run needs: nothing of its session must be left then."""

    sql: str
    """The text as it was sent."""
    parameters: bytes | None
    """One row of parameters as an Arrow stream, or None."""
    settings: dict[str, str]
    """The settings that differ from their defaults, without `delivery`."""
    path: tuple[str, ...]
    """The search path."""
    principal: Principal
    is_update: bool
    """Whether the statement changes a table and returns no rows."""
    as_postgres: bool = False


@dataclass(frozen=True, slots=True)
class Forecast:
    """The probable prompts and prices of a deferred statement. A price is None if a model has no prices."""

    prompts: int
    price: float | None
    """The price at the batch endpoint."""
    immediate_price: float | None


class Deferral(Protocol):
    """Keeps deferred statements, and runs them."""

    def create(self, statement: DeferredStatement, forecast: Forecast) -> str:
        """Keep a statement on disk, begin to run it, and return its id."""

    def cancel(self, batch_id: str, principal: Principal) -> None:
        """Stop a statement; the answers that came stay in the answer cache.

        Raises:
            NotFoundError: the user has no deferred statement with this id.
        """

    def close(self) -> None:
        """Stop; a later process goes on. Idempotent."""

    def result(self, batch_id: str, principal: Principal) -> pa.Table:
        """Return the rows of a query that is done.

        Raises:
            NotFoundError: the user has no deferred query with this id.
            InvalidInputError: there are no rows yet, or never will be.
        """
