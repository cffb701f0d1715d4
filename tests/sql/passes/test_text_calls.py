"""Formats, JSON and hashes of columns have DuckDB's values, which the tests have from DuckDB 2.0."""

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import rows

_GIVEN = """(SELECT * FROM (VALUES (1, 'a"b', 1, CAST(2.5 AS DOUBLE), DATE '2024-01-31'), (2, '', 2, NULL, NULL),
    (3, NULL, NULL, CAST(4 AS DOUBLE), NULL), (4, 'xyz', 12, CAST(-1.5 AS DOUBLE), DATE '2024-03-01'))
    v(id, s, n, d, t)) q"""


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("format('{} of {}', n, s)", ['1 of a"b', "2 of ", None, "12 of xyz"]),
        ("format('{1} {0} {1}', s, d)", ['2.5 a"b 2.5', None, None, "-1.5 xyz -1.5"]),
        ("format('{:.2f}|{:>6.1f}', d, d)", ["2.50|   2.5", None, "4.00|   4.0", "-1.50|  -1.5"]),
        ("format('{:05d}|{:,}', n, n * 1000000)", ["00001|1,000,000", "00002|2,000,000", None, "00012|12,000,000"]),
        ("format('{{}} {} {}', t, n > 1)", ["{} 2024-01-31 false", None, None, "{} 2024-03-01 true"]),
        ("printf('%d of %s', n, s)", ['1 of a"b', "2 of ", None, "12 of xyz"]),
        ("printf('%% %5s|%-4s|%.2f', s, s, d)", ['%   a"b|a"b |2.50', None, None, "%   xyz|xyz |-1.50"]),
        ("printf('%05d|%5d|%-3d|', n, n, n)", ["00001|    1|1  |", "00002|    2|2  |", None, "00012|   12|12 |"]),
        ("format('%s is %-3s|%2$s', s, n)", ['a"b is 1  |1', " is 2  |2", " is    |", "xyz is 12 |12"]),
        (
            "CASE WHEN s IS NULL THEN '' ELSE format('%I %L %%', coalesce(s, ''), n) END",
            ['"a""b" \'1\' %', "\"\" '2' %", "", "xyz '12' %"],
        ),
        ("to_json(s)", ['"a\\"b"', '""', None, '"xyz"']),
        ("to_json(d)", ["2.5", None, "4", "-1.5"]),
        ("to_json(t)", ['"2024-01-31"', None, None, '"2024-03-01"']),
        (
            "json_object('a', n, 'b', n > 1)",
            ['{"a":1,"b":false}', '{"a":2,"b":true}', '{"a":null,"b":null}', '{"a":12,"b":true}'],
        ),
        (
            "json_object('k', json_array(n, NULL, json_object('z', s)))",
            [
                '{"k":[1,null,{"z":"a\\"b"}]}',
                '{"k":[2,null,{"z":""}]}',
                '{"k":[null,null,{"z":null}]}',
                '{"k":[12,null,{"z":"xyz"}]}',
            ],
        ),
        ("json_array()", ["[]"] * 4),
    ],
)
def test_values(session: Session, expression: str, values: list[object]) -> None:
    """Each expression has DuckDB's value in each row."""
    assert [row["r"] for row in rows(session, f"SELECT {expression} AS r FROM {_GIVEN} ORDER BY id")] == values


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (
            "to_json({'a': 1, 'B': [1, NULL], 'c': 1.5, 'd': DATE '2024-01-01'})",
            '{"a":1,"B":[1,null],"c":1.5,"d":"2024-01-01"}',
        ),
        ("to_json(map(['a', 'b'], [1, 2]))", '{"a":1,"b":2}'),
        ("to_json(MAP {'a': {'b': [1]}})", '{"a":{"b":[1]}}'),
        ("to_json([{'a': 1}, NULL])", '[{"a":1},null]'),
        ("to_json({'o''x': {'b': {'c': true}}, 'n': NULL})", '{"o\'x":{"b":{"c":true}},"n":null}'),
        ("to_json([TIMESTAMP '2024-01-01 01:02:03'])", '["2024-01-01T01:02:03"]'),
        ("json_object('a', [1, 2], 'b', {'c': [{'d': 1}]})", '{"a":[1,2],"b":{"c":[{"d":1}]}}'),
        ("to_json(struct_pack(a := 1, b := 'x'))", '{"a":1,"b":"x"}'),
        ("to_json({'a': 1}) || E'\\n'", '{"a":1}\n'),
        ("to_json(histogram(x)) FROM (VALUES (2), (1), (2)) v(x) --", '{"1":1,"2":2}'),
    ],
)
def test_nested(session: Session, expression: str, value: str) -> None:
    """Structs, lists and maps have DuckDB's JSON."""
    assert rows(
        session, f"SELECT {expression.replace(' FROM', ' AS r FROM')} {'' if '--' in expression else 'AS r'}"
    ) == [{"r": value}]


def test_nested_columns(session: Session) -> None:
    """Columns of structs and maps have JSON, and NULL stays NULL."""
    session.update(
        "CREATE TABLE nested AS SELECT * FROM (SELECT 1 AS id, {'a': 1, 'b': [{'c': 'x'}, NULL]} AS s,"
        " map(['k'], [{'z': 1.5}]) AS m UNION ALL SELECT 2, NULL, NULL) t"
    )
    assert rows(session, "SELECT to_json(s) AS s, to_json(m) AS m, to_json(s['a']) AS a FROM nested ORDER BY id") == [
        {"s": '{"a":1,"b":[{"c":"x"},null]}', "m": '{"k":{"z":1.5}}', "a": "1"},
        {"s": None, "m": None, "a": None},
    ]
    found = rows(session, "SELECT to_json(s) AS s, count(*) AS n FROM nested WHERE id = 1 GROUP BY to_json(s)")
    assert found == [{"s": '{"a":1,"b":[{"c":"x"},null]}', "n": 1}]


def test_hash(session: Session) -> None:
    """A hash is the same each time, differs for other values, and exists for NULL."""
    found = rows(session, f"SELECT hash(s) AS a, hash(s) = hash(s) AS b, hash(s, n) AS c FROM {_GIVEN}")
    assert len({row["a"] for row in found}) == len({row["c"] for row in found}) == 4
    assert all(row["b"] for row in found)
    assert rows(session, "SELECT hash('a') AS r") == [{"r": 17548568729252930709}]


def test_ai_calls(session: Session) -> None:
    """A format can be an AI call's argument; an AI call in a format would run twice."""
    assert rows(session, f"SELECT ai_gen('Say', format('{{}}', s)) IS NULL AS r FROM {_GIVEN} WHERE id = 3") == [
        {"r": True}
    ]
    with pytest.raises(FlightLLMError, match="subquery"):
        rows(session, f"SELECT format('{{}}', ai_gen('Say', s)) AS r FROM {_GIVEN}")


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("format('{}')", "0 values"),
        ("format('{:d}', 'a')", "whole number"),
        ("format('{', 'a')", "write {{"),
        ("printf('%s', 1)", "write %d"),
        ("printf('%99999d', 1)", "such as"),
        ("to_json([x + 1 for x in [1, 2]])", "json_array"),
        ("CAST({'a': 1} AS VARCHAR)", "write to_json"),
        ("json_object('a')", "names and values"),
    ],
)
def test_refused(session: Session, expression: str, said: str) -> None:
    """An error says what to write."""
    with pytest.raises(FlightLLMError, match=said):
        rows(session, f"SELECT {expression} AS r")
