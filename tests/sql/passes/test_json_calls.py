"""PostgreSQL's functions and operators of JSON have PostgreSQL's values; the values are those of PostgreSQL 15."""

from collections.abc import Iterator

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask, small_database

DEEP = """'{"b": 1, "a": {"c": [1, {"x": "y"}], "n": null}}'"""
BUILT = '{"l": ["x", true], "t": "2024-01-05T10:00:00"}'


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open the small tables and a table of JSON."""
    database = small_database(tmp_path_factory.mktemp("json"))
    session = database.session()
    session.update(
        f"CREATE TABLE docs AS SELECT {DEEP}::jsonb AS j, 2.0::double AS f, TIMESTAMP '2024-01-05 10:00' AS t"
    )
    yield session
    database.close()


@pytest.mark.parametrize("dialect", ["default", "postgres"])
@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("j", '{"a": {"c": [1, {"x": "y"}], "n": null}, "b": 1}'),
        ("""'{"bb":1,"c":1.50,"bb":1e2}'::jsonb""", '{"c": 1.50, "bb": 100}'),
        ("""'{"b":1,"a":2}'::json""", '{"b":1,"a":2}'),
        ("""CAST('[1,-0]' AS jsonb)""", "[1, 0]"),
        ("""jsonb '{"é":"a\\u00e9"}'""", '{"é": "aé"}'),
        ("j #> '{a,c,0}'", "1"),
        ("j #>> '{a,c,1,x}'", "y"),
        ("j #>> '{a,n}'", None),
        ("j #> ARRAY['a', 'c', '-1']", '{"x": "y"}'),
        ("jsonb_extract_path(j, 'a', 'c', '1')", '{"x": "y"}'),
        ("jsonb_extract_path_text(j, 'a', 'c', '1', 'x')", "y"),
        ("""j @> '{"a": {"c": [{}]}}'""", True),
        ("""'{"b": 1}'::jsonb <@ j""", True),
        ("""'["a", ["b"]]'::jsonb @> '"a"'""", True),
        ("""'{"a": ["b"]}'::jsonb @> '{"a": "b"}'""", False),
        ("""'[1, 2, 2]'::jsonb @> '[2, 1]'""", True),
        ("j - 'a'", '{"b": 1}'),
        ("""'["a", "b", "c"]'::jsonb - 1""", '["a", "c"]'),
        ("""'["a", "b", "c"]'::jsonb - ARRAY['a', 'b']""", '["c"]'),
        ("""'{"a": 1}'::jsonb || '{"a": 2, "c": null}'""", '{"a": 2, "c": null}'),
        ("""'[1]'::jsonb || '2'::jsonb""", "[1, 2]"),
        ("""jsonb_set('[{"f": 1}, 2]', '{0,f}', '[3]', false)""", '[{"f": [3]}, 2]'),
        ("""jsonb_set('{"a": 1}', '{b}', '2')""", '{"a": 1, "b": 2}'),
        ("""jsonb_strip_nulls('{"a": null, "b": {"c": null}}')""", '{"b": {}}'),
        ("jsonb_pretty('[{\"a\": 1}]')", '[\n    {\n        "a": 1\n    }\n]'),
        ("jsonb_typeof('-1.5')", "number"),
        ("json_typeof('null')", "null"),
        ("jsonb_array_length('[1, 2]')", 2),
        ("json_build_object('a', 7, 'b', NULL)", '{"a" : 7, "b" : null}'),
        ("jsonb_build_object('t', t, 'l', jsonb_build_array('x', true))", BUILT),
        ("json_build_array(1, 'x', f)", '[1, "x", 2]'),
        ("to_jsonb(ARRAY[1, 2])", "[1, 2]"),
        ("to_json(t)", '"2024-01-05T10:00:00"'),
        ("to_json(timestamptz '2024-01-05 10:00:00.50+00')", '"2024-01-05T10:00:00.5+00:00"'),
    ],
)
def test_values(session: Session, dialect: str, expression: str, value: object) -> None:
    """Each expression has PostgreSQL's value."""
    assert ask(session, f"SELECT {expression} AS x FROM docs", dialect=dialect).rows == [{"x": value}]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("j ? 'b'", True),
        ("j ?| ARRAY['z', 'a']", True),
        ("j ?& ARRAY['z', 'a']", False),
        ("""'["b"]'::jsonb ? 'b'""", True),
        ("j #- '{a,c}'", '{"a": {"n": null}, "b": 1}'),
    ],
)
def test_operators_of_postgres(session: Session, expression: str, value: object) -> None:
    """The operators with a question mark exist in postgres; elsewhere `?` is a parameter."""
    assert ask(session, f"SELECT {expression} AS x FROM docs", dialect="postgres").rows == [{"x": value}]


@pytest.mark.parametrize("dialect", ["default", "postgres"])
@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("jsonb_agg(name ORDER BY id)", '["Ann", "Bob", null]'),
        ("json_agg(id ORDER BY id DESC) FILTER (WHERE id > 1)", "[3, 2]"),
        ("jsonb_agg(jsonb_build_object('n', name) ORDER BY id)", '[{"n": "Ann"}, {"n": "Bob"}, {"n": null}]'),
        ("jsonb_object_agg(id, name)", '{"1": "Ann", "2": "Bob", "3": null}'),
        ("json_object_agg(id, flag) FILTER (WHERE id = 1)", '{ "1" : true }'),
        ("jsonb_agg(id) FILTER (WHERE id > 10)", None),
    ],
)
def test_aggregates(session: Session, dialect: str, expression: str, value: object) -> None:
    """The rows of a group become one JSON value."""
    assert ask(session, f"SELECT {expression} AS x FROM people WHERE id < 4", dialect=dialect).rows == [{"x": value}]


@pytest.mark.parametrize("dialect", ["default", "postgres"])
@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("'x'::jsonb", "is not JSON"),
        ("note::json", "is not JSON"),
        ("'[NaN]'::jsonb", "is not JSON"),
        ("'1e999999'::jsonb", "is not JSON"),
        ("jsonb_build_object('a')", "names and values"),
        ("jsonb_object_agg(note, id)", "write coalesce"),
        ("to_jsonb(INTERVAL '1 day') || 'x'", "is not JSON"),
        ("'1'::jsonb - 'a'", "jsonb_typeof"),
        ("""'{"a":1}'::jsonb - 1""", "write value - 'name'"),
    ],
)
def test_errors(session: Session, dialect: str, expression: str, said: str) -> None:
    """An error says what is wrong."""
    with pytest.raises(FlightLLMError) as failed:
        ask(session, f"SELECT {expression} AS x FROM people", dialect=dialect)
    assert said in str(failed.value)
