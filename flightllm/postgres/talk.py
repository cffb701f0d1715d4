"""The conversation with a client, as the statements use it that this protocol answers itself."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

import pyarrow as pa

from flightllm.execution.describe import Description
from flightllm.postgres.engine import Engine
from flightllm.postgres.local_settings import PutBack
from flightllm.postgres.prepared import Names, Portal, Prepared
from flightllm.postgres.results import Result
from flightllm.postgres.settings import ClientSettings
from flightllm.postgres.transaction import Transaction


class Link(Protocol):
    """The connection as a conversation uses it."""

    def send(self, data: bytes) -> None:
        """Send bytes, at the latest at `flush`."""

    def flush(self) -> None:
        """Send what waits."""

    def next_message(self) -> tuple[bytes, bytes]:
        """Wait for the client's next message."""

    def close(self) -> None:
        """Close the connection."""


class Talk(Protocol):
    """The state of a client, and what can be sent to the client."""

    engine: Engine
    names: Names
    transaction: Transaction
    settings: ClientSettings
    link: Link

    @property
    def is_cancelled(self) -> bool:
        """Return whether what runs is to stop."""

    def send(self, data: bytes) -> None:
        """Send bytes to the client."""

    def tell(self, fields: Mapping[str, str]) -> None:
        """Send a notice."""

    def set_timeout(self, value: str) -> None:
        """Limit the time of each further statement."""

    def start_again(self) -> None:
        """Forget all that the client has set up."""

    def reset_all(self) -> None:
        """Go back to the settings of the client's first message."""

    def kept_settings(self) -> PutBack:
        """Return a function that goes back to the present settings."""

    def kept_setting(self, name: str) -> PutBack:
        """Return a function that gives a setting its present value again."""

    def restore(self, name: str) -> bool:
        """Go back to the first value of a setting, if the client's first message gave it."""

    def described(self, prepared: Prepared) -> Description:
        """Return the description of a statement."""

    def columns_of(self, portal: Portal) -> pa.Schema | None:
        """Return the columns of a portal, or None if it has no columns."""

    def table_of(self, sql: str, values: pa.Table | None) -> pa.Table:
        """Return the rows of a query in memory."""

    def blaming(self, sql: str, before: int = 0) -> AbstractContextManager[None]:
        """Let the errors of the block tell places in `sql`."""

    def stopping(self, result: Result) -> AbstractContextManager[None]:
        """Let the block end if a query is stopped while a slow client makes it wait."""
