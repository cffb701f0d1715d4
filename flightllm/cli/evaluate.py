"""`flightllm evaluate`: measure an AI call against labels, compare variants of it, and store the best one."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import click
import pyarrow as pa

from flightllm.cli.calls import CallsBar
from flightllm.cli.common import Files, SettingParameter, connect, file_options, server_options
from flightllm.cli.opened import asked_server
from flightllm.cli.price import confirmed
from flightllm.cli.running import interruptible
from flightllm.client import BOOKKEEPING, Client
from flightllm.common.amounts import money
from flightllm.common.command_line import Server
from flightllm.connection.cost import read_prediction
from flightllm.connection.render import as_table, console_of, put
from flightllm.errors import FlightLLMError
from flightllm.evaluation.columns import FIGURES, PARTS, VARIED, schema_of
from flightllm.sql.literals import text_literal

_OPTIONS: Final = ("models", "layouts", "examples", "calibrate", "proxies", "recall", "precision", "metric")
_FIRST, *_OTHERS = PARTS
_PART: Final = "part"
"""The column with the name of a row's part."""
_WIDE: Final = 400
"""The width of a table that is not on a terminal."""


class _List(click.ParamType[tuple[str, ...]]):
    """An option with values between commas."""

    name = "A,B,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Split at commas."""
        found = tuple(one.strip() for one in str(value).split(","))
        if not all(found):
            self.fail(f"expected values between commas, got {value!r}", param, ctx)
        return found


class _Numbers(_List):
    """An option with whole numbers between commas."""

    name = "N,N,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Split at commas, and check the numbers."""
        found = super().convert(value, param, ctx)
        if not all(one.isdecimal() for one in found):
            self.fail(f"expected whole numbers between commas, got {value!r}", param, ctx)
        return found


@dataclass(frozen=True, slots=True)
class _Asked:
    """An evaluation as the user asked for it."""

    rows: str
    call: str
    label: str
    options: Mapping[str, Any]
    parts: Sequence[str]
    """The tables to show beside the figures of the variants."""

    @property
    def sql(self) -> str:
        """Return one query of all parts, so that the server asks the variants once."""
        first = map(text_literal, (self.rows, self.call, self.label))
        given = ", ".join([*first, *_options(self.options)])
        return " UNION ALL BY NAME ".join(
            f"SELECT {text_literal(part)} AS {_PART}, * FROM ai_evaluate({given}, part => {text_literal(part)})"
            for part in (_FIRST, *self.parts)
        )


def _options(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        if isinstance(value, tuple):
            written = ", ".join(value) if name == "examples" else ", ".join(map(text_literal, value))
            yield f"{name} => [{written}]"
        elif value is not None:
            yield f"{name} => {value if isinstance(value, float) else text_literal(value)}"


_TARGET: Final = click.FloatRange(0, 1, min_open=True, max_open=True)


@click.command()
@server_options
@click.option("--models", type=_List(), help="Models to compare, as default,small.")
@click.option("--layouts", type=_List(), help="Layouts of prompts to compare: instruction, fields.")
@click.option("--examples", type=_Numbers(), help="Numbers of examples to compare; the examples come from the labels.")
@click.option("--calibrate", type=_List(), help="Calibrations to compare: examples, batch, off.")
@click.option("--proxies", type=_List(), help="Proxies to compare, as none,small.")
@click.option("--recall", type=_TARGET, help="Target of the variants with a proxy.")
@click.option("--precision", type=_TARGET, help="Target of the variants with a proxy.")
@click.option("--metric", help="Figure to compare by: accuracy or f1; jaccard for lists; mae or spearman for ratings.")
@click.option("--confusion", is_flag=True, help="Also show how often each label has each answer.")
@click.option("--agreement", is_flag=True, help="Also show how far each pair of variants agrees.")
@click.option("--budget", type=click.FloatRange(0), metavar="DOLLARS", help="Ask nothing if it would cost more.")
@click.option("--dry-run", is_flag=True, help="Only predict the calls and their price.")
@click.option("--create", metavar="NAME", help="Store the chosen variant as a function of this name.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--set", "settings", type=SettingParameter(), multiple=True, help="Setting for this run. Repeatable.")
@file_options
@click.argument("rows")
@click.argument("call")
@click.argument("label")
def evaluate(
    *,
    server: Server,
    files: Files,
    ask_above: float | None,
    dry_run: bool,
    as_json: bool,
    create: str | None,
    **given: Any,
) -> None:
    """Measure an AI call against labels, and choose its model and options.

    ROWS is a table or a query, and CALL is an AI call over its columns. LABEL is the column with the right answers;
    `system.labels` takes the labels that people gave.

    Each list of options makes variants of the call. Half of the labels choose the cheapest variant that is not
    significantly worse than the best one. The other half gives the figures. Answers are kept, so that a second run
    continues where the first one ended.

    \b
    flightllm evaluate tickets "ai_filter('Is it about money?', body)" about_money
    flightllm evaluate tickets "ai_filter('Is it about money?', body)" about_money --models default,small --dry-run
    flightllm evaluate tickets "ai_classify(body, ['bug', 'praise'])" kind --examples 0,4,8 --create kind_of
    """
    if create and files.sources:
        raise click.UsageError("--create stores a function on a server, and --open has a server for this command only.")
    if create and dry_run:
        raise click.UsageError("--dry-run chooses nothing that --create could store.")
    asked = _Asked(
        given["rows"],
        given["call"],
        given["label"],
        {name: given[name] for name in _OPTIONS},
        [name for name in _OTHERS if given[name]],
    )
    limits = {} if given["budget"] is None else {"max_cost": str(given["budget"])}
    with ExitStack() as stack:
        server = stack.enter_context(asked_server(files, server, asked.sql))
        client = stack.enter_context(connect(server, {**dict(given["settings"]), **limits}))
        if dry_run:
            _predict(client, asked.sql, as_json=as_json)
            return
        if create:
            _check_function(client, create, asked.call)
        if not confirmed(client, asked.sql, ask_above if sys.stdin.isatty() else None):
            raise click.exceptions.Exit(0)
        found = interruptible(client, partial(_rows, client, asked.sql))
        variants, *rest = (_of_part(found, part) for part in (_FIRST, *asked.parts))
        others = dict(zip(asked.parts, rest, strict=True))
        chosen = next(one for one in variants if one["chosen"])
        statement = _statement(create or "name", chosen)
        if as_json:
            told = {"variants": variants, **others, "chosen": chosen["variant"], "statement": statement}
            click.echo(json.dumps(told))
        else:
            _show(variants, others, chosen, statement)
        if create:
            for _ in client.query(statement)[1]:
                pass
            click.echo(f"created {create}", err=True)


def _rows(client: Client, sql: str) -> list[dict[str, Any]]:
    with CallsBar(client, sql):
        schema, batches = client.query(sql)
        return list(pa.Table.from_batches(batches, schema).to_pylist())


def _of_part(found: Sequence[Mapping[str, Any]], part: str) -> list[dict[str, Any]]:
    """Return the rows of a part, without the columns that only other parts have."""
    names = schema_of(part, FIGURES).names
    return [{name: row[name] for name in names if name in row} for row in found if row[_PART] == part]


def _check_function(client: Client, name: str, call: str) -> None:
    """Check before any call that the server can create this function.

    Raises:
        FlightLLMError: the name is taken or malformed, or the call cannot be that of a function.
    """

    def check() -> None:
        for _ in client.query(f"{BOOKKEEPING}EXPLAIN (SAVINGS off) CREATE FUNCTION {name} AS {call}")[1]:
            pass

    interruptible(client, check)


def _predict(client: Client, sql: str, *, as_json: bool) -> None:
    """Print the predicted work of an evaluation.

    Raises:
        FlightLLMError: the evaluation is wrong.
    """

    def read() -> str:
        _, batches = client.query(f"{BOOKKEEPING}EXPLAIN (FORMAT JSON, SAVINGS off) {sql}")
        [plan] = [row["plan"] for batch in batches for row in batch.to_pylist()]
        return str(plan)

    found = read_prediction(plan := interruptible(client, read))
    if found is None:
        raise FlightLLMError("; ".join(json.loads(plan).get("notes") or ["the evaluation cannot be predicted"]))
    if as_json:
        told = {"calls": found.calls, "cached": found.cached, "tokens": found.tokens, "price": found.price}
        click.echo(json.dumps(told))
    else:
        click.echo(str(found))


def _show(
    variants: Sequence[Mapping[str, Any]],
    others: Mapping[str, Sequence[Mapping[str, Any]]],
    chosen: Mapping[str, Any],
    statement: str,
) -> None:
    _print([dict(_shown(one, variants)) for one in variants])
    varied = _varied(variants)
    for name, found in others.items():
        if not found:
            continue
        click.echo(f"\n{name}")
        kept = [key for key in found[0] if key in varied or key not in {*VARIED, "call", "other_call"}]
        _print([_with_intervals({key: one[key] for key in kept}) for one in found])
    left_out = f", {chosen['left_out']:,} without a label left out" if chosen["left_out"] else ""
    click.echo(f"\n{chosen['n']:,} labelled rows judge{left_out}")
    if len(variants) > 1:
        click.echo(f"variant {chosen['variant']} is the cheapest that is not significantly worse than the best")
    if chosen["note"]:
        click.echo(f"note: {chosen['note']}")
    click.echo(f"\n{statement};")


def _shown(one: Mapping[str, Any], variants: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the cells of a variant's line by column."""
    yield "variant", str(one["variant"])
    for name in _varied(variants):
        yield name, "" if one[name] is None else str(one[name])
    for name in FIGURES:
        if name in one:
            yield name, _figure(one, name)
    if len(variants) > 1:
        yield "agreement", _figure(one, "agreement")
    price = one["price_per_1000"]
    yield "$ / 1,000 rows", "" if price is None else money(price)
    yield "tokens", f"{one['tokens_per_1000']:,}"
    yield "s", "" if one["seconds_per_1000"] is None else f"{one['seconds_per_1000']:.3g}"
    if len(variants) > 1:
        yield "p (worse)", f"{one['worse_p']:.2g}"
        yield "", "chosen" if one["chosen"] else "frontier" if one["frontier"] else ""


def _varied(variants: Sequence[Mapping[str, Any]]) -> list[str]:
    return [name for name in VARIED if len({one[name] for one in variants}) > 1]


def _with_intervals(row: Mapping[str, Any]) -> dict[str, str]:
    """Return cells in which the ends of an interval follow their figure."""
    names = [name for name in row if not name.endswith(("_low", "_high"))]
    return {
        name: _figure(row, name) if f"{name}_low" in row else str("" if row[name] is None else row[name])
        for name in names
    }


def _figure(row: Mapping[str, Any], name: str) -> str:
    if row[name] is None:
        return ""
    return f"{row[name]:.3f} ({row[f'{name}_low']:.3f} to {row[f'{name}_high']:.3f})"


def _print(rows: Sequence[Mapping[str, str]]) -> None:
    schema = pa.schema([(name, pa.string()) for name in rows[0]])
    put(console_of(_WIDE), as_table(schema, [list(row.values()) for row in rows]))


def _statement(name: str, chosen: Mapping[str, Any]) -> str:
    """Return the statement that stores the chosen variant with its figures."""
    told = {one: _figure(chosen, one) for one in FIGURES if chosen.get(one) is not None}
    if chosen["price_per_1000"] is not None:
        told["price_per_1000"] = money(chosen["price_per_1000"])
    if chosen["layout"] != "instruction":
        told["layout"] = chosen["layout"]
    told["labels"] = str(chosen["n"])
    figures = ", ".join(f"{key} = {text_literal(value)}" for key, value in told.items())
    return f"CREATE FUNCTION {name} AS {chosen['call']} WITH ({figures})"
