"""Texts of types × operators × NULL: comparisons, arithmetic, casts, and the logic of three values.

A text that PostgreSQL cannot type is no text: the command leaves it out.
"""

from collections.abc import Iterator
from itertools import product
from typing import Final

from tests.sql.reference.tables import VALUES, literal

COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=")
_FORMS: Final = (
    "SELECT k, a IS DISTINCT FROM b AS r FROM {t}",
    "SELECT k FROM {t} WHERE a IS NOT DISTINCT FROM b",
    "SELECT k FROM {t} WHERE a IS DISTINCT FROM b AND k > 4",
    "SELECT k FROM {t} WHERE a IS NOT DISTINCT FROM b OR k = 1",
    "SELECT k FROM {t} WHERE a BETWEEN {0} AND {1}",
    "SELECT k FROM {t} WHERE a NOT BETWEEN {0} AND {1}",
    "SELECT k FROM {t} WHERE a BETWEEN b AND {1}",
    "SELECT k, a IN ({0}, {2}) AS r FROM {t}",
    "SELECT k FROM {t} WHERE a IN ({0}, b)",
    "SELECT k FROM {t} WHERE a NOT IN ({0}, {2})",
    "SELECT k FROM {t} WHERE a NOT IN ({0}, NULL)",
    "SELECT k, CASE a WHEN b THEN 'same' WHEN {0} THEN 'first' ELSE 'other' END AS r FROM {t}",
    "SELECT k, CASE WHEN a < b THEN 'less' WHEN a >= b THEN 'not less' END AS r FROM {t}",
    "SELECT k FROM {t} WHERE NOT (a < b)",
    "SELECT k FROM {t} WHERE NOT (a = b AND k > 0)",
    "SELECT k FROM {t} WHERE (a < b) IS NULL",
    "SELECT k FROM {t} WHERE (a = b) IS NOT TRUE",
    "SELECT k FROM {t} WHERE a = NULL",
    "SELECT a, k FROM {t} ORDER BY a, k",
    "SELECT a, k FROM {t} ORDER BY a DESC, k",
    "SELECT a, k FROM {t} ORDER BY a NULLS FIRST, k DESC",
    "SELECT a, k FROM {t} ORDER BY a DESC NULLS LAST, k LIMIT 4",
    "SELECT DISTINCT a FROM {t}",
    "SELECT a, count(*) AS n, min(k) AS m FROM {t} GROUP BY a",
    "SELECT a, b, count(*) AS n FROM {t} GROUP BY a, b HAVING max(a) >= min(b)",
    "SELECT min(a) AS lo, max(a) AS hi FROM {t}",
    "SELECT count(a) AS n, count(DISTINCT a) AS d FROM {t}",
    "SELECT count(*) FILTER (WHERE a < b) AS n FROM {t}",
    "SELECT k, nullif(a, b) AS r FROM {t}",
    "SELECT k, coalesce(a, b, {0}) AS r FROM {t}",
    "SELECT k, greatest(a, b) AS g, least(a, b) AS l FROM {t}",
    "SELECT l.k, r.k AS rk FROM {t} l JOIN {t} r ON l.a = r.b",
    "SELECT l.k, r.k AS rk FROM {t} l LEFT JOIN {t} r ON l.a < r.b AND l.k < r.k",
    "SELECT l.k, r.k AS rk FROM {t} l FULL JOIN {t} r ON l.a = r.b AND l.k > r.k",
    "SELECT k FROM {t} WHERE a IN (SELECT b FROM {t})",
    "SELECT k FROM {t} WHERE a NOT IN (SELECT b FROM {t} WHERE b IS NOT NULL)",
    "SELECT k FROM {t} WHERE a > (SELECT min(b) FROM {t})",
    "SELECT k FROM {t} o WHERE EXISTS (SELECT 1 FROM {t} i WHERE i.a = o.b AND i.k <> o.k)",
    "SELECT a FROM {t} UNION SELECT b FROM {t}",
    "SELECT a FROM {t} EXCEPT SELECT b FROM {t} WHERE k < 3",
    "SELECT a FROM {t} INTERSECT SELECT b FROM {t}",
    "SELECT k, rank() OVER (ORDER BY a) AS r, lag(a) OVER (ORDER BY k) AS l FROM {t}",
    "SELECT k, max(a) OVER (PARTITION BY b) AS m, count(*) OVER (PARTITION BY a) AS n FROM {t}",
    "SELECT DISTINCT ON (a) a, k FROM {t} ORDER BY a, k",
    "SELECT {0} AS x, {1} AS y, {2} AS z, {3} AS w",
    "SELECT {0} < {1} AS a, {0} = {1} AS b, {1} > {2} AS c, {3} >= {0} AS d, {0} <> {n} AS e, {n} = {n} AS f",
    "SELECT k, CAST(a AS text) AS r FROM {t}",
    "SELECT x FROM (VALUES ({0}), ({1}), ({n}), ({0})) v(x) WHERE x <= {0}",
)
"""What can be done with each type; `{t}` is its table, `{0}` to `{3}` are literals, and `{n}` is NULL."""
_MIXED: Final = (
    ("smallint", "int"), ("int", "bigint"), ("int", "numeric"), ("int", "double"), ("bigint", "double"),
    ("bigint", "numeric"), ("numeric", "double"), ("real", "double"), ("real", "numeric"), ("text", "varchar"),
    ("date", "timestamp"), ("date", "timestamptz"), ("timestamp", "timestamptz"), ("time", "interval"),
)  # fmt: skip
_MIXED_FORMS: Final = (
    "SELECT l.k, r.k AS rk FROM {l} l JOIN {r} r ON l.a = r.a",
    "SELECT l.k, l.a < r.b AS r FROM {l} l JOIN {r} r USING (k)",
    "SELECT l.k FROM {l} l, {r} r WHERE l.k = r.k AND l.b >= r.a",
    "SELECT k FROM {l} WHERE a IN (SELECT b FROM {r})",
    "SELECT k FROM {r} WHERE a NOT IN (SELECT b FROM {l} WHERE b IS NOT NULL)",
    "SELECT a FROM {l} UNION SELECT b FROM {r}",
    "SELECT l.k, coalesce(l.a, r.b) AS r FROM {l} l JOIN {r} r USING (k)",
    "SELECT l.k, CASE WHEN l.k > 3 THEN l.a ELSE r.a END AS r FROM {l} l JOIN {r} r USING (k)",
    "SELECT l.k, greatest(l.a, r.a) AS r FROM {l} l JOIN {r} r USING (k)",
    "SELECT k FROM {l} WHERE a BETWEEN (SELECT min(a) FROM {r}) AND (SELECT max(a) FROM {r})",
)
_ARITHMETIC: Final = ("+", "-", "*", "/", "%", "||", "^", "&", "|", "#", "<<", ">>")
_BOOL_OPERATORS: Final = ("AND", "OR", "=", "<>", "<", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
_TESTS: Final = (
    "IS NULL", "IS NOT NULL", "IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE", "IS UNKNOWN", "IS NOT UNKNOWN",
)  # fmt: skip
_CONDITIONS: Final = (
    "{t} = 1", "{t} IN (1, 2)", "{t} NOT IN (1, 3)", "{t} NOT IN (1, NULL)", "{t} IN (1) AND {t} IN (2)",
    "{t} BETWEEN 1 AND 2", "{t} NOT BETWEEN 2 AND 3", "{t} BETWEEN SYMMETRIC 2 AND 1", "{t} IS DISTINCT FROM 2",
    "{t} IS NOT DISTINCT FROM NULL", "{t} = 1 OR g = 1", "{t} > 1 AND g < 3", "{t} = g", "{t} <> g", "NOT {t} = 2",
    "{t} = 1 AND {t} = 2", "{t} > 2 AND {t} < 2", "{t} = 1 OR {t} <> 1", "{t} IS NULL AND g IS NULL",
    "{t} IN (1, 2) AND {t} NOT IN (2, 5)", "coalesce({t}, 0) = 0", "({t} > 1) = (g > 1)",
    "({t} > 1) IS DISTINCT FROM true",
    "CASE WHEN {t} > 1 THEN true WHEN g = 1 THEN NULL ELSE false END", "{t} + NULL > 0", "{t} * 0 = 0", "{t} - {t} = 0",
)  # fmt: skip
_ESTIMATED: Final = (
    "e - d > 3", "e - d = 4", "e - d BETWEEN 1 AND 5", "d < e - 3", "d + 4 >= e", "current_date - d > 30", "d - e < 0",
    "e > d + interval '3 days'", "d + interval '1 month' > e", "d < c::date", "o::date = d", "d < o", "d = o", "d < z",
    "d <= z::date", "o < c", "o <> c", "o < c::date", "c - o > interval '1 day'", "c - o < interval '12 hours'",
    "c > o + interval '1 hour'", "o = z", "o < z", "z > date '2024-01-01'", "z - interval '1 day' < o",
    "now() - z > interval '1 month'", "now() - o > interval '7 days'", "d > '2024-01-01'", "d = '2024-02-29'",
    "o > '2024-01-01'", "d IN ('2024-01-01', '2024-03-31')", "extract(year FROM d) = 2024",
    "date_trunc('month', o) = timestamp '2024-02-01 00:00:00'", "o + interval '1 day' < c", "i < j", "i + j = 10",
    "i * 2 > j", "i - j < -3", "j / i = 2", "j % i = 0", "i > n", "n * 2 > f", "n > 1.5", "n = 1.50", "f > i",
    "f = 0.25", "f < n AND n < i", "i = 3.0", "i > 2.5", "i BETWEEN 0.5 AND 2.5", "i = '3'", "i IN (1, 3, 5)",
    "i NOT IN (1, 2)", "t > 'a'", "t || 'x' = 'bx'", "t < 'b' OR i = 3", "p", "NOT p", "p = (i < j)", "p AND i < 3",
    "p IS DISTINCT FROM (d < e)", "i IS NOT NULL AND d IS NOT NULL", "i > 3 AND i < 2", "i >= 1 AND i <= 3 AND j > 0",
    "i = j", "i = 1000", "i > 1000 OR j = 9", "abs(i - j) > 3", "i::text = '3'", "t::varchar = 'b'", "n::int = 2",
    "f::int = 0", "CAST(i AS double precision) > f", "CAST(d AS text) > '2024'",
    "CASE WHEN i > 1 THEN d ELSE e END > '2024-01-01'", "coalesce(d, e) < c", "greatest(d, e) = '2024-02-29'",
    "i = (SELECT max(i) FROM few)", "d IN (SELECT d FROM few WHERE i > 1)", "o > (SELECT min(o) FROM few)",
)  # fmt: skip
_AROUND: Final = (
    "SELECT x, g FROM a WHERE {}",
    "SELECT x, g FROM a WHERE NOT ({})",
    "SELECT x, g, ({}) AS r FROM a",
    "SELECT x, g FROM a WHERE ({}) IS NOT FALSE",
    "SELECT count(*) FILTER (WHERE {}) AS n FROM a",
    "SELECT x, g FROM a WHERE NOT ({} AND g > 0)",
)


def comparisons() -> Iterator[str]:
    """Yield every comparison of every type, and every place where values are compared."""
    for kind in VALUES:
        table, literals = f"v_{kind}", [literal(kind, i) for i in range(4)]
        for operator in COMPARISONS:
            yield f"SELECT k, a {operator} b AS r FROM {table}"
            yield f"SELECT k FROM {table} WHERE a {operator} {literals[0]}"
            yield f"SELECT k FROM {table} WHERE NOT {literals[1]} {operator} b OR k = 1"
        for form in _FORMS:
            yield form.format(*literals, t=table, n=literal(kind, None))
    for (left, right), form in product(_MIXED, _MIXED_FORMS):
        yield form.format(l=f"v_{left}", r=f"v_{right}")


def arithmetic() -> Iterator[str]:
    """Yield every operator between columns of every two types, and each with a literal or NULL."""
    for (left, right), operator in product(product(VALUES, VALUES), _ARITHMETIC):
        # The last value of each type is so large that the result of most operators is out of range.
        fit = "l.k < 7" if operator not in "/%" else "l.k < 7 AND l.k <> 3"
        yield f"SELECT l.k, l.a {operator} r.b AS r FROM v_{left} l JOIN v_{right} r USING (k) WHERE {fit}"
    for kind, operator in product(VALUES, ("+", "-", "*", "/")):
        yield f"SELECT k, a {operator} NULL AS r FROM v_{kind}"
        yield f"SELECT k, a {operator} a AS r FROM v_{kind} WHERE k = 7"
        yield f"SELECT k FROM v_{kind} WHERE a {operator} b > a AND k < 7 AND k <> 3"
    for kind in VALUES:
        yield f"SELECT k, -a AS r FROM v_{kind}"
        yield f"SELECT sum(a) AS s, avg(a) AS m FROM v_{kind} WHERE k < 7"
        yield f"SELECT b, sum(a) AS s FROM v_{kind} WHERE k < 7 GROUP BY b"
        yield f"SELECT k, sum(a) OVER (ORDER BY k) AS s FROM v_{kind} WHERE k < 7"
        yield f"SELECT k, abs(a) AS r, sign(a) AS s FROM v_{kind}"
    for left, right in (("5", "2"), ("-5", "2"), ("5", "-2"), ("-5.5", "2"), ("5.5", "-2"), ("1e0", "3"), ("5", "0")):
        for operator in ("/", "%", "*", "^"):
            yield f"SELECT {left} {operator} {right} AS r"
    yield from (
        "SELECT 2 + 3 * 4 - 6 / 4 % 3 AS r",
        "SELECT -2 ^ 2 AS r, 2 ^ 3 ^ 2 AS s",
        "SELECT 2147483647 + 1 AS r",
        "SELECT 2147483648 + 1 AS r",
        "SELECT 9223372036854775807 + 1 AS r",
        "SELECT CAST(32767 AS smallint) + CAST(1 AS smallint) AS r",
        "SELECT 0.1 + 0.2 = 0.3 AS r",
        "SELECT CAST(0.1 AS double precision) + CAST(0.2 AS double precision) = CAST(0.3 AS double precision) AS r",
        "SELECT 1 / 3 * 3 AS r, 1.0 / 3 * 3 AS s",
        "SELECT 10 / 4 AS a, 10 / 4.0 AS b, 10 % 4 AS c, -7 / 2 AS d, -7 % 3 AS e",
        "SELECT 5 & 3 AS a, 5 | 3 AS b, 5 # 3 AS c, 1 << 4 AS d, -8 >> 1 AS e, ~5 AS f",
        "SELECT 1 - -1 AS r, - - 2 AS s, +3 AS t",
        "SELECT 'a' || 'b' || 1 AS r, 'x' || NULL AS s",
        "SELECT 1 + NULL AS a, NULL * 2 AS b, NULL || 'x' AS c",
    )


def casts() -> Iterator[str]:
    """Yield casts from every type to every other, and of texts to types."""
    for (source, target), form in product(
        product(VALUES, VALUES),
        ("SELECT k, CAST(a AS {}) AS r FROM v_{} WHERE k < 7", "SELECT k, a::{} AS r FROM v_{} WHERE k = 7"),
    ):
        if source != target:
            yield form.format(VALUES[target][0], source)
    texts = {
        "int": ("12", " 12 ", "-5", "+5", "", "abc", "1.5", "1e3", "2147483648", "0x10"),
        "numeric(6, 2)": ("1.005", "1.235", "-0.005", "99999", "1e2", "NaN", ".5", "5.", "1,5"),
        "double precision": ("1e-3", "Infinity", "-inf", "nan", "1e400", "0x1p3", ""),
        "boolean": ("t", "yes", "on", "1", "TRUE", "f", "no", "off", "0", "maybe", ""),
        "date": ("2024-1-5", "20240105", "2024-02-30", "Jan 5 2024", "2024-01-05 10:00", "", "0001-01-01", "infinity"),
        "time": ("08:00", "8:00 PM", "24:00", "25:00", "080000", "08:00:00.1234567", "08"),
        "timestamp": (
            "2024-01-05", "2024-01-05T10:00:00Z", "2024-01-05 10:00:00.1234567", "2024-01-05 24:00", "2024-01-05 10",
            "2024-01-05 10:00+02", "2024-02-30 00:00", "epoch",
        ),
        "timestamptz": (
            "2024-01-05", "2024-01-05T10:00:00Z", "2024-01-05 10:00+02", "2024-01-05 10:00 America/New_York",
            "2024-01-05 10:00:00.5-05:30", "x",
        ),
        "interval": (
            "1 day 2 hours", "P1Y2M3DT4H5M6S", "1-2", "3 4:05:06", "-1 week", "1.5 days", "1 month ago",
            "2 years 3 mons",
            "90 minutes", "100 hours", "0.5 months", "1 day -1 hours", "36:00", "x", "1 century", "1e3 seconds",
        ),
        "bytea": (r"\x6162", "ab", r"\x6"),
        "varchar(2)": ("abc", "a", ""),
        "char(3)": ("abcd", "a", ""),
        "int[]": ("{1,2}", "{1,NULL}", "{}", "{{1},{2}}", "1,2"),
    }  # fmt: skip
    for target, given in texts.items():
        for text in given:
            yield f"SELECT CAST('{text}' AS {target}) AS r"
            yield f"SELECT CAST(x AS {target}) AS r FROM (VALUES ('{text}'), (NULL)) v(x)"
    for number in ("0.5", "1.5", "2.5", "-0.5", "-1.5", "-2.5", "2.4999", "1e10", "12345.678"):
        yield f"SELECT CAST({number} AS int) AS a, CAST(CAST({number} AS double precision) AS int) AS b"
        yield f"SELECT CAST({number} AS numeric(7, 1)) AS r"


def estimates() -> Iterator[str]:
    """Yield conditions on columns without NULLs, of which a planner knows the least and the greatest value."""
    for table, condition in product(("one", "few"), _ESTIMATED):
        yield f"SELECT i, d FROM {table} WHERE {condition}"
        yield f"SELECT count(*) AS n FROM {table} GROUP BY p HAVING bool_or({condition})"
    for condition in _ESTIMATED:
        yield f"SELECT l.i, k.id FROM few l JOIN nums k ON k.id = l.i WHERE {condition}"
        yield f"SELECT a.x, s.i FROM a LEFT JOIN (SELECT * FROM few WHERE {condition}) s ON a.x = s.i"


def logic() -> Iterator[str]:
    """Yield combinations of truth values with and without parentheses, and conditions that are NULL for some rows."""
    for one, two in product(_BOOL_OPERATORS, _BOOL_OPERATORS):
        yield f"SELECT p, q, r, p {one} q {two} r AS v FROM bools"
        yield f"SELECT p, q, r FROM bools WHERE NOT p {one} q {two} r"
    for operator, test in product(_BOOL_OPERATORS, _TESTS):
        yield f"SELECT p, q, p {operator} q {test} AS v FROM bools WHERE r"
    for test in _TESTS:
        yield f"SELECT p, q FROM bools WHERE r AND (p AND q) {test}"
        yield f"SELECT p, q FROM bools WHERE r AND (p OR NOT q) {test}"
        yield f"SELECT p FROM bools WHERE r AND q AND NOT p {test}"
    for condition, around in product(_CONDITIONS, _AROUND):
        yield around.format(condition.format(t="x"))
