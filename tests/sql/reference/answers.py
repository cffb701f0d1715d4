"""What a text gave, how a file holds it, and where two answers to one text differ."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.postgres import Answer
from tests.sql.reference.values import alike, canonical, equal, family_of

ROWS: Final = Path(__file__).parent / "rows"
"""A file for each kind of texts, with the answers of PostgreSQL."""
DIFFERENCES: Final = Path(__file__).parent / "differences.txt"
"""The texts whose answers here differ."""
_CELLS: Final = re.compile(r"(?<!\\) \| ")
_CHANGE: Final = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM|MERGE INTO|TRUNCATE(?: TABLE)?) +(?:ONLY +)?(\w+)")
Same = Callable[[str, str, str, str], bool]
"""Whether two cells are equal: the one found, the one that is wanted, and the families of their columns."""
_PLAIN_NAME: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Given:
    """What one statement gave: its columns as (name, family), its rows as canonical text, or an error."""

    columns: tuple[tuple[str, str], ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """A text and what it gave; a text that changes rows also has the count of them and the table after the change."""

    sql: str
    given: Given
    count: int | None = None
    after: Given | None = None


def changed_table(sql: str) -> str | None:
    """Return the table whose rows a text changes, or None if the text is a query."""
    found = _CHANGE.search(sql) if re.match(r"(?i)(INSERT|UPDATE|DELETE|MERGE|TRUNCATE|WITH)\b", sql) else None
    return found[1] if found else None


def steps(sql: str) -> tuple[str, ...]:
    """Return the statements whose answers together are the answer to a text."""
    table = changed_table(sql)
    return (sql,) if table is None else (sql, f"SELECT * FROM {table}")


def text_of(sql: str, answers: Sequence[Answer]) -> Text:
    """Return a text with what PostgreSQL answered to its steps."""
    first = _given(answers[0], ordered=ends_in_order(sql))
    if len(answers) == 1 or first.error:
        return Text(sql, first)
    return Text(sql, first, answers[0].count, _given(answers[1], ordered=False))


def _given(answer: Answer, *, ordered: bool) -> Given:
    if answer.error:
        return Given(error=answer.error)
    columns = tuple((name, family_of(kind)) for name, kind in answer.columns)
    rows = (tuple(canonical(c, f) for c, (_, f) in zip(row, columns, strict=True)) for row in answer.rows)
    # PostgreSQL's order differs between versions where a text asks for none.
    return Given(columns, tuple(rows if ordered else sorted(rows)))


def written(texts: Sequence[Text]) -> str:
    """Return texts as a file holds them."""
    return "\n".join("\n".join([text.sql, *(f"  {line}" for line in _lines(text)), ""]) for text in texts)


def _lines(text: Text) -> Iterator[str]:
    if text.given.error:
        yield f"error: {text.given.error}"
        return
    if text.count is not None:
        yield f"count: {text.count}"
    if text.given.columns:
        yield from _table("columns", text.given)
    if text.after is not None:
        yield from _table("after", text.after)


def _table(head: str, given: Given) -> Iterator[str]:
    yield f"{head}: {' | '.join(f'{name} {family}' for name, family in given.columns)}"
    yield from (" | ".join(row) for row in given.rows)


def shown(text: Text) -> str:
    """Return what a text gave, for a reader."""
    return "\n".join(f"  {line}" for line in _lines(text))


def read(path: Path) -> list[Text]:
    """Return the texts of a file."""
    parts = path.read_text(encoding="utf-8").split("\n\n")
    return [_read(part.splitlines()) for part in parts if part.strip()]


def _read(lines: Sequence[str]) -> Text:
    sql, count, error, tables = lines[0], None, "", dict[str, list[str]]()
    head = ""
    for line in lines[1:]:
        found = re.fullmatch(r"  (error|count|columns|after): (.*)", line)
        if found is None:
            tables[head].append(line.removeprefix("  "))
        elif found[1] == "error":
            error = found[2]
        elif found[1] == "count":
            count = int(found[2])
        else:
            head = found[1]
            tables[head] = [found[2]]
    given = _read_table(tables["columns"]) if "columns" in tables else Given(error=error)
    return Text(sql, given, count, _read_table(tables["after"]) if "after" in tables else None)


def _read_table(lines: Sequence[str]) -> Given:
    columns = (one.rpartition(" ") for one in _CELLS.split(lines[0]))
    return Given(tuple((name, family) for name, _, family in columns), tuple(tuple(_CELLS.split(x)) for x in lines[1:]))


def difference(found: Text, wanted: Text, same: Same = equal) -> str:
    """Return in words where an answer differs from the one that is wanted, or an empty string."""
    if found.count != wanted.count:
        return f"{found.count} rows changed, not {wanted.count}"
    ordered = ends_in_order(wanted.sql)
    problem = _table_difference(found.given, wanted.given, same, ordered=ordered)
    if not problem and wanted.after is not None and found.after is not None:
        problem = _table_difference(found.after, wanted.after, same, ordered=False)
    return problem


def _table_difference(found: Given, wanted: Given, same: Same, *, ordered: bool) -> str:
    if len(found.columns) != len(wanted.columns):
        return f"{len(found.columns)} columns, not {len(wanted.columns)}"
    families = [(ours, theirs) for (_, ours), (_, theirs) in zip(found.columns, wanted.columns, strict=True)]
    if not _same_rows(found.rows, wanted.rows, families, same, ordered=ordered):
        return "rows"
    for (ours, family), (theirs, due) in zip(found.columns, wanted.columns, strict=True):
        if not alike(family, due):
            return f"type {family}, not {due}"
        # A column without a name has its text as name here, and the name of a function or `?column?` in PostgreSQL.
        if ours != theirs != "?column?" and _PLAIN_NAME.fullmatch(ours):
            return f"name {ours}, not {theirs}"
    return ""


def _same_rows(
    found: Sequence[tuple[str, ...]],
    wanted: Sequence[tuple[str, ...]],
    families: Sequence[tuple[str, str]],
    same: Same,
    *,
    ordered: bool,
) -> bool:
    if len(found) != len(wanted):
        return False

    def alike_rows(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
        return all(same(a, b, *family) for a, b, family in zip(left, right, families, strict=True))

    if ordered:
        return all(map(alike_rows, found, wanted))
    left = list(found)
    for row in wanted:
        place = next((i for i, other in enumerate(left) if alike_rows(other, row)), None)
        if place is None:
            return False
        left.pop(place)
    return True


def ends_in_order(sql: str) -> bool:
    """Return whether a text has ORDER BY outside all parentheses: it must then order its rows totally."""
    plain = re.sub(r"'(?:[^']|'')*'", "''", sql)
    while (less := re.sub(r"\([^()]*\)", "", plain)) != plain:
        plain = less
    return "ORDER BY" in plain
