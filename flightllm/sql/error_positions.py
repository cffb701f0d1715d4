"""Additions to DataFusion's errors: suggestions of similar names, and positions in the text that the client sent."""

import re
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher, get_close_matches

from flightllm.common.names import CATALOG, TableName
from flightllm.errors import SqlError
from flightllm.sql.synonyms import SYNONYMS

_TABLE = re.compile(rf"^table '{CATALOG}\.(?P<schema>[^.']*)\.(?P<name>[^']*)' not found")
_ELSEWHERE = re.compile(rf"^table '(?!{CATALOG}\.)(?P<catalog>[^.']*)\.(?P<schema>[^.']*)\.(?P<name>[^']*)' not found")
_PLACE = re.compile(r" at Line: (?P<line>\d{1,9}), Column: (?P<column>\d{1,9})")
_CONFIDENCE = re.compile(r'Struct\(\[?(?:Field \{ name: )?"answer".*"confidence"')
_ANSWER_OF_STRUCT = (
    "an AI call with confidence => true returns a struct; write .answer after it,"
    " as in ai_filter(…, confidence => true).answer"
)
_FUNCTION = re.compile(r"^Invalid function '(?P<name>[^']*)'\.\s*(?:Did you mean '(?P<close>[^']*)'\?)?")
_FIELD = re.compile(r"^No field named \"?(?P<name>\w{1,100})\"?\.\s+Valid fields are (?P<fields>.{0,20000})", re.DOTALL)
_ALIKE = 0.85
_NOT_GRANTED = ", or not granted to you"
_LONGEST_NAME = 100


def explain_error(
    error: SqlError,
    sql: str,
    tables: Callable[[], Iterable[TableName]],
    is_view: Callable[[TableName], bool],
    *,
    unlimited: bool = True,
) -> None:
    """Add to an error its position in `sql`, and a similar name from the `tables` that the user can read.

    A user who is not `unlimited` gets the same message for a missing table and for a table without a grant.

    If a query uses a struct with a confidence in place of its answer, the error says how to write the answer.

    If DataFusion does not find a table and `is_view` is true for it, the view is broken: its query has no plan now.
    """
    text = str(error)
    if unknown := _TABLE.match(text):
        name = TableName(unknown["schema"], unknown["name"])
        error.args = (
            _broken(name)
            if is_view(name)
            else f"{text}{'' if unlimited else _NOT_GRANTED}{_suggestion(name, tables())}",
        )
    elif elsewhere := _ELSEWHERE.match(text):
        there = f"{elsewhere['schema']}.{elsewhere['name']}"
        error.args = (f"{text}: there is no catalog {elsewhere['catalog']!r}, only {CATALOG!r}: write {there}",)
    elif unknown := _FUNCTION.match(text):
        error.args = (_unknown_function(unknown["name"], unknown["close"] or ""),)
    elif (field := _FIELD.match(text)) and re.search(rf"(?:^|, )\"?{field['name']}\"?\.", field["fields"]):
        row = field["name"]
        error.args = (
            f"{text.rstrip('.')}: {row} is a table, so write {row}.* for its columns, or to_json({row}) for one value",
        )
    elif _CONFIDENCE.search(text):
        error.args = (f"{text}: {_ANSWER_OF_STRUCT}",)
    elif error.parsed is not None and error.parsed != sql and (place := _PLACE.search(text)):
        there = _in_sent(sql, error.parsed, int(place["line"]), int(place["column"]))
        error.args = (f"{text[: place.start()]}{there}{text[place.end() :]}",)


def _broken(view: TableName) -> str:
    return (
        f"the view {view.display!r} cannot be read: a table that it reads was dropped, has changed or is not granted to"
        " you; repair the table, or create the view again"
    )


def _unknown_function(name: str, close: str) -> str:
    """Return the message for an unknown function: what to write instead, or a function with a similar name."""
    meant = SYNONYMS.get(name.lower().rpartition(".")[2])
    if meant is not None:
        return f"there is no function {name!r}: write {meant}"
    internal = close.startswith("__")  # the server writes these names, and users cannot call them
    alike = bool(close) and not internal and _is_misspelt(name.lower(), close)
    return f"Invalid function {name!r}. {f'Did you mean {close!r}?' if alike else 'SHOW FUNCTIONS lists all functions'}"


def _is_misspelt(name: str, meant: str) -> bool:
    """Return whether a name is a slip of the pen: a function of another server with a similar name means another thing.

    A function that asks a model is meant only by a name that begins as its own.
    """
    from sqlglot import exp

    if name.upper() in exp.FUNCTION_BY_NAME or (meant.startswith("ai_") and not name.startswith("ai")):
        return False
    return SequenceMatcher(None, name[:_LONGEST_NAME], meant).ratio() >= _ALIKE


def _suggestion(wanted: TableName, tables: Iterable[TableName]) -> str:
    written = {name.display.lower(): name for name in tables}
    close = get_close_matches(wanted.display.lower()[:_LONGEST_NAME], written, n=1)
    if not close:
        return ": see SHOW TABLES"
    return f". Did you mean {written[close[0]].written}?"


def _in_sent(sql: str, parsed: str, line: int, column: int) -> str:
    """Return the position in `sql` of a position in `parsed`, or an empty text if it is unknown.

    It is known if both texts agree before or after the position.
    """
    lines = parsed.splitlines(keepends=True)
    offset = sum(map(len, lines[: line - 1])) + column - 1
    sent, before, after = sql.rstrip().removesuffix(";").rstrip(), parsed[:offset], parsed[offset:].rstrip()
    if after and sent.endswith(after):
        place = len(sent) - len(after)
    elif before and sql.count(before) == 1:
        place = sql.find(before) + offset
    else:
        return ""
    begin = sql.rfind("\n", 0, place) + 1
    return f" at Line: {sql[:begin].count(chr(10)) + 1}, Column: {place - begin + 1}"
