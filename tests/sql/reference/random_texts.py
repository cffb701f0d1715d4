"""Random queries over the tables of the texts, each with one right answer; a seed gives one and the same text.

Every query can be typed, no part of it divides by a column, and a limit comes with an order of all columns. The
order of equal rows does not matter to any window function or aggregate.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Final

_COLUMNS: Final = {
    "nums": {"id": "int", "g": "text", "x": "int", "y": "int", "d": "double"},
    "emp": {"id": "int", "name": "text", "dept": "text", "salary": "int", "boss": "int", "hired": "date"},
    "dept": {"dept": "text", "city": "text", "budget": "numeric"},
    "stays": {
        "id": "int", "guest": "text", "arrives": "date", "leaves": "date", "opened": "timestamp", "closed": "timestamp",
        "seen": "timestamptz", "lasted": "interval",
    },
    "words": {"id": "int", "w": "text", "n": "int"},
    "a": {"x": "int", "g": "int"},
    "b": {"y": "int", "g": "int"},
    "c": {"y": "int", "g": "int"},
    "e": {"y": "int", "g": "int"},
    "tree": {"id": "int", "parent": "int", "label": "text"},
}  # fmt: skip
_LITERALS: Final = {
    "int": ("0", "1", "2", "3", "7", "NULL::int"),
    "numeric": ("0.5", "1.25", "20.0", "NULL::numeric"),
    "double": ("0.5::double precision", "1.5::double precision", "0::double precision"),
    "text": ("'a'", "'b'", "'eng'", "'Ann'", "'apple'", "''", "NULL::text"),
    "bool": ("true", "false", "true", "NULL::boolean"),
    "date": ("date '2024-01-01'", "date '2021-03-01'", "date '2024-02-29'", "NULL::date"),
    "timestamp": (
        "timestamp '2024-01-01 08:00:00'",
        "timestamp '2024-03-10 02:30:00'",
        "timestamp '1970-01-01 00:00:00'",
    ),
    "timestamptz": ("timestamptz '2024-01-01 08:00:00+00'", "timestamptz '2024-03-10 06:30:00+00'"),
    "interval": (
        "interval '1 day'",
        "interval '24 hours'",
        "interval '1 month'",
        "interval '30 days'",
        "interval '-2 hours'",
    ),
}
_TYPES: Final = ("int", "int", "int", "text", "text", "bool", "double", "numeric", "date", "timestamp", "interval")
_COMPARISONS: Final = ("=", "=", "<>", "<", "<=", ">", ">=")
_SETS: Final = ("UNION ALL", "UNION", "INTERSECT", "EXCEPT", "EXCEPT ALL", "INTERSECT ALL")

_ANY: Final = (
    "CASE WHEN {condition} THEN {same} ELSE {same} END", "CASE WHEN {condition} THEN {same} END",
    "coalesce({same}, {same})", "nullif({same}, {same})",
)  # fmt: skip
_COMPOSED: Final = {
    "int": (
        "{int} + 1", "{int} - {int}", "{int} * 2", "-{int}", "abs({int})", "length({text})", "greatest({int}, {int})",
        "{int} % 3", "{int} / 2", "({date} - {date})", "({bool})::int", "extract(year FROM {date})::int",
        "extract(day FROM {interval})::int",
    ),
    "numeric": (
        "{numeric} * 1.5", "{numeric} + {int}", "round({numeric}, 1)", "{int}::numeric", "least({numeric}, {numeric})",
    ),
    "double": ("{double} * 2", "{double} + {int}", "abs({double})", "{int}::double precision", "floor({double})"),
    "text": (
        "upper({text})", "{text} || {text}", "substr({text}, 2)", "lower({text})", "left({text}, 1)", "{int}::text",
        "replace({text}, 'a', 'x')", "{date}::text", "greatest({text}, {text})", "concat({text}, {text})",
        "({bool})::text", "{timestamp}::text",
    ),
    "date": (
        "{date} + 1", "{date} - 30", "{timestamp}::date", "greatest({date}, {date})", "{timestamptz}::date",
        "({date} + {interval literal})::date",
    ),
    "timestamp": (
        "{timestamp} + {interval}", "{timestamp} - {interval}", "{date}::timestamp", "date_trunc('month', {timestamp})",
        "date_trunc('hour', {timestamp})", "least({timestamp}, {timestamp})",
        "({timestamptz} AT TIME ZONE 'America/New_York')",
    ),
    "timestamptz": (
        "{timestamptz} + interval '1 hour'", "({timestamp} AT TIME ZONE 'America/New_York')",
        "greatest({timestamptz}, {timestamptz})",
    ),
    "interval": (
        "({timestamp} - {timestamp})", "{interval} + {interval}", "{interval} * 2", "-{interval}",
        "greatest({interval}, {interval})",
    ),
}  # fmt: skip
"""What can be composed of what; a name in braces is an expression of that type."""
_CLOSED: Final = (
    "CASE", "coalesce", "nullif", "abs", "length", "greatest", "least", "round", "floor", "upper", "substr", "lower",
    "left", "replace", "concat", "date_trunc", "(",
)  # fmt: skip
"""How expressions begin that need no parentheses around them."""


@dataclass(frozen=True)
class Column:
    """A column as it is written, and its type."""

    sql: str
    type: str


@dataclass(frozen=True)
class Scope:
    """The columns that an expression can use: those of its own query, and those of the queries around it."""

    own: tuple[Column, ...]
    outer: tuple[Column, ...] = ()

    def inside(self) -> "Scope":
        """Return the scope of a subquery before it has a FROM clause."""
        return Scope((), (*self.own, *self.outer))


def random_text(seed: int) -> str:
    """Return the query of a seed."""
    return _Writer(Random(f"reference {seed}")).query()  # noqa: S311 - no secret


class _Writer:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._aliases = (f"t{i}" for i in count())
        self._with = dict[str, tuple[str, tuple[str, ...]]]()

    def query(self) -> str:
        """Write a whole query."""
        if self._chance(0.2):
            name = "w"
            body, types = self._rows(1, Scope(()))
            self._with[name] = (body, types)
        text, types = self._rows(2, Scope(()))
        if self._chance(0.3):
            text = f"SELECT * FROM ({text}) l{self._order(len(types), limited=self._chance(0.7))}"
        ctes = ", ".join(f"{name} AS ({body})" for name, (body, _) in self._with.items())
        return f"WITH {ctes} {text}" if ctes else text

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _pick(self, items: Sequence[str]) -> str:
        return self._random.choice(items)

    def _order(self, width: int, *, limited: bool) -> str:
        places = self._random.sample(range(1, width + 1), width)
        text = " ORDER BY " + ", ".join(
            f"{i}{self._pick(('', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST'))}" for i in places
        )
        if limited:
            text += f" LIMIT {self._random.randint(1, 7)}" + (" OFFSET 1" if self._chance(0.2) else "")
        return text

    def _rows(self, depth: int, scope: Scope) -> tuple[str, tuple[str, ...]]:
        """Write a SELECT or a set operation; return it and the types of its columns, named c0, c1 and so on."""
        types = tuple(self._random.choices(_TYPES, k=self._random.randint(1, 3)))
        if depth > 0 and self._chance(0.15):
            left, right = (self._select(types, depth - 1, scope) for _ in range(2))
            return f"{left} {self._pick(_SETS)} {right}", types
        return self._select(types, depth, scope), types

    def _select(self, types: Sequence[str], depth: int, around: Scope) -> str:
        from_, scope = self._from(depth, around)
        where = f" WHERE {self._condition(scope, 2, depth)}" if self._chance(0.6) else ""
        if self._chance(0.25):
            return self._grouped(types, scope, from_, where, depth)
        if self._chance(0.06):
            return self._first_of_each(types, scope, from_, where)
        columns = [self._window(t, scope) if self._chance(0.1) else self._expression(t, scope, 2, depth) for t in types]
        distinct = "DISTINCT " if self._chance(0.15) else ""
        return f"SELECT {distinct}{_listed(columns)} FROM {from_}{where}"

    def _first_of_each(self, types: Sequence[str], scope: Scope, from_: str, where: str) -> str:
        columns = [self._expression(t, scope, 1, 0) for t in types]
        key = self._random.choice(scope.own).sql
        places = (f"{i}{self._pick(('', ' DESC', ' NULLS FIRST'))}" for i in range(1, len(types) + 1))
        order = ", ".join((key, *places))
        inner = f"SELECT DISTINCT ON ({key}) {_listed(columns)} FROM {from_}{where} ORDER BY {order}"
        return f"SELECT {', '.join(f'c{i}' for i in range(len(types)))} FROM ({inner}) {next(self._aliases)}"

    def _grouped(self, types: Sequence[str], scope: Scope, from_: str, where: str, depth: int) -> str:
        keys, columns = [], []
        own = Scope(scope.own)
        for place, kind in enumerate(types):
            if self._chance(0.5) or kind == "timestamptz":
                plain = [c.sql for c in scope.own if c.type == kind]
                columns.append(self._pick(plain) if plain and self._chance(0.7) else self._expression(kind, own, 1, 0))
                keys.append(str(place + 1))
            else:
                columns.append(self._aggregate(kind, own))
        group = ""
        named = [columns[int(key) - 1] for key in keys]
        if keys:
            group = f" GROUP BY {', '.join(keys)}"
            if {*named} <= {c.sql for c in scope.own} and self._chance(0.3):
                group = f" GROUP BY {self._pick(('ROLLUP', 'CUBE'))} ({', '.join(named)})"
        having = ""
        if self._chance(0.3):
            having = " HAVING " + self._pick(
                (
                    f"count(*) {self._pick(_COMPARISONS)} {self._random.randint(0, 3)}",
                    f"{self._aggregate('int', own)} > 1",
                    f"NOT ({self._aggregate('bool', own)})",
                    f"{self._aggregate('interval', own)} > {self._pick(_LITERALS['interval'])}",
                    f"count(*) > ({self._one_value('int', Scope(()), depth)})" if depth else "count(*) > 1",
                )
            )
        return f"SELECT {_listed(columns)} FROM {from_}{where}{group}{having}"

    def _aggregate(self, kind: str, scope: Scope) -> str:
        argument = self._expression(kind, scope, 1, 0)
        only = f" FILTER (WHERE {self._condition(scope, 0, 0)})" if self._chance(0.15) else ""
        distinct = "DISTINCT " if self._chance(0.15) else ""
        if kind == "int":
            other = self._expression(self._pick(_TYPES), scope, 1, 0)
            names = ("count(*)", f"count({distinct}{other})", f"sum({distinct}{argument})", f"max({argument})")
            return self._pick(names) + only
        if kind == "bool":
            return f"{self._pick(('bool_and', 'bool_or'))}({argument}){only}"
        if kind == "text" and self._chance(0.3):
            return f"string_agg({argument}, ',' ORDER BY {argument}){only}"
        summed = ("avg", "sum") if kind in {"numeric", "double", "interval"} else ()
        return f"{self._pick(('min', 'max', *summed))}({argument}){only}"

    def _window(self, kind: str, scope: Scope) -> str:
        column, order = (self._random.choice(scope.own).sql for _ in range(2))
        direction = self._pick(("", " DESC", " NULLS FIRST", " DESC NULLS LAST"))
        over = self._pick(
            (
                f"(PARTITION BY {column} ORDER BY {order}{direction})",
                f"(ORDER BY {order}{direction})",
                f"(PARTITION BY {column})",
                "()",
                f"(ORDER BY {order}{direction} RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
                f"(ORDER BY {order}{direction} GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
            )
        )
        if kind == "int":
            total = f"sum({self._expression(kind, scope, 1, 0)})"
            return f"{self._pick(('rank()', 'dense_rank()', 'count(*)', total))} OVER {over}"
        if kind == "bool":
            return f"count({self._expression('text', scope, 1, 0)}) OVER {over} > 1"
        return f"{self._pick(('min', 'max'))}({self._expression(kind, scope, 1, 0)}) OVER {over}"

    def _from(self, depth: int, around: Scope) -> tuple[str, Scope]:
        text, columns = self._source(depth)
        for _ in range(self._random.choice((0, 0, 0, 1, 1, 2))):
            kind = self._pick(
                ("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", "LATERAL")
            )
            if kind == "LATERAL":
                body, types = self._rows(0, Scope((), tuple(columns)))
                alias = next(self._aliases)
                text += f" {self._pick(('JOIN', 'LEFT JOIN'))} LATERAL ({body}) {alias} ON true"
                columns = [*columns, *(Column(f"{alias}.c{i}", t) for i, t in enumerate(types))]
                continue
            source, more = self._source(depth)
            if kind == "CROSS JOIN":
                text += f" CROSS JOIN {source}"
            else:
                text += f" {kind} {source} ON {self._on(columns, more, full=kind == 'FULL JOIN')}"
            columns = [*columns, *more]
        return text, Scope(tuple(columns), around.outer)

    def _on(self, left: Sequence[Column], right: Sequence[Column], *, full: bool) -> str:
        pairs = [(a, b) for a in left for b in right if a.type == b.type and a.type != "bool"]
        if not pairs:
            return "true" if full else self._condition(Scope((*left, *right)), 0, 0)
        a, b = self._random.choice(pairs)
        operator = "=" if full else self._pick(("=", "=", "=", "=", "IS NOT DISTINCT FROM", "<", "<>"))
        condition = f"{a.sql} {operator} {b.sql}"
        if not full and self._chance(0.35):
            condition += f" AND {self._condition(Scope((*left, *right)), 1, 0)}"
        return condition

    def _source(self, depth: int) -> tuple[str, list[Column]]:
        alias = next(self._aliases)
        if self._with and self._chance(0.3):
            name = self._pick(list(self._with))
            return f"{name} {alias}", [Column(f"{alias}.c{i}", t) for i, t in enumerate(self._with[name][1])]
        if depth > 0 and self._chance(0.3):
            body, types = self._rows(depth - 1, Scope(()))
            if self._chance(0.2):
                body = f"SELECT * FROM ({body}) {next(self._aliases)}{self._order(len(types), limited=True)}"
            return f"({body}) {alias}", [Column(f"{alias}.c{i}", t) for i, t in enumerate(types)]
        table = self._pick([*_COLUMNS, *(name for name in _COLUMNS if name != "e")])
        return f"{table} {alias}", [Column(f"{alias}.{name}", kind) for name, kind in _COLUMNS[table].items()]

    def _condition(self, scope: Scope, depth: int, subqueries: int) -> str:
        if depth > 0 and self._chance(0.4):
            left, right = (self._condition(scope, depth - 1, subqueries) for _ in range(2))
            return self._pick(
                (f"({left} OR {right})", f"({left} AND {right})", f"NOT ({left})", f"NOT ({left} AND {right})",
                 f"({left}) IS NOT TRUE", f"({left}) IS DISTINCT FROM ({right})")
            )  # fmt: skip
        if subqueries > 0 and self._chance(0.3):
            return self._asked(scope, subqueries - 1)
        kind = self._random.choice(scope.own).type if self._chance(0.7) else self._pick(_TYPES)
        a = self._expression(kind, scope, 1, 0)
        b = self._expression(kind, scope, 1, 0)
        c = self._pick(_LITERALS[kind])
        shape = self._random.randint(0, 9)
        if shape == 0:
            return f"{a} IS {self._pick(('NULL', 'NOT NULL'))}"
        if shape == 1:
            return f"{a} {self._pick(('IN', 'NOT IN'))} ({b}, {c})"
        if shape == 2 and kind != "bool":
            return f"{a} {self._pick(('BETWEEN', 'NOT BETWEEN'))} {b} AND {c}"
        if shape == 3:
            return f"{a} {self._pick(('IS DISTINCT FROM', 'IS NOT DISTINCT FROM'))} {b}"
        if shape == 4:
            text = self._expression("text", scope, 1, 0)
            pattern = self._pick(("'a%'", "'%n%'", "'_'"))
            return f"{text} {self._pick(('LIKE', 'NOT LIKE', 'ILIKE'))} {pattern}"
        return f"{a} {self._pick(_COMPARISONS)} {self._pick((b, c))}"

    def _asked(self, scope: Scope, depth: int) -> str:
        """Write a question about a subquery."""
        negated = self._pick(("", "", "NOT "))
        shape = self._random.randint(0, 3)
        if shape == 0:
            return f"{negated}EXISTS ({self._rows(depth, scope.inside())[0]})"
        kind = self._random.choice(scope.own).type
        value = self._expression(kind, scope, 0, 0)
        if shape == 1:
            return f"{value} {self._pick(_COMPARISONS)} ({self._one_value(kind, scope.inside(), depth)})"
        body = self._select([kind], depth, scope.inside())
        if self._chance(0.15):
            body = f"SELECT * FROM ({body}) {next(self._aliases)}{self._order(1, limited=True)}"
        if shape == 2:
            return f"{value} {negated}IN ({body})"
        return f"{value} {self._pick(_COMPARISONS)} {self._pick(('ANY', 'ALL'))} ({body})"

    def _one_value(self, kind: str, around: Scope, depth: int) -> str:
        """Write a subquery of at most one row."""
        from_, scope = self._from(depth, around)
        where = f" WHERE {self._condition(scope, 1, 0)}" if self._chance(0.8) else ""
        if self._chance(0.7):
            return f"SELECT {self._aggregate(kind, Scope(scope.own))} FROM {from_}{where}"
        return f"SELECT {self._expression(kind, scope, 1, 0)} AS v FROM {from_}{where} ORDER BY v LIMIT 1"

    def _expression(self, kind: str, scope: Scope, depth: int, subqueries: int) -> str:
        columns = scope.outer if scope.outer and self._chance(0.35) else scope.own
        own = [c.sql for c in columns if c.type == kind] or [c.sql for c in scope.own if c.type == kind]
        if own and self._chance(0.75):
            return self._pick(own)
        if subqueries > 0 and kind != "bool" and self._chance(0.06):
            return f"({self._one_value(kind, scope.inside(), 0)})"
        if depth > 0 and self._chance(0.7):
            return self._composed(kind, scope, depth - 1, subqueries)
        return self._pick(own or _LITERALS[kind])

    def _composed(self, kind: str, scope: Scope, depth: int, subqueries: int) -> str:
        def part(found: re.Match[str]) -> str:
            match found[1]:
                case "interval literal":
                    return self._pick(_LITERALS["interval"])
                case "condition":
                    return self._condition(scope, 0, subqueries)
                case of:
                    return self._expression(of, scope, depth, subqueries)

        if kind == "bool" and self._chance(0.6):
            return f"({self._condition(scope, 1, subqueries)})"
        forms = [*(_ANY if self._chance(0.3) or kind == "bool" else _COMPOSED[kind])]
        form = self._pick(forms).replace("{same}", f"{{{kind}}}")
        text = re.sub(r"\{([a-z ]+)\}", part, form)
        return text if form.startswith(_CLOSED) else f"({text})"


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(f"{column} AS c{i}" for i, column in enumerate(columns))
