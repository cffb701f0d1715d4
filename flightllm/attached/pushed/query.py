"""A SELECT in parts, which the nodes of a plan make one after the other."""

from dataclasses import dataclass, replace

from sqlglot import exp

from flightllm.attached.pushed.typed import NotSayableError, Typed


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT in parts, so that the next node of the plan can join it without a SELECT of its own."""

    source: exp.Expr
    columns: tuple[Typed, ...]
    joins: tuple[exp.Join, ...] = ()
    where: tuple[exp.Expr, ...] = ()
    groups: tuple[exp.Expr, ...] | None = None
    order: tuple[exp.Expr, ...] = ()
    skip: int = 0
    most: int | None = None

    @property
    def limited(self) -> bool:
        """Return whether only some rows are returned."""
        return self.skip > 0 or self.most is not None

    @property
    def is_relation(self) -> bool:
        """Return whether the SELECT returns columns of a table or of a SELECT in FROM, and does nothing else."""
        plain = all(isinstance(one.sql, exp.Column) for one in self.columns)
        return plain and not (self.joins or self.where or self.order or self.limited) and self.groups is None

    def select(self) -> exp.Select:
        """Return the SELECT; the names of its columns are c0, c1 and so on."""
        named = [exp.alias_(one.sql.copy(), f"c{i}", quoted=True) for i, one in enumerate(self.columns)]
        built = exp.select(*(named or [exp.alias_(exp.Literal.number(1), "c0", quoted=True)])).from_(self.source.copy())
        built.set("joins", [join.copy() for join in self.joins])
        if self.where:
            built = built.where(*(one.copy() for one in self.where))
        if self.groups:
            built = built.group_by(*(one.copy() for one in self.groups))
        if self.order:
            built = built.order_by(*(one.copy() for one in self.order))
        if self.most is not None:
            built = built.limit(self.most)
        return built.offset(self.skip) if self.skip else built

    def inside(self, name: str) -> "Query":
        """Return a SELECT from this one, with the same columns."""
        columns = tuple(
            replace(one, sql=exp.column(f"c{i}", table=name, quoted=True)) for i, one in enumerate(self.columns)
        )
        inner = self if self.limited else replace(self, order=())
        return Query(inner.select().subquery(exp.to_identifier(name, quoted=True)), columns)

    def limit(self, skip: int, most: int | None) -> "Query":
        """Return the SELECT with a limit below its own limit.

        Raises:
            NotSayableError: the limit skips rows.
        """
        if not self.limited:
            return replace(self, skip=skip, most=most)
        if skip or most is None:
            raise NotSayableError("a second limit that skips rows")
        return replace(self, most=most if self.most is None else min(self.most, most))
