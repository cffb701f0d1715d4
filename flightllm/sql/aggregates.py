"""Detection of expressions that are arguments of numeric aggregates, such as `avg`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from flightllm.sql.tokens import Token, TokenKind

Number = Literal["double", "whole"]

_NUMERIC = frozenset(
    (
        *("sum", "avg", "mean", "median", "approx_median", "approx_percentile_cont", "corr"),
        *("stddev", "stddev_samp", "stddev_pop", "var", "var_samp", "var_sample", "var_pop", "var_population"),
        *("covar", "covar_samp", "covar_pop", "regr_slope", "regr_intercept", "regr_r2", "regr_avgx", "regr_avgy"),
        *("regr_sxx", "regr_syy", "regr_sxy", "approx_percentile_cont_with_weight"),
    )
)
AGGREGATES = _NUMERIC | frozenset(
    (
        *("count", "min", "max", "any_value", "first_value", "last_value", "nth_value", "array_agg", "string_agg"),
        *("bool_and", "bool_or", "bit_and", "bit_or", "bit_xor", "approx_distinct", "percentile_cont"),
        *("quantile_cont", "regr_count", "grouping"),
    )
)
"""All aggregates of DataFusion."""
_DOUBLES = ("double", "float", "real", "float4", "float8", "decimal", "numeric")
_INTEGERS = ("int", "integer", "bigint", "smallint", "tinyint", "int2", "int4", "int8")


@dataclass(frozen=True, slots=True)
class Aggregates:
    """The aggregates in the tokens of one statement; `closing` maps each opening bracket to its closing bracket."""

    tokens: Sequence[Token]
    closing: Mapping[int, int]

    def wanted(self, first: int, last: int) -> Number | None:
        """Return the kind of numbers that an aggregate takes from `tokens[first:last]`.

        Return None if these tokens are not a whole argument of a numeric aggregate.

        | call                     | kind   |
        |--------------------------|--------|
        | `avg(x)`                 | double |
        | `avg(CAST(x AS DOUBLE))` | double |
        | `avg(x::double)`         | double |
        | `sum(x::int)`            | whole  |
        """
        cast: Number | None = None
        tokens = self.tokens
        if self._is_word(first - 2, "cast") and self._is_symbol(first - 1, "(") and self._is_word(last, "as"):
            cast = self._type(last + 1)
            first, last = first - 2, self.closing.get(first - 1, len(tokens)) + 1
        elif self._is_symbol(last, "::"):
            cast = self._type(last + 1)
            last = self._after_type(last + 1)
        else:
            cast = "double"
        if cast is None or not (self._is_symbol(last, ",") or self._is_symbol(last, ")")):
            return None
        return cast if self._is_argument(first) else None

    def _is_argument(self, first: int) -> bool:
        """Return whether an argument of a numeric aggregate begins at a token."""
        if self._is_word(first - 1, "distinct") or self._is_word(first - 1, "all"):
            first -= 1
        opening = first - 1
        if self._is_symbol(opening, ","):
            opened = (at for at, end in self.closing.items() if at < first <= end)
            opening = max(opened, default=0)
        name = self.tokens[opening - 1] if opening > 0 and self._is_symbol(opening, "(") else None
        return name is not None and name.is_word(*_NUMERIC) and not self._is_symbol(opening - 2, ".")

    def _type(self, at: int) -> Number | None:
        if at >= len(self.tokens):
            return None
        token = self.tokens[at]
        return "double" if token.is_word(*_DOUBLES) else "whole" if token.is_word(*_INTEGERS) else None

    def _after_type(self, at: int) -> int:
        """Return the index after the name of a type, as in `double precision` and `decimal(10, 2)`."""
        at += 2 if self._is_word(at + 1, "precision") else 1
        return self.closing[at] + 1 if at in self.closing and self._is_symbol(at, "(") else at

    def _is_word(self, at: int, word: str) -> bool:
        return 0 <= at < len(self.tokens) and self.tokens[at].is_word(word)

    def _is_symbol(self, at: int, text: str) -> bool:
        return 0 <= at < len(self.tokens) and self.tokens[at].kind is TokenKind.SYMBOL and self.tokens[at].text == text
