"""INSERT and DELETE of `system.labels`: a user adds, replaces and removes judgements about answers."""

from collections.abc import Generator, Iterable
from contextlib import closing
from itertools import chain

from flightllm.common.names import TableName
from flightllm.config.session_settings import Settings
from flightllm.datafusion.run import Batches
from flightllm.errors import CancelledError, InvalidInputError, UnsupportedError
from flightllm.execution.context import Services
from flightllm.execution.explain import ShownQuery
from flightllm.execution.planning import plan
from flightllm.observe.query_record import QueryRecord
from flightllm.sql.classify import classify
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.statement import Statement
from flightllm.system_tables.labels import GIVEN, Label, label_of

LABELS = TableName("system", "labels")
_ROWS = 128
"""The rows that become Python values at once."""
_CHANGES = ("insert", "update", "delete", "merge", "truncate")
_INSERT = "INSERT INTO system.labels (function, task, fields, label, …) SELECT … or VALUES …"
_DELETE = "DELETE FROM system.labels WHERE …"


def changes_labels(statement: Statement) -> bool:
    """Return whether a statement changes rows of `system.labels`."""
    names = statement.dropped or (statement.target,)
    return statement.kind in _CHANGES and LABELS in names


def change_labels(
    statement: Statement,
    record: QueryRecord,
    services: Services,
    settings: Settings,
    more: Iterable[ParsedText] | None = None,
) -> int:
    """Add or delete labels, all of a statement or no one; return their number. `more` has further rows of VALUES.

    An INSERT replaces the user's own label about the same question and values. A DELETE removes only labels that the
    user can see: admins see the labels of all users.

    Raises:
        CancelledError: the record was cancelled.
        LimitExceededError: the user's labels, or those of all users, are too large.
        FlightLLMError: the statement is wrong, or the user is readonly.
    """
    query = check_labels(statement, services, settings)
    if statement.kind == "delete":
        found = [one for batch in _rows(query.run(record), record) for one in batch.column(0).to_pylist()]
        return services.labels.remove(found)
    further = (plan(classify(text).parsed_query, services, settings) for text in more or ())
    with closing(_given(chain([query], further), statement, record, services)) as labels:
        return services.labels.put(services.rights.principal.name, labels)


def check_labels(statement: Statement, services: Services, settings: Settings) -> ShownQuery:
    """Return the query of a change of labels, planned; it changes nothing.

    Raises:
        FlightLLMError: the statement is wrong, or the user is readonly.
    """
    services.rights.check_writer("labelling an answer")
    if statement.kind == "insert":
        if statement.change is not None:
            raise UnsupportedError(
                f"a new label of yours replaces your earlier one about the same question and values, and returns no"
                f" rows: write {_INSERT}"
            )
        query = plan(statement.parsed_query, services, settings)
        _check_columns(statement.columns, len(query.schema))
        return query
    change = statement.change
    if statement.kind != "delete" or change is None or change.source or change.returning:
        raise UnsupportedError(
            f"system.labels takes no {statement.kind.upper()} of this form: write {_INSERT}, or {_DELETE}"
        )
    condition = f" WHERE {change.condition}" if change.condition else ""
    text = f"{change.common} SELECT label_id FROM {LABELS.sql} AS {change.alias}{condition}".strip()
    return plan(ParsedText(text), services, settings)


def _check_columns(columns: tuple[str, ...], width: int) -> None:
    if not columns:
        raise InvalidInputError(f"name the columns of the new labels: {_INSERT}")
    unknown = [name for name in columns if name not in GIVEN]
    if unknown:
        raise InvalidInputError(f"a label takes no value for {unknown[0]!r}; it takes {', '.join(GIVEN)}")
    if len(columns) != width:
        raise InvalidInputError(f"the statement names {len(columns)} columns, but its rows have {width} values")


def _given(
    queries: Iterable[ShownQuery], statement: Statement, record: QueryRecord, services: Services
) -> Generator[Label, None, None]:
    """Yield the labels of the queries' rows, a few at a time: the texts of a whole batch can be large."""
    user = services.rights.principal.name
    for batch in chain.from_iterable(_rows(query.run(record), record) for query in queries):
        for start in range(0, batch.num_rows, _ROWS):
            columns = [column.to_pylist() for column in batch.slice(start, _ROWS).columns]
            for row in zip(*columns, strict=True):
                given = dict(zip(statement.columns, row, strict=True))
                yield label_of({**given, "function": _function(given.get("function"), services)}, user)


def _function(name: object, services: Services) -> object:
    """Return the own name of the AI function that a label names; None stays."""
    if not isinstance(name, str):
        return name
    found = services.functions.get(name)
    if found is None:
        raise InvalidInputError(f"there is no AI function {name[:40]!r} to label: SHOW FUNCTIONS lists them")
    return found.name


def _rows(batches: Batches, record: QueryRecord) -> Batches:
    with closing(batches):
        yield from batches
    if record.cancelled.is_set():
        raise CancelledError("the statement was cancelled")
