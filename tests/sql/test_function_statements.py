"""CREATE, DROP and SHOW of functions, read from text."""

import pytest

from flightllm.errors import InvalidInputError, SqlError, UnsupportedError
from flightllm.sql.classify import classify
from flightllm.sql.parsed_text import ParsedText


@pytest.mark.parametrize(
    ("expression", "body", "names"),
    [
        ("ai_filter('Is {t} spam?', {t})", "ai_filter('Is {t} spam?', t)", ("t",)),
        ("ai_filter('x', b, \"A\", b)", "ai_filter('x', b, \"A\", b)", ("b", "A")),
        ("ai_score('x', t) >= least AND NOT ok", "ai_score('x', t) >= least AND NOT ok", ("t", "least", "ok")),
        ("ai_gen('x', y => t, model => small)", "ai_gen('x', y => t, model => small)", ("t",)),
        ("ai_gen(t, prompt => family)", "ai_gen(t, prompt => family)", ("t",)),
        ("ai_gen('x', CAST(t AS VARCHAR), u::DATE)", "ai_gen('x', CAST(t AS VARCHAR), u::DATE)", ("t", "u")),
        ("CASE WHEN a IS NULL THEN true ELSE ai_filter('x', a) END",) * 2 + (("a",),),
        ("ai_classify(t, ['a', 'b'], examples => [('x', 'a')])",) * 2 + (("t",),),
        ("ai_classify(t, {'a': 'first', 'b': NULL})",) * 2 + (("t",),),
        ("ai_filter('x', extract(day FROM t), substring(u FROM 2 FOR 3))",) * 2 + (("t", "u"),),
        ("ai_filter('x', v) IS DISTINCT FROM w",) * 2 + (("v", "w"),),
        ("ai_gen(CAST(t AS TIMESTAMP WITH TIME ZONE) AT TIME ZONE 'UTC')",) * 2 + (("t",),),
        ("ai_gen(t COLLATE \"C\", position('b' IN u), trim(both 'a' from v))",) * 2 + (("t", "u", "v"),),
        ("ai_gen(ARRAY[t, u], v[1], interval '1' day, date '2020-01-01')",) * 2 + (("t", "u", "v"),),
        ("ai_gen(day, at, fit, (s).x /* a, b */)",) * 2 + (("day", "at", "fit", "s"),),
    ],
)
def test_names(expression: str, body: str, names: tuple[str, ...]) -> None:
    """The names of an expression are its parameters, in their order; braces around a name mean nothing."""
    read = classify(ParsedText(f"CREATE FUNCTION f AS {expression} WITH (f1 = .9, n 3, who = ann);"))
    assert (read.kind, read.key, read.value, read.columns) == ("create_function", "f", body, names)
    assert dict(read.model_options) == {"f1": 0.9, "n": 3, "who": "ann"}


def test_parameters() -> None:
    """A list of parameters gives their order and their types; a name can have the default schema before it."""
    sql = 'create or replace function if not exists public.F(b DECIMAL(4, 2), a, "C" double precision) as ai_gen(a, b)'
    read = classify(ParsedText(sql))
    assert (read.key, read.or_replace, read.exists_ok) == ("f", True, True)
    assert read.columns == ("b", "a", "C")
    assert [one.replace(" ", "") for one in read.parameter_types] == ["DECIMAL(4,2)", "", "doubleprecision"]


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("CREATE FUNCTION", SqlError, "name of one part"),
        ("CREATE FUNCTION s.f AS ai_gen(t)", SqlError, "in no schema"),
        ("CREATE FUNCTION f ai_gen(t)", SqlError, "AS was expected"),
        ("CREATE FUNCTION f AS", SqlError, "an expression was expected"),
        ("CREATE FUNCTION f(t AS ai_gen(t)", SqlError, "a parameter|missing|AS was"),
        ("CREATE FUNCTION f(t, t) AS ai_gen(t)", SqlError, "each name occurs once"),
        ("CREATE FUNCTION f(t) AS ai_gen(t, u)", SqlError, "has the name u, which is not a parameter"),
        ("CREATE FUNCTION f(t) RETURNS text AS ai_gen(t)", UnsupportedError, "type follows from its expression"),
        ("CREATE FUNCTION f AS ai_gen((SELECT 1))", SqlError, "cannot have a query"),
        ("CREATE FUNCTION f AS ai_gen(t) FROM p", SqlError, "cannot be read: .*found: FROM"),
        ("CREATE FUNCTION f AS SELECT ai_gen(t)", SqlError, "cannot have a query"),
        ("CREATE FUNCTION f AS ai_gen(t), u", SqlError, "is one value"),
        ("CREATE FUNCTION f AS t IN (SELECT 1) AND ai_filter('x', t)", SqlError, "cannot have a query"),
        ("CREATE FUNCTION f AS ai_gen(p.t)", SqlError, "without a table before it"),
        ("CREATE FUNCTION f AS ai_gen(t) WITH (a = NULL)", InvalidInputError, "a needs a text"),
        ("CREATE FUNCTION f AS ai_gen(t) WITH (a = 1) x", SqlError, "'x' was not expected"),
        ("DROP FUNCTION", SqlError, "name of one part"),
        ("DROP FUNCTION f, g", SqlError, "',' was not expected"),
        ("SHOW USER FUNCTIONS x", SqlError, "'x' was not expected"),
    ],
)
def test_refused(sql: str, error: type[Exception], message: str) -> None:
    """A malformed statement says what was expected."""
    with pytest.raises(error, match=message):
        classify(ParsedText(sql))


@pytest.mark.parametrize("sql", ["DROP FUNCTION f", "drop function public.F (text)", "DROP FUNCTION f()"])
def test_drop(sql: str) -> None:
    """DROP names one function; the types of its parameters mean nothing."""
    read = classify(ParsedText(sql))
    assert (read.kind, read.key, read.exists_ok) == ("drop_function", "f", False)
    assert classify(ParsedText("DROP FUNCTION IF EXISTS f")).exists_ok
