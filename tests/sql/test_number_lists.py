"""Long lists of numbers in VALUES have the same values, written as literals or as a text."""

from pathlib import Path

import pytest
from datafusion import SessionContext

from flightllm.errors import FlightLLMError
from flightllm.sql.number_lists import with_lists_as_texts
from flightllm.sql.parsed_text import ParsedText
from tests.databases import open_database, rows

_WHOLE = [-3, 0, *range(90)]
_FLOATS = [-0.5, 1e-3, 123456.789, 0.1, *(k / 7 for k in range(90))]


def _text(values: list[object], between: str = ", ") -> str:
    return between.join(map(str, values))


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        (f"[{_text([*_WHOLE])}]", "BIGINT"),
        (f"ARRAY[{_text([*_WHOLE], ',')}]", "BIGINT"),
        (f"ARRAY [ {_text([*_FLOATS], '  ,')}  ]", ""),
        (f"[{_text([*_FLOATS])}]", "DOUBLE"),
        (f"[{_text([*_WHOLE, 0.25])}]", "DOUBLE"),
        (f"[[{_text([*_WHOLE])}], [1]]", "BIGINT"),
        (f"[{_text([*_WHOLE, 2**63])}]", ""),
        (f"[{_text([*_WHOLE, '1e5'])}]", ""),
        (f"[{_text([*_WHOLE, '.5'])}]", ""),
        (f"[{_text([*_WHOLE[:60]])}]", ""),
        (f"a[{_text([*_WHOLE])}]", ""),
        (f"1 IN ({_text([*_WHOLE])})", ""),
        (f"'[{_text([*_WHOLE])}]'", ""),
    ],
)
def test_lists_that_are_written_as_texts(written: str, kind: str) -> None:
    """Only long lists of usual numbers become texts, of whole numbers or of floats."""
    text = with_lists_as_texts(ParsedText(f"VALUES (1, {written}), (2, NULL)"))
    assert text.count("string_to_array") == bool(kind)
    assert f"AS {kind}[])" in text if kind else written in text
    assert text.startswith("VALUES (1, ")
    assert text.endswith("), (2, NULL)")


@pytest.mark.parametrize("column", ["FLOAT[]", "DOUBLE[]", "BIGINT[]", "INT[]", "TEXT[]", "DECIMAL(12, 3)[]"])
@pytest.mark.parametrize("numbers", [_WHOLE, _FLOATS, [*_WHOLE, 0.25]], ids=["whole", "floats", "mixed"])
def test_values_are_those_of_literals(tmp_path: Path, column: str, numbers: list[float]) -> None:
    """A table gets the values that DataFusion gives to the literals, in each type of column; refusals agree."""
    context = SessionContext()
    context.sql(f"CREATE TABLE t (v {column})").collect()
    with_literals = f"INSERT INTO t VALUES ([{_text([*numbers])}])"
    context.sql(with_literals).collect()
    expected = context.sql("SELECT v FROM t").to_pylist()
    database = open_database(tmp_path)
    try:
        session = database.session()
        session.update(f"CREATE TABLE t (v {column})")
        assert session.update(with_literals) == 1
        assert rows(session, "SELECT v FROM t") == expected
    finally:
        database.close()


def test_errors_show_the_text_of_the_user(tmp_path: Path) -> None:
    """An error of a statement with a long list has the list's own form."""
    database = open_database(tmp_path)
    try:
        session = database.session()
        session.update("CREATE TABLE t (i BIGINT, v FLOAT[])")
        with pytest.raises(FlightLLMError) as raised:
            session.update(f"INSERT INTO t VALUES ([{_text([*_WHOLE])}])")
        assert "string_to_array" not in str(raised.value)
    finally:
        database.close()
