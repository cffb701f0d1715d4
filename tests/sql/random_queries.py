"""Random queries over small tables, with AI calls wherever an expression may stand; a seed gives one and the same text.

Every query has one right answer as a multiset of rows: LIMIT comes with an order of all columns, window functions and
aggregates do not depend on the order of equal rows, and nothing divides, casts text to numbers or asks for the time.
The one exception is a LIMIT at the very end without an order: `unlimited` tells which rows there are to choose from.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from random import Random

TABLES = (
    """CREATE TABLE films AS SELECT movie_id, title, nullif(genre, 'Drama') AS genre, rating,
        CASE WHEN movie_id % 5 = 0 THEN NULL ELSE release_year END AS year FROM movies WHERE movie_id <= 14""",
    """CREATE TABLE talk AS SELECT review_id, CASE WHEN review_id % 7 = 0 THEN NULL ELSE movie_id END AS movie_id,
        review_type, top_critic, review_score, substr(review_content, 1, 30) AS content
        FROM reviews WHERE movie_id <= 16 AND review_id <= 160""",
    """CREATE TABLE silence AS SELECT review_id, review_content AS content, top_critic FROM reviews
        WHERE review_id < 0""",
)
"""Cuts of the sample tables, with more NULLs, and one without rows."""

COLUMNS = {
    "people": {"id": "int", "name": "text", "note": "text", "score": "double", "flag": "bool"},
    "likes": {"person_id": "int", "thing": "text", "weight": "int"},
    "films": {"movie_id": "int", "title": "text", "genre": "text", "rating": "text", "year": "int"},
    "talk": {
        "review_id": "int", "movie_id": "int", "review_type": "text", "top_critic": "bool",
        "review_score": "double", "content": "text",
    },
    "nothing": {"id": "int", "name": "text", "score": "double"},
    "silence": {"review_id": "int", "content": "text", "top_critic": "bool"},
}  # fmt: skip

_LITERALS = {
    "int": ("1", "2", "3", "7"),
    "double": ("0.5", "1.75", "2.25"),
    "text": ("'likes tea'", "'tea'", "'positive'", "'a'", "'R'", "''"),
    "bool": ("true", "false"),
}
_COMPARISONS = ("=", "<>", "<>", "<=", ">", ">=", ">=")
_JOINS = ("", "", "", "", "LEFT ", "LEFT ", "RIGHT ", "FULL ", "LEFT SEMI ", "LEFT ANTI ", "CROSS ")
_TYPES = ("int", "text", "text", "double", "bool")


@dataclass(frozen=True)
class Column:
    """A column as it is written, and its type."""

    sql: str
    type: str


@dataclass(frozen=True)
class Source:
    """An item of FROM under an alias, and its columns."""

    sql: str
    columns: tuple[Column, ...]
    united: bool = False


def random_query(seed: int) -> str:
    """Return the query of a seed; it has at least one AI call."""
    for attempt in count():
        text = _Writer(Random(f"{seed} {attempt}"), Random(f"calls {seed} {attempt}")).query()  # noqa: S311 - no secret
        if "ai_" in text:
            return text
    raise AssertionError


def unlimited(sql: str) -> str | None:
    """Return the query without the LIMIT at its end where that has no order, and so may keep any rows; else None."""
    found = re.fullmatch(r"(.* AS l) LIMIT \d+", sql)
    return None if found is None else found[1]


class _Writer:
    def __init__(self, random: Random, calls: Random) -> None:
        self._random = random
        self._calls = calls
        self._aliases = (f"t{i}" for i in count())
        self._with: list[tuple[str, str, tuple[str, ...]]] = []

    def query(self) -> str:
        """Write a whole query."""
        if self._chance(0.25):
            for name in ("c", "d")[: self._random.randint(1, 2)]:
                text, types = self._rows(1)
                self._with.append((name, text, types))
        text, types = self._rows(2)
        if self._chance(0.4):
            text += self._order(len(types), limited=self._chance(0.7))
        elif self._chance(0.15):
            text = f"SELECT * FROM ({text}) AS l LIMIT {self._random.randint(1, 5)}"
        ctes = ", ".join(f"{name} AS ({body})" for name, body, _ in self._with)
        return f"WITH {ctes} {text}" if ctes else text

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _order(self, width: int, *, limited: bool) -> str:
        places = self._random.sample(range(1, width + 1), width)
        keys = ", ".join(f"{i}{self._random.choice(('', ' DESC', ' NULLS FIRST'))}" for i in places)
        text = f" ORDER BY {keys}"
        if limited:
            text += f" LIMIT {self._random.randint(1, 6)}"
            text += f" OFFSET {self._random.randint(1, 3)}" if self._chance(0.2) else ""
        return text

    def _rows(self, depth: int) -> tuple[str, tuple[str, ...]]:
        """Write a SELECT or a set operation; return it and the types of its columns, named c0, c1 and so on."""
        types = tuple(self._random.choice(_TYPES) for _ in range(self._random.randint(1, 4)))
        if depth > 0 and self._chance(0.2):
            operation = self._random.choice(
                ("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "EXCEPT ALL", "INTERSECT ALL")
            )
            return f"{self._select(types, depth - 1)} {operation} {self._select(types, depth - 1)}", types
        return self._select(types, depth), types

    def _select(self, types: Sequence[str], depth: int) -> str:
        from_, scope = self._from(depth)
        where = f" WHERE {self._condition(scope)}" if self._chance(0.6) else ""
        if self._chance(0.25):
            return self._grouped(types, scope, from_, where)
        if self._chance(0.08):
            return self._first_of_each(types, scope, from_, where)
        columns = [self._window(t, scope) if self._chance(0.06) else self._expression(t, scope, 2) for t in types]
        distinct = "DISTINCT " if self._chance(0.15) else ""
        return f"SELECT {distinct}{_listed(columns)} FROM {from_}{where}"

    def _first_of_each(self, types: Sequence[str], scope: Sequence[Column], from_: str, where: str) -> str:
        """Write a SELECT of the first rows of each group, by an order that only equal rows share."""
        own = [[c.sql for c in scope if c.type == kind] or [_LITERALS[kind][0]] for kind in types]
        columns = [self._random.choice(names) for names in own]
        group = self._random.choice(scope).sql
        keys = ", ".join(f"{c}{self._random.choice(('', ' DESC', ' DESC NULLS LAST'))}" for c in columns)
        number = f"row_number() OVER (PARTITION BY {group} ORDER BY {keys})"
        names = ", ".join(f"c{i}" for i in range(len(types)))
        most = self._random.choice(("= 1", "<= 1", "<= 2", "< 3"))
        if self._chance(0.3):
            listed = f"SELECT {_listed(columns)} FROM {from_}{where} QUALIFY {number} {most}"
            return f"SELECT {names} FROM ({listed}) AS q"
        return (
            f"SELECT {names} FROM (SELECT {_listed(columns)}, {number} AS rn FROM {from_}{where}) AS w WHERE rn {most}"
        )

    def _grouped(self, types: Sequence[str], scope: Sequence[Column], from_: str, where: str) -> str:
        """Write a SELECT that groups by some of its columns and aggregates the others."""
        keys, columns = [], []
        for place, kind in enumerate(types):
            if self._chance(0.5) or kind == "bool":
                columns.append(self._expression(kind, scope, 1))
                keys.append(place)
            else:
                columns.append(self._aggregate(kind, scope))
        plain = [c for c in scope if c.sql in columns]
        if plain and self._chance(0.6):
            where = f" WHERE {self._filter(plain)}"
        group = f" GROUP BY {', '.join(str(k + 1) for k in keys)}" if keys else ""
        having = ""
        if keys and self._chance(0.5):
            key = columns[self._random.choice(keys)]
            having = " HAVING " + self._random.choice(
                (f"count(*) > {self._random.randint(1, 2)}", f"ai_filter('h', k => {key})", f"{key} IS NOT NULL")
            )
            having += " AND count(*) < 4" if self._chance(0.3) else ""
        if keys and not having and self._chance(0.3):
            having = self._plain_having(columns[keys[0]])
        return f"SELECT {_listed(columns)} FROM {from_}{where}{group}{having}"

    def _plain_having(self, key: str) -> str:
        more = self._random.choice(
            (f"count(*) > {self._random.randint(0, 5)}", f"count({key}) >= 2", f"max({key}) > 'M'")
        )
        return " HAVING " + more.replace("> 'M'", "IS NOT NULL")

    def _aggregate(self, kind: str, scope: Sequence[Column]) -> str:
        argument = self._expression(kind, scope, 1)
        only = f" FILTER (WHERE {self._predicate(scope, 1)})" if self._chance(0.15) else ""
        if kind == "int":
            name = self._random.choice(
                ("count(*)", f"count({argument})", f"sum({argument})", f"count(DISTINCT {argument})")
            )
            return name + only
        return f"{self._random.choice(('min', 'max') if kind == 'text' else ('min', 'max', 'avg'))}({argument}){only}"

    def _window(self, kind: str, scope: Sequence[Column]) -> str:
        over = f"(PARTITION BY {self._random.choice(scope).sql} ORDER BY {self._random.choice(scope).sql})"
        if kind == "int":
            return f"{self._random.choice(('rank()', 'count(*)', 'dense_rank()'))} OVER {over}"
        name = "count" if kind == "bool" else self._random.choice(("min", "max"))
        text = f"{name}({self._expression(kind, scope, 1)}) OVER {over}"
        return f"{text} > 1" if kind == "bool" else text

    def _from(self, depth: int) -> tuple[str, list[Column]]:
        first = self._source(depth)
        text, scope = first.sql, list(first.columns)
        united = first.united
        for _ in range(self._random.choice((0, 0, 1, 1, 2))):
            kind = self._random.choice(_JOINS)
            if kind == "CROSS ":
                source = _source("people WHERE id < 3", next(self._aliases), COLUMNS["people"])
                text += f" CROSS JOIN {source.sql}"
                scope += source.columns
                continue
            source = self._source(depth)
            united = united or source.united
            on = self._on(scope, source, ai=not (kind in {"RIGHT ", "FULL "} and united))
            text += f" {kind}JOIN {source.sql} ON {on}"
            if "SEMI" not in kind and "ANTI" not in kind:
                scope += source.columns
        return text, scope

    def _source(self, depth: int) -> Source:
        alias = next(self._aliases)
        if self._with and self._chance(0.4):
            name, _, types = self._random.choice(self._with)
            return _source(name, alias, {f"c{i}": t for i, t in enumerate(types)})
        if depth > 0 and self._chance(0.45):
            text, types = self._rows(depth - 1)
            if self._chance(0.2):
                text += self._order(len(types), limited=True)
            columns = tuple(Column(f"{alias}.c{i}", t) for i, t in enumerate(types))
            return Source(f"({text}) AS {alias}", columns, united="UNION" in text)
        if self._chance(0.04):
            table = self._random.choice(("people", "talk"))
            never = self._random.choice(("1 = 2", f"{next(iter(COLUMNS[table]))} < 0", "'a' = 'b'"))
            return _source(f"{table} WHERE {never}", alias, COLUMNS[table])
        table = self._random.choice([*COLUMNS, *4 * ("people", "likes", "talk", "films")])
        return _source(table, alias, COLUMNS[table])

    def _on(self, scope: Sequence[Column], source: Source, *, ai: bool) -> str:
        pairs = [(a, b) for a in scope for b in source.columns if a.type == b.type and a.type in {"int", "text"}]
        if not pairs or self._chance(0.05):
            condition = self._compare([*scope, *source.columns])
        else:
            a, b = self._random.choice([p for p in pairs if p[0].type == "int"] or pairs)
            condition = f"{a.sql} = {b.sql}"
        if self._chance(0.2):
            condition += f" AND {self._compare(self._random.choice((scope, source.columns)))}"
        if ai and self._chance(0.2):
            both = [*scope, *source.columns]
            condition += f" AND {self._filter(self._random.choice((scope, source.columns, both)))}"
        return condition

    def _condition(self, scope: Sequence[Column]) -> str:
        conjuncts = [self._predicate(scope, 2) for _ in range(self._random.choice((1, 1, 1, 2)))]
        if self._chance(0.3):
            conjuncts.append(self._subquery(scope))
        return " AND ".join(f"({c})" for c in conjuncts)

    def _subquery(self, scope: Sequence[Column]) -> str:
        """Write a predicate that holds a subquery."""
        table = self._random.choice(("people", "likes", "talk", "films", "talk", "nothing"))
        inner = _source(table, next(self._aliases), COLUMNS[table])
        where = f" AND {self._predicate(inner.columns, 1)}" if self._chance(0.6) else ""
        pairs = [(a, b) for a in scope for b in inner.columns if a.type == b.type and a.type in {"int", "text"}]
        negated = self._random.choice(("", "", "NOT "))
        shape = self._random.randint(0, 3)
        if shape == 0 and pairs:
            outer, own = self._random.choice(pairs)
            if self._chance(0.2):
                most = self._random.randint(0, 2)
                return f"(SELECT count(*) FROM {inner.sql} WHERE {own.sql} = {outer.sql}{where}) > {most}"
            return f"{negated}EXISTS (SELECT 1 FROM {inner.sql} WHERE {own.sql} = {outer.sql}{where})"
        outer = self._random.choice(scope)
        if shape == 1:
            largest = self._random.choice(("max", "min"))
            value = self._expression(outer.type, inner.columns, 1) if outer.type != "bool" else "true"
            value = f"{largest}({value})" if outer.type != "bool" else "count(*) > 2"
            return f"{outer.sql} >= (SELECT {value} FROM {inner.sql} WHERE true{where})"
        value = self._expression(outer.type, inner.columns, 1)
        return f"{outer.sql} {negated}IN (SELECT {value} FROM {inner.sql} WHERE true{where})"

    def _predicate(self, scope: Sequence[Column], depth: int) -> str:
        if depth > 0 and self._chance(0.3):
            left, right = self._predicate(scope, depth - 1), self._predicate(scope, depth - 1)
            return self._random.choice((f"({left} OR {right})", f"({left} AND {right})", f"NOT ({left})"))
        if self._chance(0.4):
            call = self._filter(scope)
            return call if self._chance(0.7) else f"{call} IS NOT {self._random.choice(('TRUE', 'FALSE', 'NULL'))}"
        if self._chance(0.2):
            return (
                f"{self._expression(self._random.choice(_TYPES), scope, 1)} IS {self._random.choice(('', 'NOT '))}NULL"
            )
        return self._compare(scope) if self._chance(0.6) else self._compare_any(scope)

    def _compare(self, scope: Sequence[Column]) -> str:
        column = self._random.choice(scope)
        return f"{column.sql} {self._random.choice(_COMPARISONS)} {self._random.choice(_LITERALS[column.type])}"

    def _compare_any(self, scope: Sequence[Column]) -> str:
        kind = self._random.choice(("int", "text", "double"))
        a, b = self._expression(kind, scope, 1), self._expression(kind, scope, 1)
        return f"{a} {self._random.choice(_COMPARISONS)} {b}"

    def _expression(self, kind: str, scope: Sequence[Column], depth: int) -> str:
        own = [c.sql for c in scope if c.type == kind]
        if own and self._chance(0.45):
            return self._random.choice(own)
        if depth > 0 and self._chance(0.45):
            return self._composed(kind, scope, depth - 1)
        if kind != "int" and self._chance(0.75):
            return self._ai(kind, scope, depth)
        return self._random.choice(own or _LITERALS[kind])

    def _composed(self, kind: str, scope: Sequence[Column], depth: int) -> str:
        a, b = self._expression(kind, scope, depth), self._expression(kind, scope, depth)
        choice = self._random.randint(0, 3)
        if choice == 0:
            return f"CASE WHEN {self._predicate(scope, 0)} THEN {a} ELSE {b} END"
        if choice == 1:
            return f"coalesce({a}, {b})"
        if kind == "int":
            text = self._expression("text", scope, depth)
            return self._random.choice((f"{a} + 1", f"{a} + {b}", f"length({text})"))
        if kind == "text":
            return self._random.choice((f"upper({a})", f"{a} || {b}", f"nullif({a}, {b})"))
        if kind == "double":
            return self._random.choice((f"{a} * 2", f"{a} + 1.5", f"abs({a})"))
        return f"({a} {self._random.choice(('AND', 'OR'))} {b})"

    def _filter(self, scope: Sequence[Column]) -> str:
        return self._ai("bool", scope, 0)

    def _ai(self, kind: str, scope: Sequence[Column], depth: int) -> str:
        """Write an AI call; its prompts are few, so that some calls are alike."""
        chosen = self._random.sample(list(scope), min(len(scope), self._random.choice((1, 1, 1, 2))))
        fields = [c.sql for c in chosen]
        if depth > 0 and self._chance(0.15):
            fields[0] = self._composed("text", scope, 0)
        given = f"'{self._random.choice(('p', 'q'))}'{self._fields(fields, chosen)}"
        if kind == "bool":
            return self._whole("ai_filter", given)
        if kind == "double":
            return self._whole("ai_score", given)
        texts = [c.sql for c in scope if c.type == "text"]
        if texts and self._chance(0.5):
            text = self._random.choice(texts)
            return self._random.choice((f"ai_sentiment({text})", f"ai_classify({text}, ['a', 'b', 'tea'])"))
        return self._whole("ai_gen", given)

    def _fields(self, fields: Sequence[str], chosen: Sequence[Column]) -> str:
        """Write the fields of a call; in some cases rows that differ, or are not there at all, share their values."""
        case = self._calls.random()
        if case < 0.08:
            return ""
        if case < 0.14:
            return f", {chosen[0].sql.partition('.')[0]}.*"
        if case < 0.26 and chosen[0].type == "text":
            fields = [f"coalesce({fields[0]}, 'none')", *fields[1:]]
        return "".join(f", f{i} => {f}" for i, f in enumerate(fields))

    def _whole(self, function: str, given: str) -> str:
        """Write a call, in some cases one that returns its answer in a struct."""
        struct = self._calls.random() < 0.1
        return f"{function}({given}, on_error => 'struct')['value']" if struct else f"{function}({given})"


def _source(table: str, alias: str, columns: dict[str, str]) -> Source:
    sql = f"(SELECT * FROM {table}) AS {alias}" if " " in table else f"{table} AS {alias}"
    return Source(sql, tuple(Column(f"{alias}.{name}", kind) for name, kind in columns.items()))


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(f"{column} AS c{i}" for i, column in enumerate(columns))
