"""CREATE, ALTER, DROP and SHOW of learned filters, read from text."""

import pytest

from flightllm.errors import InvalidInputError, SqlError
from flightllm.sql.classify import classify
from flightllm.sql.parsed_text import ParsedText


def test_create() -> None:
    """The call, the query of the labels and the options are read; the query can have parentheses."""
    sql = (
        "CREATE OR REPLACE FILTER spam AS ai_filter('Is {t} spam?', {t}, model => small)\n"
        "FIT ON (SELECT t, (a = 1) AS label FROM labelled) WITH (precision = .9, features = 'embedding, model');"
    )
    read = classify(ParsedText(sql))
    assert (read.kind, read.key, read.or_replace, read.columns) == ("create_filter", "spam", True, ("t",))
    assert read.value == "ai_filter('Is {t} spam?', t, model => small)"
    assert read.labelled == "SELECT t, (a = 1) AS label FROM labelled"
    assert dict(read.model_options) == {"precision": 0.9, "features": "embedding, model"}


@pytest.mark.parametrize(
    ("table", "query"),
    [
        ("s.t", 'SELECT * FROM "flightllm"."s"."t"'),
        ("system.labels", "system.labels"),
        ("(system.labels)", "system.labels"),
    ],
)
def test_table(table: str, query: str) -> None:
    """A table can stand for its rows, and `system.labels` for the labels of the question."""
    assert classify(ParsedText(f"CREATE FILTER f AS ai_filter('x', t) FIT ON {table}")).labelled == query


def test_others() -> None:
    """A filter is fitted again, dropped and shown; an object of another kind can have the name `filter`."""
    assert classify(ParsedText("ALTER FILTER spam REFIT")).kind == "refit_filter"
    dropped = classify(ParsedText("DROP FILTER IF EXISTS Spam"))
    assert (dropped.kind, dropped.key, dropped.exists_ok) == ("drop_filter", "spam", True)
    assert classify(ParsedText("SHOW FILTERS")).query == 'SELECT * FROM "flightllm"."system"."filters"'
    [grant] = classify(ParsedText("GRANT EXECUTE ON FILTER spam TO ann")).grants
    assert (grant.kind, grant.privilege, grant.name) == ("FUNCTION", "USAGE", "spam")
    for name in ("filter", "function", "model"):
        [grant] = classify(ParsedText(f"GRANT SELECT ON {name} TO ann")).grants
        assert (grant.kind, grant.name) == ("TABLE", name)


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("CREATE FILTER f AS ai_filter('x', t)", SqlError, "FIT ON was expected"),
        ("CREATE FILTER f AS ai_filter('x', t) FIT ON", SqlError, "name"),
        ("CREATE FILTER f AS ai_filter('x', t) FIT ON ()", SqlError, "a query was expected"),
        ("CREATE FILTER f AS ai_filter('x', t) FIT ON (SELECT 1) x", SqlError, "'x' was not expected"),
        ("CREATE FILTER f AS ai_filter('x', t) FIT ON (SELECT 1) WITH (a = NULL)", InvalidInputError, "needs a text"),
        ("ALTER FILTER f", SqlError, "REFIT was expected"),
        ("DROP FILTER a, b", SqlError, "',' was not expected"),
    ],
)
def test_refused(sql: str, error: type[Exception], message: str) -> None:
    """A malformed statement says what was expected."""
    with pytest.raises(error, match=message):
        classify(ParsedText(sql))
