"""All errors that the product raises on purpose: one tree, in which each class is one kind of answer to a client.

Modules raise these errors; only `flight/errors.py` turns them into Flight statuses. A message says what is wrong,
where, and what to write instead.
"""

from collections.abc import Callable


class FlightLLMError(Exception):
    """Base of all errors whose message clients can see."""

    limit: str = ""
    """The configured limit that was exceeded, if any; see `flightllm.common.limits`."""


class InvalidInputError(FlightLLMError):
    """A mistake in the user's input: SQL, an option, a value, a configuration key."""


class SqlError(InvalidInputError):
    """The SQL text cannot be planned: syntax, unknown column, wrong types."""

    parsed: str | None = None
    """The text that positions in the message refer to, where it is known and differs from the text that was sent."""


class AICallError(SqlError):
    """An AI function call is malformed: arity, option, label list, `{field}` or schema."""

    placed: bool = False
    """Whether the message names the call's position; the call around it must not add another position."""


class ConfigError(InvalidInputError):
    """The configuration file or a command-line option is wrong."""


class LimitExceededError(InvalidInputError):
    """A configured limit was exceeded; the message names the limit and its configuration key."""


class BudgetExceededError(LimitExceededError):
    """A query would exceed, or has used up, the budget in its session's settings; the message has the estimate."""

    limit = "budget"


class StatementTimeoutError(FlightLLMError):
    """A statement ran longer than its limit."""


class BusyError(FlightLLMError):
    """The server is at its limit or protects itself; the same request can succeed later."""


class QuarantinedError(InvalidInputError):
    """The statement was running when the server died, so it is refused for a while; do not send it again at once."""


class NotFoundError(FlightLLMError):
    """A named thing does not exist: a table, a query, a prepared statement."""


class UnknownTableError(SqlError, NotFoundError):
    """A statement names a table that does not exist, or whose existence its user must not learn."""

    table: str = ""
    """The table's name without its schema, where it is known."""


class UnsupportedError(FlightLLMError):
    """The request is well-formed, but this server does not support it."""


class UnauthenticatedError(FlightLLMError):
    """The client did not prove its identity."""


class PermissionDeniedError(FlightLLMError):
    """The client's user lacks a privilege for this."""


class CancelledError(FlightLLMError):
    """The query's client or an administrator cancelled it."""


def check_cancelled(cancelled: Callable[[], bool]) -> None:
    """Do nothing unless the query was cancelled.

    Raises:
        CancelledError: `cancelled()` returned True.
    """
    if cancelled():
        raise CancelledError("the query was cancelled")


class BitstreamError(FlightLLMError):
    """A coded KV cache cannot be read: it is cut short, damaged, or belongs to another codec, model or version."""


class StoreUnavailableError(FlightLLMError):
    """The store of KV caches cannot be reached or refuses requests; its content can be computed again."""


class EngineError(FlightLLMError):
    """The inference engine refused or failed; the message names the engine."""


class EngineUnavailableError(EngineError):
    """The inference engine is gone or cannot be reached; answers received so far are kept."""


class QueueFullError(EngineUnavailableError):
    """A provider takes no further job at present, or with `too_large` none of this size; the call had no effect."""

    def __init__(self, text: str, *, too_large: bool = False) -> None:
        super().__init__(text)
        self.too_large = too_large


class AnswerError(EngineError):
    """One request to an engine failed; other requests can continue.

    With `shared` true, the cause is not in the request, so sending its parts one by one does not help.
    """

    def __init__(self, text: str, *, shared: bool = False) -> None:
        super().__init__(text)
        self.shared = shared


class MissingExtraError(FlightLLMError):
    """An optional dependency is not installed; the message names the extra to install, then what to do `instead`."""

    def __init__(self, feature: str, extra: str, instead: str = "") -> None:
        super().__init__(f"{feature} needs the extra {extra!r}: {install_line(extra)}{instead}")


def install_line(extra: str) -> str:
    """Return the command that installs an extra; for `local`, with the CPU build of PyTorch.

    pip would take PyPI's build, which contains CUDA and takes gigabytes.
    """
    command = "pip install uv && uv pip install --torch-backend cpu" if extra == "local" else "pip install"
    return f"{command} '{_distribution()}[{extra}]'"


def _distribution() -> str:
    """Return the name of the installed distribution: the whole package, or only the parts for `vllm serve`."""
    from importlib.metadata import distributions  # slow to import

    installed = {name for name in ("flightllm", "flightllm-kv") if any(distributions(name=name))}
    return "flightllm-kv" if installed == {"flightllm-kv"} else "flightllm"


class InternalError(FlightLLMError):
    """A defect of the server; its log has the details under the query's id."""


class UnansweredError(InternalError):
    """A pass of a deferred statement has listed prompts whose answers come later; no client sees this error."""
