"""List the functions of sqlglot that its own generator writes here, and refuse the others.

Each is syntax, or means the same in all dialects.
"""

from collections.abc import Mapping
from typing import Any, Final, NoReturn

from flightllm.dialect.generator.lines import line_for
from flightllm.dialect.generator.reading import written_name
from flightllm.dialect.generator.written import Written
from flightllm.errors import UnsupportedError

_SYNTAX: Final = (
    "And Or Xor Case If Cast TryCast JSONCast Exists Anonymous Array Struct Unnest Explode Collate Coalesce"
    " Nullif Nvl2 EqualNull Trim Overlay StrPosition Concat ConcatWs Greatest Least Upper Lower Abs Ceil Floor Round"
    " Sign IsNan Rand Pow StartsWith Chr"
)
_WINDOWS: Final = "RowNumber Rank DenseRank PercentRank CumeDist Ntile Lag Lead FirstValue LastValue NthValue"
_AGGREGATES: Final = (
    "AnyValue ArrayAgg ArrayConcatAgg Avg BitwiseAndAgg BitwiseOrAgg BitwiseXorAgg Corr Count CountIf CovarPop"
    " CovarSamp Grouping LogicalAnd LogicalOr Max Median Min Mode PercentileCont RegrAvgx RegrAvgy RegrCount"
    " RegrIntercept RegrR2 RegrSlope RegrSxx RegrSxy RegrSyy Stddev StddevPop StddevSamp Sum VariancePop"
)
_TIMES: Final = (
    "CurrentDate CurrentTime CurrentTimestamp Localtimestamp Date DateFromUnixDate DateStrToDate DateTrunc Datetime"
    " DatetimeTrunc StrToTime TimeStrToTime TimeToStr TimestampTrunc TsOrDsToDate TsOrDsToTimestamp UnixDate"
)
_LISTS: Final = "ArrayContainedBy ArrayContains ArrayContainsAll ArrayOverlaps ArraySize"
_ROWS: Final = "Generator GenerateSeries GenerateDateArray"
_JSON: Final = "JSONExtract JSONExtractArray JSONValueArray"
_KEPT: Final = frozenset(f"{_SYNTAX} {_WINDOWS} {_AGGREGATES} {_TIMES} {_LISTS} {_ROWS} {_JSON}".split())
"""The names of sqlglot's classes."""
_REFUSED_WITH: Final = {"ArrayContains": "check_null", "StrToTime": "safe", "TsOrDsToDate": "safe"}
"""Arguments with which sqlglot writes a function that the server does not have."""


def refused() -> Mapping[type, Written]:
    """Return a function that refuses, for each of sqlglot's classes of functions that is not in the list.

    A class that a new sqlglot brings is refused too.
    """
    from sqlglot import exp

    by_name: dict[str, type] = {one.__name__: one for one in _classes(exp.Func)}
    return {
        **{one: _refuse for name, one in by_name.items() if name not in _KEPT},
        **{by_name[name]: _without(argument) for name, argument in _REFUSED_WITH.items()},
    }


def _without(argument: str) -> Written:
    """Return a function that refuses an expression with an argument, and writes any other as sqlglot does."""
    from sqlglot.generators.duckdb import DuckDBGenerator

    def written(generator: Any, found: Any) -> str:
        if found.args.get(argument):
            _refuse(generator, found)
        usual = DuckDBGenerator.TRANSFORMS.get(type(found)) or getattr(DuckDBGenerator, f"{found.key}_sql")
        return str(usual(generator, found))

    return written


def _classes(above: type) -> list[type]:
    below: list[type] = above.__subclasses__()
    return [found for one in below for found in (one, *_classes(one))]


def _refuse(generator: Any, found: Any) -> NoReturn:
    from sqlglot import exp

    prefix = {exp.NetFunc: "NET.", exp.SafeFunc: "SAFE."}.get(type(found), "")
    called = found.this if prefix and isinstance(found.this, exp.Func) else found
    name = prefix + written_name(called)
    raise UnsupportedError(
        f"{name} of {generator.read_from} has no counterpart here: {line_for(name, generator.read_from)}"
    )
