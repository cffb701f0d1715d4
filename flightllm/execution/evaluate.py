"""`ai_evaluate` in FROM: run variants of a call on labelled rows, and return their figures as a table.

Planning finds all errors in the call, and runs nothing. The table has its rows once the query runs.
"""

import json
import math
import re
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import pyarrow as pa

from flightllm.config.session_settings import Settings
from flightllm.errors import AICallError, CancelledError, InvalidInputError, LimitExceededError, UnsupportedError
from flightllm.evaluation.choice import ALPHA, MARGIN, Choice, choose, frontier, labels_for_margin, worse
from flightllm.evaluation.columns import NAMES, figure_columns, schema_of
from flightllm.evaluation.figures import METRICS, Answers, agreement, class_values, confusion, figures, of_metric
from flightllm.evaluation.halves import choosing_half, drawn_examples
from flightllm.evaluation.shares import Figure, share
from flightllm.evaluation.truth import Question, read_labels
from flightllm.execution.accounting import AskingQuery, make_fits, models_of, predict
from flightllm.execution.batch_query import BatchQuery
from flightllm.execution.bind import SEARCH_CATALOG, extract
from flightllm.execution.context import Services
from flightllm.execution.evaluation_variants import VARIED, Variant, Wanted, examples_option
from flightllm.execution.late_query import Planner
from flightllm.execution.late_table import Bindings
from flightllm.execution.plain_query import PlainQuery
from flightllm.execution.plan_texts import late_fits
from flightllm.execution.staged_query import StagedQuery
from flightllm.functions.base import LABELS_OPTION
from flightllm.functions.call import ELEMENT_END, AICall, binding_of
from flightllm.learning.learned import LateFit, Learned
from flightllm.llm.cost import Work, Works, counted_work
from flightllm.llm.engine import Choice as Options
from flightllm.llm.engine import JsonSchema
from flightllm.observe.query_record import QueryRecord
from flightllm.sql.calls import Extracted
from flightllm.sql.evaluations import (
    Evaluation,
    check_is_call,
    option_of,
    stub_arguments,
    with_options,
)
from flightllm.sql.names import PEOPLES_LABELS
from flightllm.sql.parsed_text import ParsedText
from flightllm.system_tables.labels import fields_of, key_of

ROWS: Final = f"{SEARCH_CATALOG}.public.labelled"
"""The table of labelled rows that each variant asks about."""
_PLACE, _LABEL = "__place", "__label"
_MOST_ROWS: Final = 100_000
_ENOUGH: Final = 0.5
"""With at least this share of its prompts asked now, a variant's work is measured; else it is predicted."""
_PER: Final = 1_000
"""Prices, seconds and tokens are for this many rows."""


@dataclass(frozen=True, slots=True)
class _Labelled:
    """The rows with a label."""

    table: pa.Table
    wanted: Sequence[Any]
    fields: Sequence[Sequence[str | None]]
    """The texts of the call's fields, for each row."""
    keys: Sequence[str]
    """The same as one text."""
    left_out: int
    """The rows without a label."""


@dataclass(frozen=True, slots=True)
class _Ran:
    """A variant, its answers to all labelled rows, and its work."""

    variant: Variant
    call: str
    """The call with the examples that were drawn for it."""
    answers: Answers
    seconds: float
    sites: Sequence[Mapping[str, Any]]
    query: AskingQuery


_Run: TypeAlias = tuple[_Labelled, list[int], list[_Ran]]
"""The labelled rows, the places of the examples among them, and the variants that ran."""


class Evaluated:
    """One evaluation: planned at first, and asked once by each run of its query, for all of its parts."""

    def __init__(self, found: Evaluation, services: Services, settings: Settings, plan: Planner) -> None:
        """Plan an evaluation.

        Raises:
            FlightLLMError: the rows, the call, the label or an option is wrong.
        """
        check_is_call(found.call, found.where)
        self._found, self._services, self._settings, self._plan = found, services, settings, plan
        self._wanted = Wanted.of(found)
        self._people = found.label.lower().replace('"', "") == PEOPLES_LABELS
        label = "" if self._people else f", ({found.label}) AS {_LABEL}"
        self._rows = plan(f"SELECT *{label} FROM {found.rows} AS {found.alias}", {}, settings)
        if not isinstance(self._rows, PlainQuery):
            raise UnsupportedError(
                f"{found.where}: the labelled rows cannot ask a model: keep them by CREATE TABLE … AS first"
            )
        self.variants = self._wanted.variants(found.call)
        self._check_options()
        empty = self._asked_of(self._rows.schema.empty_table())
        self._check_fixed()
        self._planned = [self._query(variant, variant.call, empty) for variant in self.variants]
        self._question = _question(self._call, found.call, found.where)
        self._metric = self._wanted.metric or METRICS[self._question.kind][0]
        if self._metric not in METRICS[self._question.kind]:
            names = " or ".join(map(repr, METRICS[self._question.kind]))
            raise AICallError(f"{found.where}: metric is {names} for this call, not {self._metric!r}")
        self._known: _Labelled | None = None
        self._last: tuple[QueryRecord, _Run] | None = None
        """The last run, and its query's record."""

    def _check_options(self) -> None:
        """Refuse options that the function lacks: it would send their values to the model as fields."""
        function = self._services.functions.get(self._found.call.partition("(")[0])
        if function is None:
            return
        known = {one.name for one in function.all_options}
        for one in VARIED:
            values = self._wanted.lists.get(one.column, ())
            for name in {option for value in values for option in one.options(value)} - known:
                raise AICallError(
                    f"{self._found.where}: {one.name} cannot vary, because {function.name} has no {name} =>"
                )

    def _check_fixed(self) -> None:
        """Refuse variants of a filter or a function that SQL created: it has the options of its own call only."""
        function = self._services.functions.stored_function(self._found.call.partition("(")[0])
        if function is None:
            return
        own = with_options(self._found.call, {})
        for one in self.variants:
            if one.examples or one.call != own:
                raise AICallError(
                    f"{self._found.where}: {function.name} has its own options, so only layouts can vary: evaluate its"
                    f" expression instead, {function.body[:200]}"
                )

    @property
    def calls(self) -> list[AICall]:
        """Return the calls of all variants."""
        return [call for query in self._planned for call in query.calls]

    @property
    def fits(self) -> list[LateFit]:
        """Return the fits to labels that the variants need."""
        return [fit for query in self._planned for fit in late_fits(query.extracted)]

    @property
    def _call(self) -> AICall:
        """The call of the first variant; for a learned filter, the one in place of which it decides."""
        extracted = self._planned[0].extracted
        return extracted.decided[0].call if extracted.decided else next(iter(extracted.calls.values()))

    def schema(self, part: str) -> pa.Schema:
        """Return the schema of a part.

        Raises:
            AICallError: the call has no such part.
        """
        if part == "confusion" and self._question.kind not in {"yes/no", "classes"}:
            raise AICallError(f"{self._found.where}: only calls with yes/no answers or classes have a confusion matrix")
        return schema_of(part, NAMES[self._question.kind])

    def explain(self) -> list[tuple[str, str]]:
        """Return a line for each variant."""
        return [(f"variant {number}", _told(one)) for number, one in enumerate(self.variants, 1)]

    def forget(self) -> None:
        """Drop the rows and answers of the last run, which can be large: a prepared statement lives long."""
        self._known = self._last = None

    def drain(self, bindings: Bindings, record: QueryRecord) -> None:
        """Ask all variants, and forget the answers: for a prediction."""
        self._run(bindings, record, real=False)

    def rows(self, part: str, bindings: Bindings, record: QueryRecord) -> pa.Table:
        """Return the rows of a part. The first part of a query asks all variants.

        Raises:
            FlightLLMError: a label is not an answer of the call, or a variant fails.
        """
        last = self._last
        ran = last[1] if last is not None and last[0] is record else self._run(bindings, record, real=True)
        self._last = record, ran
        match part:
            case "confusion":
                found = list(self._confusion(*ran))
            case "agreement":
                found = list(self._agreements(*ran))
            case _:
                found = self._figures(*ran, bindings, record)
        return pa.Table.from_pylist(found, schema=self.schema(part))

    def _query(self, variant: Variant, call: str, table: pa.Table) -> StagedQuery | BatchQuery:
        """Plan a variant's call over rows; its answers have the model's confidence, where the call can give it."""
        sql = f"SELECT {_PLACE}, {self._own_options(call)} AS answer FROM {ROWS} AS {self._found.alias}"
        query = self._plan(sql, {ROWS: table}, variant.settings(self._settings))
        if not isinstance(query, StagedQuery | BatchQuery) or not _is_one(query.extracted):
            raise AICallError(f"{self._found.where}: evaluates one AI call, not {self._found.call[:80]}")
        return query

    def _own_options(self, call: str) -> str:
        """Return a call whose failures are NULL, and whose answers have a confidence if the function can give it."""
        function = self._services.functions.get(call.partition("(")[0])
        if function is None:  # it is a function that SQL created, or no AI function, which planning says
            return call
        learns = LABELS_OPTION in function.options and option_of(call, LABELS_OPTION.name) is not None
        options: dict[str, str | None] = {"on_error": "'null'"}
        promises = option_of(call, "proxy") is not None  # then `confidence` is that of its promise
        if not promises and not learns and any(one.name == "confidence" for one in function.options):
            options["confidence"] = None if _gives_lists(call) else "true"
        return with_options(call, options)

    def _asked_of(self, table: pa.Table) -> pa.Table:
        """Return rows as the variants see them: numbered, and without the column of labels."""
        labels = {_LABEL, self._found.label.strip('"')}
        kept = table.select([name for name in table.column_names if name not in labels])
        return kept.append_column(_PLACE, pa.array(range(len(kept)), pa.int64()))

    def _run(self, bindings: Bindings, record: QueryRecord, *, real: bool) -> _Run:
        rows = self._known = self._known or self._labelled(record)
        most = max((one.examples or 0 for one in self.variants), default=0)
        examples = self._drawn(rows, most)
        return rows, examples, [self._ask(one, rows, examples, bindings, record, real=real) for one in self.variants]

    def _labelled(self, record: QueryRecord) -> _Labelled:
        table, left_out = self._read(record)
        fields = self._fields(self._asked_of(table), record)
        given = self._labels_of_people(fields, record) if self._people else table.column(_LABEL).to_pylist()
        wanted = read_labels(self._question, given)
        kept = [place for place, true in enumerate(wanted) if true is not None]
        if not kept:
            raise InvalidInputError(f"{self._found.where}: no row has a label")
        told = [fields[place] for place in kept]
        return _Labelled(
            table.take(kept),
            [wanted[place] for place in kept],
            told,
            list(map(repr, told)),
            left_out + len(table) - len(kept),
        )

    def _read(self, record: QueryRecord) -> tuple[pa.Table, int]:
        """Return the rows that can have a label, and the number of the others; these take no memory.

        Raises:
            LimitExceededError: there are too many.
        """
        kept, left_out, rows = list[pa.RecordBatch](), 0, 0
        with closing(self._rows.run(QueryRecord("", "", record.cancelled))) as batches:
            for batch in batches:
                found = batch if self._people else batch.filter(batch.column(_LABEL).is_valid())
                left_out += len(batch) - len(found)
                rows += len(found)
                if rows > _MOST_ROWS:
                    raise LimitExceededError(
                        f"{self._found.where}: takes at most {_MOST_ROWS:,} labelled rows: take a sample of them"
                    )
                kept.append(found)
        return pa.Table.from_batches(kept, self._rows.schema), left_out

    def _fields(self, table: pa.Table, record: QueryRecord) -> list[list[str | None]]:
        """Return the texts of the call's fields, for each row."""
        call = self._own_options(self._found.call)
        rows = f"{ROWS} AS {self._found.alias}"
        sql = f"SELECT {call} AS answer FROM {rows}"
        extracted, _ = extract(ParsedText(sql), self._services, {ROWS: table})
        if extracted.decided:
            arguments = extracted.decided[0].arguments
        else:
            [stub] = extracted.calls
            arguments = tuple(stub_arguments(extracted.sql, stub))
        values = [f"CAST({one} AS VARCHAR) AS f{at}" for at, one in enumerate(arguments)]
        query = self._plan(f"SELECT {_PLACE}, {', '.join(values)} FROM {rows}", {ROWS: table}, self._settings)
        found = _table(query, record).sort_by(_PLACE)
        return [list(row.values())[1:] for row in found.to_pylist()]

    def _labels_of_people(self, fields: Sequence[Sequence[str | None]], record: QueryRecord) -> list[str | None]:
        """Return the label that most people gave for each row; a tie is None, as a missing label is."""
        sql = 'SELECT "key", label FROM system.labels WHERE label IS NOT NULL'
        given = dict[str, Counter[str]]()
        for row in _table(self._plan(sql, {}, self._settings), record).to_pylist():
            given.setdefault(row["key"], Counter())[row["label"]] += 1
        found = []
        for values in fields:
            named = zip(self._call.fields, values, strict=True)
            pairs = [(name, one) for name, value in named if value is not None for one in value.split(ELEMENT_END)]
            votes = given.get(key_of(self._call.function, self._call.task, fields_of(pairs)), Counter()).most_common(2)
            tied = len(votes) == 2 and votes[0][1] == votes[1][1]
            found.append(None if tied or not votes else votes[0][0])
        return found

    def _drawn(self, rows: _Labelled, number: int) -> list[int]:
        if not number:
            return []
        chosen = choosing_half(self._question, rows.keys, rows.wanted)
        places = [at for at, one in enumerate(chosen) if one and all(value is not None for value in rows.fields[at])]
        return drawn_examples(self._question, rows.keys, rows.wanted, places, number)

    def _ask(
        self,
        variant: Variant,
        rows: _Labelled,
        examples: Sequence[int],
        bindings: Bindings,
        record: QueryRecord,
        *,
        real: bool,
    ) -> _Ran:
        if record.cancelled.is_set():
            raise CancelledError("the statement was cancelled")
        call = variant.call
        if variant.examples:
            if len(examples) < variant.examples:
                raise InvalidInputError(
                    f"{self._found.where}: half of the labels give only {len(examples)} examples, not"
                    f" {variant.examples}: give more labels, or fewer examples"
                )
            drawn = examples_option(self._call.fields, rows.fields, rows.wanted, examples[: variant.examples])
            call = with_options(call, {"examples": drawn})
        query = self._query(variant, call, self._asked_of(rows.table))
        if real:  # the labels that teach it can have changed since the query was planned
            make_fits(late_fits(query.extracted), self._settings, record)
        before, started = len(record.call_rows()), time.monotonic()
        with closing(query.run_on(bindings, record)) as batches:
            found = pa.Table.from_batches(batches, query.schema).sort_by(_PLACE).column("answer").to_pylist()
        seconds = time.monotonic() - started
        return _Ran(variant, call, self._answers(found), seconds, record.call_rows()[before:], query)

    def _answers(self, found: Sequence[Any]) -> Answers:
        with_confidence = any(isinstance(one, dict) for one in found)
        given = [one["answer"] if isinstance(one, dict) else one for one in found]
        confidence = [one["confidence"] if isinstance(one, dict) else None for one in found]
        return Answers([self._question.value(one) for one in given], confidence if with_confidence else ())

    def _figures(
        self, rows: _Labelled, examples: Sequence[int], ran: Sequence[_Ran], bindings: Bindings, record: QueryRecord
    ) -> list[dict[str, Any]]:
        chosen_by, judged_by = self._halves(rows, examples, alone=len(ran) == 1)
        unaided = sorted((*chosen_by, *judged_by))
        work = [self._work(one, bindings, record, len(rows.wanted)) for one in ran]
        prices = _prices(work)
        choice, note = self._choice(rows, ran, prices, chosen_by, judged_by)
        wanted = [rows.wanted[place] for place in judged_by]
        judged = [of_metric(self._question, self._metric, wanted, one.answers.at(judged_by).given) for one in ran]
        on_frontier = frontier(judged, prices)
        found = []
        for number, one in enumerate(ran):
            told = figures(self._question, wanted, one.answers.at(judged_by))
            equal, kappa = agreement(self._question, ran[0].answers.at(unaided).given, one.answers.at(unaided).given)
            found.append(
                {
                    "variant": number + 1,
                    **_values(one, self._call, self._settings),
                    "n": len(judged_by),
                    "left_out": rows.left_out,
                    "failed": sum(answer is None for answer in one.answers.given),
                    **_columns(told),
                    **_columns({"agreement": equal, "kappa": kappa}),
                    **work[number],
                    "worse_p": choice.worse[number] if len(ran) > 1 else None,
                    "frontier": on_frontier[number],
                    "chosen": number == choice.chosen,
                    "note": note if number == choice.chosen and note else None,
                    "call": one.call,
                }
            )
        return found

    def _halves(self, rows: _Labelled, examples: Sequence[int], *, alone: bool) -> tuple[list[int], list[int]]:
        """Return the rows that choose and those that judge; all rows judge a single variant.

        Rows whose values are in an example belong to neither half.
        """
        used = {rows.keys[place] for place in examples}
        places = [place for place, key in enumerate(rows.keys) if key not in used]
        if alone:
            return [], places
        chooses = choosing_half(self._question, rows.keys, rows.wanted)
        return [at for at in places if chooses[at]], [at for at in places if not chooses[at]]

    def _choice(
        self,
        rows: _Labelled,
        ran: Sequence[_Ran],
        prices: Sequence[float],
        chosen_by: Sequence[int],
        judged_by: Sequence[int],
    ) -> tuple[Choice, str]:
        """Return the chosen variant, and what speaks against it."""
        question, metric = self._question, self._metric
        if len(ran) == 1:
            judged = [rows.wanted[at] for at in judged_by]
            right = of_metric(question, "accuracy", judged, ran[0].answers.at(judged_by).given)
            needed = labels_for_margin(right) if "accuracy" in NAMES[question.kind] else 0
            few = f"too few labels for an interval of ±{MARGIN:.0%}: there are {len(judged_by)}, and about {needed} do"
            return Choice(0, 0, (1.0,), needed), few if len(judged_by) < needed else ""
        wanted, given = [rows.wanted[at] for at in chosen_by], [one.answers.at(chosen_by).given for one in ran]
        choice = choose(question, metric, wanted, given, prices)
        notes = []
        if len(chosen_by) < choice.needed:
            notes.append(
                f"too few labels to choose: {len(chosen_by)} choose, and {choice.needed:,} show a difference of"
                f" {MARGIN:.0%} ({2 * choice.needed:,} labels in all)"
            )
        judged = [rows.wanted[at] for at in judged_by]
        best, chosen = (ran[at].answers.at(judged_by).given for at in (choice.best, choice.chosen))
        if choice.best != choice.chosen and worse(question, metric, judged, best, chosen) < ALPHA:
            notes.append(f"on the judging half it is significantly worse than variant {choice.best + 1}")
        return choice, "; ".join(notes)

    def _work(self, ran: _Ran, bindings: Bindings, record: QueryRecord, rows: int) -> dict[str, Any]:
        """Return the price, the seconds and the tokens of a variant for 1,000 rows, as if no answer was known before.

        The prompts are those that the variant needed. Their mean work is measured for each model. For a model whose
        answers the cache mostly knew, it is predicted. The seconds are then unknown.
        """
        models = [site for site in ran.sites if site["backend"] == "model"]
        asked, prompts = _by_model(models), Counter[str | None]()
        for site in models:
            prompts[site["model"]] += site["distinct_prompts"]
        known = {model: work for model, work in asked.items() if work.calls >= _ENOUGH * prompts[model]}
        means = {**(self._predicted(ran, record) if len(known) < len(prompts) else {}), **known}
        scales = {model: number / max(1, means[model].calls) for model, number in prompts.items() if model in means}
        prices = [_costs(bindings, model).price(means[model]) for model in scales]
        whole = sum(prompts.values()) / max(1, sum(work.calls for work in asked.values()))
        each = _PER / max(rows, 1)
        return {
            "price_per_1000": each * sum(price * scale for price, scale in zip(prices, scales.values(), strict=True))
            if None not in prices
            else None,
            "seconds_per_1000": each * ran.seconds * whole if len(known) == len(prompts) else None,
            "tokens_per_1000": round(each * sum(means[model].tokens * scale for model, scale in scales.items())),
            "calls": sum(site["calls"] for site in models),
            "cached": sum(site["cache_hits"] for site in models),
        }

    def _predicted(self, ran: _Ran, record: QueryRecord) -> Works:
        without = _WithoutCache(ran.query)
        with models_of(without, record.cancelled.is_set) as models:
            return predict(without, models, record.cancelled.is_set, draws=1).works

    def _confusion(self, rows: _Labelled, examples: Sequence[int], ran: Sequence[_Ran]) -> Iterator[dict[str, Any]]:
        _, judged_by = self._halves(rows, examples, alone=len(ran) == 1)
        wanted = [rows.wanted[place] for place in judged_by]
        names = [_shown(value) for value in class_values(self._question)]
        for number, one in enumerate(ran, 1):
            for label, counts in zip(
                names, confusion(self._question, wanted, one.answers.at(judged_by).given).tolist(), strict=True
            ):
                for answer, count in zip([*names, None], counts, strict=True):
                    found = {"variant": number, **_values(one, self._call, self._settings)}
                    told = {"label": label, "answer": answer, "rows": count}
                    yield {**found, **told, **_columns({"share": share(count, sum(counts))})}

    def _agreements(self, rows: _Labelled, examples: Sequence[int], ran: Sequence[_Ran]) -> Iterator[dict[str, Any]]:
        _, places = self._halves(rows, examples, alone=True)
        ran = [replace(one, answers=one.answers.at(places)) for one in ran]
        for first, one in enumerate(ran, 1):
            for second, other in enumerate(ran[first:], first + 1):
                pairs = zip(one.answers.given, other.answers.given, strict=True)
                both = sum(a is not None and b is not None for a, b in pairs)
                equal, kappa = agreement(self._question, one.answers.given, other.answers.given)
                names = {"variant": first, "other": second, "call": one.call, "other_call": other.call}
                yield {**names, "n": both, **_columns({"agreement": equal, "kappa": kappa})}


class _WithoutCache:
    """A query whose prediction counts on no known answer."""

    def __init__(self, query: AskingQuery) -> None:
        self._query = query
        self.services = query.services
        self.settings = replace(query.settings, cache=False)
        self.calls = query.calls
        self.run_on = query.run_on


def _table(query: Any, record: QueryRecord) -> pa.Table:
    """Return the rows of a query that asks no model; its stages do not count as parts of the record's query."""
    with closing(query.run(QueryRecord("", "", record.cancelled))) as batches:
        return pa.Table.from_batches(batches, query.schema)


def _is_one(extracted: Extracted) -> bool:
    """Return whether a query has one AI call, or one learned filter with the calls of its features."""
    if not extracted.decided:
        return len(extracted.calls) == 1
    fits = [one for one in extracted.opened if isinstance(one, Learned | LateFit)]
    return len(extracted.decided) == 1 and len(extracted.calls) == len(fits[0].features)


def _gives_lists(call: str) -> bool:
    """Return whether a call has `multi => true`, which has no confidence."""
    return re.search(r"\bmulti\s*=>\s*true\b", call, re.IGNORECASE) is not None


def _by_model(sites: Sequence[Mapping[str, Any]]) -> dict[str | None, Work]:
    """Return the work of call sites by model."""
    found = dict[str | None, Work]()
    for site in sites:
        found[site["model"]] = found.get(site["model"], Work()) + counted_work(site)
    return found


def _prices(work: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the prices of variants, or their tokens if some model has no price."""
    prices = [one["price_per_1000"] for one in work]
    return prices if None not in prices else [one["tokens_per_1000"] for one in work]


def _costs(bindings: Bindings, model: str | None) -> Any:
    return bindings[binding_of(model)].costs


def _question(call: AICall, text: str, where: str) -> Question:
    """Return the kind of answers that a call gives.

    Raises:
        UnsupportedError: answers of this kind cannot be compared with labels.
    """
    output, constraint = call.output, call.parameters.constraint
    if pa.types.is_struct(output):
        output = output.field("answer").type
    options = constraint.options if isinstance(constraint, Options) else ()
    if pa.types.is_boolean(output):
        return Question("yes/no")
    if pa.types.is_string(output) and options:
        return Question("classes", options)
    if pa.types.is_floating(output) and options:
        numbers = [float(one) for one in options]
        return Question("numbers", low=min(numbers), high=max(numbers))
    low, high = (option_of(text, name) for name in ("low", "high"))
    if pa.types.is_floating(output) and isinstance(high, int | float):
        return Question("numbers", low=float(low) if isinstance(low, int | float) else 0.0, high=float(high))
    if pa.types.is_list(output) and isinstance(constraint, JsonSchema):
        items = json.loads(constraint.schema).get("properties", {}).get("labels", {}).get("items", {})
        if isinstance(items.get("enum"), list):
            return Question("lists", tuple(items["enum"]))
    raise UnsupportedError(
        f"{where}: {call.function} has no answers that labels can be compared with; ai_filter, ai_classify, ai_score"
        " and other functions that choose an answer have"
    )


def _values(ran: _Ran, call: AICall, settings: Settings) -> dict[str, Any]:
    own = {"model": call.model or "default", "layout": settings.layout}
    return {one.column: ran.variant.values.get(one.column, own.get(one.column)) for one in VARIED}


def _columns(told: Mapping[str, Figure]) -> dict[str, float | None]:
    values = [value for one in told.values() for value in (one.value, one.low, one.high)]
    known = [None if math.isnan(value) else value for value in values]
    return dict(zip(figure_columns(list(told)), known, strict=True))


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _told(variant: Variant) -> str:
    given = ", ".join(f"{name} {value}" for name, value in variant.values.items())
    return f"{variant.call}{f' ({given})' if given else ''}"


class EvaluatedPart:
    """A part of an evaluation, as a table. The first of its parts in a query stands for its calls."""

    def __init__(self, evaluated: Evaluated, part: str, *, first: bool) -> None:
        """Take an evaluation and the name of a part.

        Raises:
            AICallError: the call has no such part.
        """
        self._evaluated, self._part, self._first = evaluated, part, first
        self.schema = evaluated.schema(part)

    @property
    def calls(self) -> Collection[AICall]:
        """Return the calls of all variants."""
        return self._evaluated.calls if self._first else []

    @property
    def fits(self) -> Sequence[LateFit]:
        """Return the fits to labels that the variants need."""
        return self._evaluated.fits if self._first else []

    def explain(self) -> list[tuple[str, str]]:
        """Return a line for each variant."""
        return self._evaluated.explain() if self._first else []

    def forget(self) -> None:
        """Drop the rows and answers of the last run."""
        self._evaluated.forget()

    def drain(self, bindings: Bindings, record: QueryRecord) -> None:
        """Ask all variants, and forget the answers: for a prediction."""
        if self._first:
            self._evaluated.drain(bindings, record)

    def rows(self, bindings: Bindings, record: QueryRecord) -> pa.Table:
        """Return the rows, for which each run of the query asks the variants once."""
        return self._evaluated.rows(self._part, bindings, record)


class Evaluations:
    """The evaluations of one query. Those that differ by `part` only ask their variants once."""

    def __init__(self, services: Services, settings: Settings, plan: Planner) -> None:
        """Take what plans the evaluations."""
        self._planned_with = services, settings, plan
        self._made = dict[str, Evaluated]()

    def part(self, found: Evaluation) -> EvaluatedPart:
        """Plan a part of an evaluation.

        Raises:
            FlightLLMError: the rows, the call, the label or an option is wrong.
        """
        options = sorted((name, repr(value)) for name, value in found.options.items() if name != "part")
        key = repr((found.rows, found.alias, found.call, found.label, options))
        first = key not in self._made
        if first:
            self._made[key] = Evaluated(found, *self._planned_with)
        return EvaluatedPart(self._made[key], Wanted.of(found).part, first=first)
