"""Statements that would take more than their share, each of a kind of its own; `bench.hostile` runs them too."""

from dataclasses import dataclass
from typing import Literal

Route = Literal["query", "explain", "view", "prepared", "change", "policy", "ai", "substrait"]
TABLES = {
    "small": "CREATE TABLE small AS SELECT value AS n, 'name ' || value AS s FROM generate_series(1, 1000)",
    "wide": "CREATE TABLE wide AS SELECT value AS n, 'name ' || value AS s FROM generate_series(1, 200000)",
}
"""What the statements read: by name, how to make it."""
READER = "bob"
"""Who runs the statements of the route `policy`; an administrator runs their `setup` and all others."""


@dataclass(frozen=True, slots=True)
class Hostile:
    """A statement, what is to be run before it, and how it reaches the server."""

    name: str
    sql: str
    route: Route = "query"
    setup: tuple[str, ...] = ()
    parameters: tuple[object, ...] = ()


def _nested(levels: int, inner: str, outer: str) -> str:
    for _ in range(levels):
        inner = outer.replace("{}", f"({inner})", 1)
    return inner


_BIG = "repeat('a', 200000000)"
_SLOW = "levenshtein(repeat('a', 70000), repeat('b', 70000))"
_RANGE = "range(0, 50000000)"
_WITH = ", ".join(f"d{i} AS (SELECT c || c AS c FROM d{i - 1})" for i in range(1, 14))
_WIDER = ", ".join(f"d{i} AS (SELECT c || c || c || c AS c FROM d{i - 1})" for i in range(1, 14))

_COLUMNS = [f"c{number}" for number in range(1, 63)]
_WIDE = "(SELECT " + ", ".join(f"n + {number} AS c{number}" for number in range(1, 63)) + " FROM wide) AS q"
_PAIRS = ", ".join(f"({one}, {two})" for one in _COLUMNS for two in _COLUMNS[:24])


def _filter(predicate: str) -> tuple[str, ...]:
    return (f"CREATE OR REPLACE ROW FILTER ON small TO {READER} AS {predicate}",)


def _mask(value: str) -> tuple[str, ...]:
    return *_filter("n > 0"), f"CREATE OR REPLACE COLUMN MASK ON small(s) TO {READER} AS {value}"


HOSTILE = (
    Hostile("list as text", "SELECT length(cast(range(0,1000000000) AS varchar))"),
    Hostile("unnested range", "SELECT count(*) FROM (SELECT unnest(range(0,1000000000000)) x)"),
    Hostile("levenshtein", f"SELECT {_SLOW}"),
    Hostile("levenshtein, smaller", "SELECT levenshtein(repeat('a', 20000), repeat('b', 20001))"),
    Hostile("computed lpad", "SELECT length(lpad('a', cast(1e9*2 as bigint), 'xy'))"),
    Hostile("computed rpad", "SELECT length(rpad('a', 1000000 * 2000, 'xy'))"),
    Hostile("nested replace", "SELECT length(replace(repeat('a', 100000), 'a', repeat('b', 100000)))"),
    Hostile("replace nothing", "SELECT length(replace(repeat('a', 100000), '', repeat('b', 100000)))"),
    Hostile("nested repeat", "SELECT length(repeat(repeat(repeat('a', 2000), 2000), 2000))"),
    Hostile("array_distinct", f"SELECT cardinality(array_distinct({_RANGE}))"),
    Hostile("array_except", "SELECT cardinality(array_except(range(0,20000000), range(0,20000000)))"),
    Hostile("array_union", "SELECT cardinality(array_union(range(0,20000000), range(5,20000000)))"),
    Hostile("array_intersect", "SELECT cardinality(array_intersect(range(0,20000000), range(5,20000000)))"),
    Hostile("array_sort", f"SELECT array_sort({_RANGE}, 'DESC')[1]"),
    Hostile("array_concat", "SELECT cardinality(array_concat(" + ",".join(["range(0,30000000)"] * 9) + "))"),
    Hostile("array_has_all", "SELECT array_has_all(range(0,300000), range(0,300000))"),
    Hostile("arrays_overlap", "SELECT arrays_overlap(range(0,300000), range(300000,600000))"),
    Hostile("array_to_string", f"SELECT length(array_to_string({_RANGE}, ', '))"),
    Hostile("array_repeat", "SELECT cardinality(array_repeat('abcdefgh', 100000 * 10000))"),
    Hostile("nested array_repeat", "SELECT cardinality(flatten(array_repeat(array_repeat(1, 30000), 30000)))"),
    Hostile("array_resize", "SELECT cardinality(array_resize([1], 1000000 * 1000, 7))"),
    Hostile("string_to_array", f"SELECT cardinality(string_to_array({_BIG}, 'a'))"),
    Hostile(
        "doubled in derived tables",
        f"SELECT length(c) FROM ({_nested(13, chr(39).join(['SELECT ', 'abcdefgh' * 128, ' AS c']), 'SELECT c || c || c || c AS c FROM {} AS q')}) AS z",
    ),
    Hostile(
        "doubled in WITH",
        f"WITH d0 AS (SELECT 'abcdefghabcdefghabcdefghabcdefgh' AS c), {_WIDER} SELECT length(c) FROM d13",
    ),
    Hostile("concat", f"SELECT length(concat({', '.join([_BIG] * 12)}))"),
    Hostile("concat_ws", f"SELECT length(concat_ws({', '.join([_BIG] * 12)}))"),
    Hostile("nested counted regex", "SELECT 'aaaa' ~ '((a{1,1000}){1,1000}){1,1000}'"),
    Hostile("regexp_like", "SELECT count(*) FROM small WHERE regexp_like(s, '(((\\w{1,99}){1,99}){1,99})$')"),
    Hostile("regexp_replace", "SELECT length(regexp_replace(repeat('a', 100000), 'a', repeat('b', 100000), 'g'))"),
    Hostile("computed regex", "SELECT count(*) FROM small WHERE s ~ repeat('(a|b)*', n)"),
    Hostile("SIMILAR TO", "SELECT s SIMILAR TO '((a{1,500}){1,500}){1,500}' FROM small"),
    Hostile("LIKE", f"SELECT repeat('ab', 1000000) LIKE '{'%a_' * 400}b'"),
    Hostile("ILIKE in WHERE", f"SELECT count(*) FROM small WHERE repeat('ab', 100000) || s ILIKE '{'%a_' * 400}b'"),
    Hostile("map of ranges", "SELECT cardinality(map(range(0,20000000), range(0,20000000)))"),
    Hostile("struct of lists", "SELECT named_struct('a', range(0,40000000), 'b', range(0,40000000))['a'][1]"),
    Hostile("encode", f"SELECT length(encode(encode(encode({_BIG}, 'hex'), 'hex'), 'hex'))"),
    Hostile(
        "digest", "SELECT sha512(repeat('a', 200000000)), sha256(repeat('b', 200000000)), md5(repeat('c', 200000000))"
    ),
    Hostile("translate", f"SELECT length(translate({_BIG}, 'a', 'b') || reverse({_BIG}))"),
    Hostile("strpos", "SELECT strpos(repeat('a', 1000000), repeat('a', 500000) || 'b')"),
    Hostile("arrow_cast", "SELECT length(arrow_cast(range(0,100000000), 'LargeUtf8'))"),
    Hostile("to_char", "SELECT length(to_char(now(), repeat('%A ', 30000000)))"),
    Hostile(
        "decimals", "SELECT length(repeat(cast(cast(99999999999999999999.99 AS decimal(38, 2)) AS varchar), 90000000))"
    ),
    Hostile("overlay", f"SELECT length(overlay({_BIG} placing {_BIG} from 5))"),
    Hostile("VALUES", f"SELECT length(column1) FROM (VALUES ({_BIG}), ({_BIG}), ({_BIG}))"),
    Hostile("number of VALUES", "SELECT length(repeat('a', n)) FROM (VALUES (2000000000)) AS v(n)"),
    Hostile("LIMIT", "SELECT s FROM small LIMIT length(cast(range(0,200000000) AS varchar))"),
    Hostile("OFFSET", f"SELECT s FROM small LIMIT 1 OFFSET {_SLOW}"),
    Hostile("CASE branch", f"SELECT CASE WHEN n > 5 THEN {_SLOW} ELSE 0 END FROM small"),
    Hostile("grouping sets", f"SELECT count(*) FROM {_WIDE} GROUP BY GROUPING SETS ({_PAIRS})"),
    Hostile("CUBE", f"SELECT count(*) FROM {_WIDE} GROUP BY CUBE ({', '.join(_COLUMNS[:12])})"),
    Hostile("CUBE of sums", f"SELECT count(*) FROM wide GROUP BY CUBE ({', '.join(f'n + {i}' for i in range(12))})"),
    Hostile(
        "multiplied grouping sets",
        f"SELECT count(*) FROM {_WIDE} GROUP BY CUBE (c1, c2, c3, c4, c5), ROLLUP ({', '.join(_COLUMNS[6:30])})",
    ),
    Hostile(
        "many ROLLUPs",
        " UNION ALL ".join([f"SELECT count(*) FROM {_WIDE} GROUP BY ROLLUP ({', '.join(_COLUMNS)})"] * 10),
    ),
    Hostile("HAVING", f"SELECT s, count(*) FROM small GROUP BY s HAVING count(*) > {_SLOW}"),
    Hostile("GROUP BY", f"SELECT count(*) FROM small GROUP BY n + {_SLOW}"),
    Hostile("ORDER BY", f"SELECT s FROM small ORDER BY n + {_SLOW}"),
    Hostile("JOIN ON", f"SELECT count(*) FROM small a JOIN small b ON a.n = b.n + {_SLOW}"),
    Hostile(
        "outer join and filter", f"SELECT count(*) FROM small a LEFT JOIN small b ON a.n = b.n WHERE b.n = {_SLOW}"
    ),
    Hostile("IN list", f"SELECT count(*) FROM small WHERE n IN (1, 2, {_SLOW})"),
    Hostile("EXISTS", f"SELECT count(*) FROM small a WHERE EXISTS (SELECT 1 FROM small b WHERE a.n = b.n + {_SLOW})"),
    Hostile("correlated", f"SELECT (SELECT count(*) + {_SLOW} FROM small b WHERE b.n = a.n) FROM small a"),
    Hostile("scalar subquery", f"SELECT n + (SELECT {_SLOW}) FROM small"),
    Hostile("LATERAL", f"SELECT * FROM small a, LATERAL (SELECT count(*) + {_SLOW} FROM small b WHERE b.n = a.n) q"),
    Hostile("FILTER", f"SELECT sum(n) FILTER (WHERE n > {_SLOW}) FROM small"),
    Hostile("window order", f"SELECT sum(n) OVER (ORDER BY n + {_SLOW}) FROM small"),
    Hostile("window partition", f"SELECT row_number() OVER (PARTITION BY {_SLOW}) FROM small"),
    Hostile("array_agg over a window", "SELECT cardinality(array_agg(s) OVER (ORDER BY n)) FROM wide"),
    Hostile(
        "median over a frame",
        "SELECT median(n) OVER (ORDER BY n ROWS BETWEEN 100000 PRECEDING AND CURRENT ROW) FROM wide",
    ),
    Hostile("array_agg of a cross join", "SELECT cardinality(array_agg(a.s || b.s)) FROM wide a, wide b"),
    Hostile("string_agg of a cross join", "SELECT length(string_agg(a.s, ',')) FROM wide a CROSS JOIN wide b"),
    Hostile("DISTINCT ON", f"SELECT DISTINCT ON (n + {_SLOW}) s FROM small"),
    Hostile(
        "recursive doubling",
        "WITH RECURSIVE r(n, c) AS (SELECT 1, 'abcd' UNION ALL SELECT n + 1, c || c FROM r WHERE n < 40) SELECT max(length(c)) FROM r",
    ),
    Hostile(
        "endless recursion", "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
    ),
    Hostile("per row", "SELECT sum(length(repeat(s, 100000))) FROM wide"),
    Hostile("per row, computed", "SELECT sum(length(repeat(s, n))) FROM wide"),
    Hostile("range per row", "SELECT sum(cardinality(range(0, n * n))) FROM wide"),
    Hostile("UNION", f"SELECT 1 UNION ALL SELECT {_SLOW} UNION ALL SELECT {_SLOW}"),
    Hostile("EXCEPT", f"SELECT {_SLOW} EXCEPT SELECT {_SLOW} + 1"),
    Hostile(
        "many small",
        "SELECT " + ", ".join(f"levenshtein(repeat('a', 3000), repeat('b', {3000 + i}))" for i in range(60)),
    ),
    Hostile(
        "a table function's argument",
        "SELECT count(*) FROM range(1, cast(length(cast(range(0,50000000) AS varchar)) AS bigint))",
    ),
    Hostile("EXPLAIN", "EXPLAIN SELECT length(cast(range(0,200000000) AS varchar))", "explain"),
    Hostile("EXPLAIN VERBOSE", f"EXPLAIN VERBOSE SELECT {_SLOW}", "explain"),
    Hostile("EXPLAIN ANALYZE", f"EXPLAIN ANALYZE SELECT {_SLOW}", "explain"),
    Hostile("view", "SELECT * FROM slow_view", "view", (f"CREATE OR REPLACE VIEW slow_view AS SELECT {_SLOW} AS x",)),
    Hostile(
        "views of views",
        "SELECT length(c || c || c || c) FROM v3",
        "view",
        (
            "CREATE OR REPLACE VIEW v1 AS SELECT repeat(s, 1000) AS c FROM wide",
            "CREATE OR REPLACE VIEW v2 AS SELECT c || c || c || c AS c FROM v1",
            "CREATE OR REPLACE VIEW v3 AS SELECT c || c || c || c AS c FROM v2",
        ),
    ),
    Hostile("parameter as a count", "SELECT length(repeat('a', $1))", "prepared", parameters=(2_000_000_000,)),
    Hostile("parameters as texts", "SELECT levenshtein($1, $2)", "prepared", parameters=("a" * 70_000, "b" * 70_000)),
    Hostile("parameter as a pattern", "SELECT 'aaa' ~ $1", "prepared", parameters=("((a{1,1000}){1,1000}){1,1000}",)),
    Hostile("CREATE TABLE AS", "CREATE TABLE made AS SELECT cast(range(0,200000000) AS varchar) AS x", "change"),
    Hostile("INSERT … SELECT", f"INSERT INTO small SELECT {_SLOW}, 'x'", "change"),
    Hostile("INSERT … VALUES", f"INSERT INTO small VALUES ({_SLOW}, 'x')", "change"),
    Hostile("UPDATE … SET", "UPDATE small SET s = cast(range(0,200000000) AS varchar)", "change"),
    Hostile("UPDATE … WHERE", f"UPDATE small SET s = 'x' WHERE n = {_SLOW}", "change"),
    Hostile("DELETE", f"DELETE FROM small WHERE n = {_SLOW}", "change"),
    Hostile("row filter", "SELECT count(*) FROM small", "policy", _filter(f"n > {_SLOW}")),
    Hostile("row filter, list", "SELECT n FROM small", "policy", _filter("n < cardinality(range(0,1000000000))")),
    Hostile("row filter, EXPLAIN", "EXPLAIN SELECT n FROM small", "policy", _filter(f"{_SLOW} > 5")),
    Hostile("row filter, AI call", "SELECT ai_gen('hi ' || s) FROM small LIMIT 2", "policy", _filter(f"n < {_SLOW}")),
    Hostile("mask", "SELECT max(s) FROM small", "policy", _mask("cast(range(0,200000000) AS varchar)")),
    Hostile("mask, slow", "SELECT s FROM small", "policy", _mask(f"cast({_SLOW} AS varchar)")),
    Hostile("beside an AI call", f"SELECT ai_gen('hi ' || s), {_SLOW} FROM small WHERE n < 3", "ai"),
    Hostile("filter before an AI call", f"SELECT ai_gen('hi ' || s) FROM small WHERE n < 3 AND n < {_SLOW}", "ai"),
    Hostile(
        "argument of an AI call",
        "SELECT ai_gen('hi ' || cast(range(0,200000000) AS varchar)) FROM small WHERE n < 3",
        "ai",
    ),
    Hostile("Substrait", f"SELECT {_SLOW}, s FROM small", "substrait"),
    Hostile("Substrait, list as text", "SELECT length(cast(range(0,200000000) AS varchar)) FROM small", "substrait"),
)
