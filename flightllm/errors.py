"""Every error the product raises on purpose: one tree, each class one kind of answer to a client.

Modules raise these; `flight/errors.py` alone turns them into Flight statuses. A message says what was wrong, where, and
what to write instead.
"""


class FlightLLMError(Exception):
    """Base of all errors whose message may be shown to a client."""

    limit: str = ""
    """The configured limit that was hit, where it was one; see `flightllm.common.limits`."""


class InvalidInputError(FlightLLMError):
    """Something the user wrote is wrong: SQL, an option, a value, a configuration key."""


class SqlError(InvalidInputError):
    """The SQL text cannot be planned: syntax, unknown column, wrong types."""

    parsed: str | None = None
    """The text that places in the message count in, where it is known and may be another than the one sent."""


class AICallError(SqlError):
    """An AI function call is malformed: arity, option, label list, `{field}` or schema."""


class ConfigError(InvalidInputError):
    """The configuration file or a command-line option is wrong."""


class LimitExceededError(InvalidInputError):
    """A configured limit was hit; the message names the limit and its configuration key."""


class BudgetExceededError(LimitExceededError):
    """A query would spend, or has spent, what its session's settings allow; the message has the estimate."""

    limit = "budget"


class StatementTimeoutError(FlightLLMError):
    """A statement ran longer than it may."""


class BusyError(FlightLLMError):
    """The server does as much as it may at once, or guards itself; the same request can succeed later."""


class QuarantinedError(InvalidInputError):
    """The statement was running when the server died, and is refused for a while: sending it again is no use."""


class NotFoundError(FlightLLMError):
    """A named thing does not exist: a table, a query, a prepared statement."""


class UnknownTableError(SqlError, NotFoundError):
    """A statement names a table that does not exist, or that its user may not know of."""


class UnsupportedError(FlightLLMError):
    """The request is well-formed but this server does not do it."""


class UnauthenticatedError(FlightLLMError):
    """The client did not prove who it is."""


class PermissionDeniedError(FlightLLMError):
    """The client may not do this."""


class CancelledError(FlightLLMError):
    """The query was cancelled by its client or by an administrator."""


class BitstreamError(FlightLLMError):
    """A coded KV cache cannot be read: it is cut short, damaged, or of another codec, model or version."""


class StoreUnavailableError(FlightLLMError):
    """The store of KV caches cannot be reached, or refuses; what it holds can be computed again."""


class EngineError(FlightLLMError):
    """The inference engine refused or failed; the message names the engine."""


class EngineUnavailableError(EngineError):
    """The inference engine is gone or cannot be reached; answers already received are kept."""


class AnswerError(EngineError):
    """One request to an engine came to nothing, and others can go on.

    With `shared` the reason has nothing to do with what was asked: asking for its parts is no use.
    """

    def __init__(self, text: str, *, shared: bool = False) -> None:
        super().__init__(text)
        self.shared = shared


class MissingExtraError(FlightLLMError):
    """An optional dependency is not installed; the message names the extra to install."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the extra {extra!r}: pip install 'flightllm[{extra}]'")


class InternalError(FlightLLMError):
    """A defect of the server; details are in its log under the query's id."""
