"""Maps DataFusion's builtin exceptions to FlightLLM errors, by their text."""

import errno
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from flightllm.common.names import LAMBDA_PREFIX, STORED_SUFFIX
from flightllm.common.redaction import redacted
from flightllm.errors import (
    FlightLLMError,
    InternalError,
    LimitExceededError,
    SqlError,
    UnknownTableError,
    UnsupportedError,
)

_PREFIX = re.compile(
    r"^(?:DataFusion error|Error during planning|Schema error|SQL error|Execution error|Arrow error|External error"
    r"|Invalid argument error|type_coercion|caused by|Optimizer rule '\w+' failed)(?:: |\s+)"
)
_PARSER = re.compile(r'^ParserError\("(?P<text>.*)"\)$', re.DOTALL)
_CASE = "Column names are case sensitive. You can use double quotes to refer to the "
_CASE_END = " column or disable the datafusion.sql_parser.enable_ident_normalization configuration."
"""The start and end of advice that names an option of DataFusion, which clients cannot set."""
_INTERNAL, _WRONG_TYPES, _INSTEAD = "Internal error: ", "' failed to match any signature", "No function matches"
"""DataFusion reports wrong types as an internal error: first a list of all signatures, then what to write instead."""
_PLEA, _PLEA_END = "This issue was likely caused by a bug in DataFusion's code.", "apache/datafusion/issues"
_HEAD, _TAIL = 12_000, 4_000
"""The numbers of characters to keep at a text's start and end, because a text can contain long values."""
_UNKNOWN_TABLE = re.compile(r"table '(?:[^']*\.)?(?P<table>.*)' not found|failed to resolve (?:schema|catalog): ")
_NO_ROOM = "No space left on device"
_UNSUPPORTED = "This feature is not implemented: "
_UNREADABLE = ("Object Store error", "Failed to fetch metadata for file", "Invalid Parquet file", "(os error ")
"""Parts of DataFusion's errors about missing, damaged or unreachable files; paths follow these words."""
EVALUATED_EARLY = "would run while the query is planned"
"""The words in the error of an AI call that DataFusion evaluates while it plans a query."""
_IN_OTHER_WORDS = (
    (
        re.compile(
            r"PyErr \{ type: <class 'flightllm\.errors\.SqlError'>, value: SqlError\((['\"])(.*?)\1\), traceback: ",
            re.DOTALL,
        ),
        r"\2",
    ),
    (
        re.compile(r"PyErr \{ type: <class '(?:OverflowError|decimal\.\w+)'>"),
        (
            "a value is out of the range of a function: write times between the years 1 and 9999, and numbers of at"
            " most 38 digits"
        ),
    ),
    (
        re.compile(EVALUATED_EARLY),
        (
            "an AI call in a subquery that names columns of the outer query would run while the query is planned: write"
            " a JOIN in place of the subquery; an aggregate goes into a subquery in FROM, with GROUP BY"
        ),
    ),
    (
        re.compile("Correlated scalar subquery must be aggregated"),
        "a subquery that names columns of the outer query must give one row at most: write (SELECT max(column) FROM …)",
    ),
    (
        re.compile(r"Physical plan does not support logical expression ScalarSubquery"),
        (
            "not supported: a subquery here can compare with columns of the outer query only by =, and cannot be in ON"
            " of a join: join its table instead, or write it in WHERE"
        ),
    ),
    (
        re.compile(
            r"Physical plan does not support logical expression (?:Exists|InSubquery|SetComparison)"
            r"|In/Exist/SetComparison subquery can only be used"
        ),
        (
            "not supported: EXISTS and IN (SELECT …) can be in WHERE and HAVING only: elsewhere write"
            " (SELECT count(*) FROM … WHERE …) > 0, with = between its columns and those of the outer query"
        ),
    ),
    (
        re.compile(r"Physical plan does not support logical expression OuterReferenceColumn"),
        (
            "not supported: a subquery or a function in FROM cannot compute with columns of the tables before it:"
            " write the expression in SELECT, as in SELECT id, unnest(list) FROM t, or join the table with ON"
        ),
    ),
    (
        re.compile(r"invalid Unicode scalar value: -?\d+"),
        "chr takes the number of a character, from 1 to 1114111: write CASE WHEN x > 0 THEN chr(x) END",
    ),
    (
        re.compile(r"Error parsing timestamp from '(\d{1,5}-\d\d-\d\d[ T]\d\d:\d\d)': error parsing time"),
        r"the timestamp '\1' has no seconds: write '\1:00'",
    ),
    (
        re.compile(r"(?:Can't cast value|value of) (-?\d+) (?:to type|is out of range) Int(?:8|16|32|64)\b"),
        r"the number \1 is out of range of its type: write a wider type, as in CAST(… AS BIGINT) or CAST(… AS NUMERIC)",
    ),
    (
        re.compile(
            r"Unsupported CAST from (?:List\((?:non-null )?)?(?:Struct|Map)\(.* to (?:Utf8|LargeUtf8|Utf8View)\b"
        ),
        (
            "a struct or a map has no text here: write to_json(column) for a column of a table, or the texts of its"
            " parts, as in CAST(s['a'] AS VARCHAR)"
        ),
    ),
    (
        re.compile(r"Can not find compatible types to compare .+ with \[.*List\(.*", re.DOTALL),
        "IN takes no list among its values: write = any(list) in place of IN (list)",
    ),
    (
        re.compile(r"Physical plan does not support logical expression WindowFunction"),
        "window functions cannot be in WHERE, ON or SET: compute them in a subquery of FROM",
    ),
    (
        re.compile(r"(Aggregate function calls cannot be nested): '.*' is nested inside '(\w+)\(.*", re.DOTALL),
        r"\1, as in \2(…): write the inner one in a subquery of FROM",
    ),
    (
        re.compile(
            r"(column .* must appear in the GROUP BY clause or must be part of an aggregate function), currently only"
            r" .*(?:__group_|__keyed_|\(coalesce\(translate\().*",
            re.DOTALL,
        ),
        r"\1",
    ),
    (
        re.compile(r"Column 'column(\d+)' is declared as non-nullable but contains null values"),
        r"value \1 of a row of VALUES is NULL, but its column is NOT NULL",
    ),
    (
        re.compile(r"Query (?:DELETE|UPDATE|INSERT|MERGE) .* not implemented yet", re.DOTALL),
        "WITH and FROM take queries alone: run INSERT, UPDATE, DELETE or MERGE as a statement of its own",
    ),
    (
        re.compile(r"Field of physical LambdaVariable .* doesn't match batch field", re.DOTALL),
        (
            "a lambda cannot read the rows of VALUES in FROM: write FROM (SELECT [1] AS a, 2 AS b UNION ALL SELECT …),"
            " or put the rows into a table"
        ),
    ),
)
"""Patterns of DataFusion's errors that do not say what to write, and our texts for them."""
_OF_SOURCE = re.compile(r"(?P<kind>SqlError|UnsupportedError): (?=the (?:attached database|column) )")
"""The begin of an error that a scan of an attached table raised; its text can have any words."""
_OF_KIND = {"SqlError": SqlError, "UnsupportedError": UnsupportedError}
_DOUBLED_STOP = re.compile(r"(Valid fields are .*[^.]\.)\.(?=\s|$)", re.DOTALL)
"""DataFusion ends a list of fields with a full stop, and some of its errors add one."""
_TYPE_NAMES = (
    (re.compile(r"\b(?:Interval|Duration)\((?:MonthDayNano|YearMonth|DayTime|ns|us|µs|ms|s)\)"), "interval"),
    (re.compile(r"\bTimestamp\((?:ns|us|µs|ms|s)(?:, None)?\)"), "timestamp"),
    (re.compile(r"\bTimestamp\((?:ns|us|µs|ms|s), (?:Some\()?\"[^\"]*\"\)?\)"), "timestamp with time zone"),
)
"""Arrow's names of the types of times, which say nothing to users of SQL, and SQL's names."""
_LAMBDA = re.compile(rf"{LAMBDA_PREFIX}\d+_")
_PANICS = "pyo3_runtime"
"""The module of the class of Rust panics; this class cannot be imported."""
_log = structlog.get_logger(__name__)


def mapped_error(
    error: Exception, parsed: str | None = None, shown: Callable[[str], str] = lambda text: text
) -> FlightLLMError:
    """Translate DataFusion's error from planning or running SQL into ours; return our own errors unchanged.

    `parsed` is the SQL text that DataFusion parsed. `shown` returns the error's text with the names that users know.
    """
    if isinstance(error, FlightLLMError):
        return error
    text = shown(plain_text(error))
    found = _OF_SOURCE.match(text)
    return _mapped(text, error, parsed) if found is None else _OF_KIND[found["kind"]](text[found.end() :])


def _mapped(text: str, error: Exception, parsed: str | None) -> FlightLLMError:
    """Return our error for the text of an error of DataFusion itself."""
    if _NO_ROOM in text or (isinstance(error, OSError) and error.errno == errno.ENOSPC):
        return no_room()
    if "Resources exhausted" in text:
        return _limit(
            "memory_bytes",
            "the query needs more memory than [limits] memory_bytes (or server_memory_bytes, if set) allows:"
            f" join or group fewer rows at once, or raise the limit in the server's configuration: {text}",
        )
    if "exceeded the allowable limit" in text:
        return _limit(
            "spill_bytes",
            "the query spills more bytes to disk than [limits] spill_bytes allows: sort, join or group fewer"
            " rows at once, or raise the limit in the server's configuration",
        )
    if any(sign in text for sign in _UNREADABLE):
        _log.error("a table's file cannot be read", error=text)
        return InternalError("a table's file is missing, damaged or unreachable; see the server's log for its name")
    said = _in_other_words(text)
    if _UNSUPPORTED in text:
        return UnsupportedError(said or text.replace(_UNSUPPORTED, "not supported: "))
    if "RecursionLimitExceeded" in text and not said:
        return LimitExceededError("the SQL text is nested too deeply (50 levels): use WITH, or shorter expressions")
    wrong = SqlError(said) if said else _wrong(text)
    wrong.parsed = parsed
    return wrong


def _in_other_words(text: str) -> str:
    """Return what to write instead, where an error does not say it; otherwise an empty text."""
    found = ((pattern.search(text), ours) for pattern, ours in _IN_OTHER_WORDS)
    return next((match.expand(ours) for match, ours in found if match), "")


def _wrong(text: str) -> SqlError:
    """Return the error for a statement that cannot be planned; the one for an unknown table holds its name."""
    unknown = _UNKNOWN_TABLE.match(text)
    if unknown is None:
        return SqlError(text)
    error = UnknownTableError(text)
    error.table = unknown["table"] or ""
    return error


@contextmanager
def panics_mapped() -> Iterator[None]:
    """Raise our error for a panic in DataFusion: to Python a panic is a `BaseException`, which no handler expects.

    So too for a plan with too many operators above one another for Python's stack.
    """
    try:
        yield
    except RecursionError as error:
        _log.warning("a plan is too deep for Python's stack", error=str(error))
        raise LimitExceededError(
            "the statement has too many AI calls or other steps: split it into several statements, or keep a part of it"
            " in a table with CREATE TABLE … AS"
        ) from error
    except BaseException as error:
        if not is_panic(error):
            raise
        _log.warning("DataFusion panicked", error=str(error))
        raise panicked() from error


def is_panic(error: BaseException) -> bool:
    """Return whether an error is a panic in DataFusion."""
    return type(error).__module__ == _PANICS


def panicked() -> UnsupportedError:
    """Return the error of a statement in which DataFusion panicked."""
    return UnsupportedError(
        "DataFusion cannot work on this statement: a part of it is wrong or too unusual; write it in another way"
    )


@contextmanager
def full_disk_mapped() -> Iterator[None]:
    """Raise our error where the disk for spilled rows is full."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise no_room() from error
        raise


def no_room() -> LimitExceededError:
    """Return the error of a query that fills the disk by spilling."""
    return _limit(
        "spill_folder",
        "the disk is full, so the query cannot spill what exceeds [limits] memory_bytes: free some space, or name "
        "another folder in [limits] spill_folder",
    )


def _limit(limit: str, message: str) -> LimitExceededError:
    error = LimitExceededError(message)
    error.limit = limit
    return error


def plain_text(error: Exception) -> str:
    """Return DataFusion's message without its internal prefixes; the message can contain paths."""
    text = _shortened(redacted(str(error)))  # a plain cut could leave a part of a secret
    while match := _PREFIX.match(text):
        text = text[match.end() :]
    if parser := _PARSER.match(text):
        text = f"syntax error: {parser['text']}"
    text = _without_option(text.replace(STORED_SUFFIX, ""))
    text = _without_plea(_without_signatures(text).replace(_INTERNAL, "")).strip()
    for arrow_name, name in _TYPE_NAMES:
        text = arrow_name.sub(name, text)
    return _DOUBLED_STOP.sub(r"\1", _LAMBDA.sub("", text))


def _without_option(text: str) -> str:
    """Replace the advice to set DataFusion's option with the advice to write double quotes."""
    before, advice, after = text.partition(_CASE)
    column, end, rest = after.partition(_CASE_END)
    return f"{before}Names in double quotes keep their case: write {column}.{rest}" if advice and end else text


def _shortened(text: str) -> str:
    return text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]} … {text[-_TAIL:]}"


def _without_signatures(text: str) -> str:
    """Drop the list of failed signatures if a list of valid ones follows."""
    tried, instead, candidates = text.partition(_INSTEAD)
    return instead + candidates if instead and tried.startswith(_INTERNAL) and _WRONG_TYPES in tried else text


def _without_plea(text: str) -> str:
    """Drop the request to report the error to DataFusion."""
    before, plea, after = text.partition(_PLEA)
    end = after.find(_PLEA_END)
    return before.rstrip().rstrip(".") + after[end + len(_PLEA_END) :] if plea and end >= 0 else text
