"""Run one AI operator: order its rows, answer their distinct argument tuples, and append one column per call."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TypeAlias

import pyarrow as pa

from flightllm.config.session_settings import AUTO_ROWS
from flightllm.datafusion.run import Batches
from flightllm.errors import InternalError, UnansweredError
from flightllm.functions.call import EMBEDDING, MODEL, SEARCH, AICall
from flightllm.functions.promise import A_FEW_AT_A_TIME
from flightllm.functions.ranking import RANKED
from flightllm.llm.cost import Work
from flightllm.observe.query_record import CallRecord, sums
from flightllm.operators.arrange import ArgumentColumns, Arranged, How, arrange, growing_sizes
from flightllm.operators.batches import Conditions, PromptBatch
from flightllm.operators.cache import CacheKeys
from flightllm.operators.calibrator import Calibration
from flightllm.operators.call_context import CallContext, CallSite, LimitTracker, Ranking, all_at_once
from flightllm.operators.call_executor import CallExecutor
from flightllm.operators.cascade import answer_rows, decide, predict
from flightllm.operators.first_rows import FirstRows, PartSize
from flightllm.operators.joint import JointOracle, JointPopulation, JointProxy, JointRows, figures_of, joint_call
from flightllm.operators.label_budget import LabelBudget
from flightllm.operators.layouts import LayoutChooser
from flightllm.operators.oracle import Oracle
from flightllm.operators.pack_choice import PackChoice
from flightllm.operators.pack_keys import PackKeys
from flightllm.operators.population import Population
from flightllm.operators.prompts import PromptLister
from flightllm.operators.proxies import ProxyMaker
from flightllm.operators.proxy import ModelProxy
from flightllm.operators.question_choice import QuestionChoice, without_joins
from flightllm.operators.question_groups import Group, joining, note_likely, plan_questions
from flightllm.operators.question_plan import QuestionPlan, steps_of
from flightllm.operators.row_packs import why_alone
from flightllm.operators.row_sample import sampled_tuples
from flightllm.operators.runtime import Runtime, SpooledArguments, with_row_ids
from flightllm.operators.sample_answers import sample_site
from flightllm.operators.searches import run_searches
from flightllm.operators.sets.rank_forecast import methods_text
from flightllm.operators.sets.run import run_set
from flightllm.plan.stages import Operator, StageCall
from flightllm.quality.forecast import Seen
from flightllm.quality.waves import FEWEST_UNITS

_Sampler: TypeAlias = Callable[[StageCall], Sequence[tuple[str | None, ...]]]
"""Returns the values of a call's fields in some of its rows."""


def run_operator(operator: Operator, rows: Batches, runtime: Runtime, tracker: LimitTracker) -> Batches:
    """Yield the operator's rows with its answers, as the answers come.

    Rows come in the order of the prompts, or in the input's order if the query needs that. A LIMIT bounds the prompts
    in one of two ways. Rows in the input's order, or from another operator, are taken in waves, which `tracker` sizes.
    Other rows are all taken and sorted first, and then their prompts are sent in waves.
    """
    name = operator.name
    counters = runtime.counters.get(name)
    if counters is None:
        counters = runtime.counters[name] = [
            runtime.record.call_site(c.ai.function, c.ai.text, name, c.ai.backend, c.ai.model) for c in operator.calls
        ]
    functions = ", ".join(call.ai.function for call in operator.calls)
    span = runtime.record.span.child("ai_operator", operator=name, functions=functions)
    try:
        yield from _waved(operator, rows, runtime, counters, tracker)
    finally:
        span.end(None, **sums(call.counts() for call in counters))


def _waved(
    operator: Operator, rows: Batches, runtime: Runtime, counters: Sequence[CallRecord], tracker: LimitTracker
) -> Batches:
    if not tracker.limited or not operator.takes_waves or any(map(_over_all_rows, operator.calls)):
        yield from _run(operator, rows, runtime, counters, tracker)
        return
    if any(_needs_sample(call.ai) for call in operator.calls):
        rows = _kept(operator, rows, runtime, counters)
    for wave in _waves(rows, tracker):
        yield from _run(_exact(operator), iter([wave]), runtime, counters, LimitTracker())
        tracker.add_trials(wave.num_rows)


def _kept(operator: Operator, rows: Batches, runtime: Runtime, counters: Sequence[CallRecord]) -> Batches:
    """Take all rows before the first wave, so that the calls that rows calibrate have a sample of all of them."""
    table, schema = f"{operator.table}_all", operator.input.schema
    kept = runtime.spool(table, schema, rows)
    spooled = SpooledArguments(kept.rows, None)
    sample = partial(sampled_tuples, runtime, spooled, table, schema)
    for call, record in zip(operator.calls, counters, strict=True):
        if _needs_sample(call.ai):
            _calibration(operator, call, runtime, record, sample)
    yield from runtime.rows(kept, table)


def _calibration(
    operator: Operator, call: StageCall, runtime: Runtime, counters: CallRecord, sampler: _Sampler
) -> Calibration | None:
    """Return the calibration of a call. The first sample of the same columns and guard counts."""
    binding, calibrator = runtime.bindings[call.ai.binding], runtime.calibrator()
    if not call.ai.by_rows:
        return calibrator.of(call.ai, binding, counters)
    rows = operator.table, call.arguments[: len(call.ai.fields)], call.when
    return calibrator.of(call.ai, binding, counters, partial(sampler, call), rows)


def _needs_sample(call: AICall) -> bool:
    """Return whether a sample of a call's rows calibrates it."""
    return call.by_rows and call.over is None


def _over_all_rows(call: StageCall) -> bool:
    """Return whether the rows of the operator are one set, so that no answer is known before the last row."""
    return call.ai.over is not None and call.ai.over.whole


def _exact(operator: Operator) -> Operator:
    """Return the operator without help by proxies: a few rows at a time are too few to sample."""
    calls = tuple(replace(call, ai=call.ai.asking_all(A_FEW_AT_A_TIME)) for call in operator.calls)
    return replace(operator, calls=calls)


def _waves(rows: Iterator[pa.RecordBatch], tracker: LimitTracker) -> Iterator[pa.RecordBatch]:
    """Cut rows into waves. Each wave has as many rows as the tracker needs at that time."""
    held: list[pa.RecordBatch] = []
    while True:
        wanted = tracker.trials_needed()
        while sum(map(len, held)) < wanted and (batch := next(rows, None)) is not None:
            held.append(batch)
        if not held:
            return
        whole = pa.Table.from_batches(held).combine_chunks().to_batches()
        if not whole:
            return
        yield whole[0].slice(0, wanted)
        held = [whole[0].slice(wanted)] if len(whole[0]) > wanted else []


def _run(
    operator: Operator,
    rows: Iterable[pa.RecordBatch],
    runtime: Runtime,
    counters: Sequence[CallRecord],
    tracker: LimitTracker,
) -> Batches:
    """Run the operator over all of `rows`, with one pass for all calls of the same arguments.

    Each further pass reads the result of the pass before it; the last pass streams. With steps there is one pass.
    """
    source = f"{operator.table}_rows"
    schema = operator.input.schema
    if operator.ordered:
        schema = schema.append(pa.field("position", pa.int64()))
        rows = with_row_ids(rows, schema)
    passes = _passes(operator)
    asked = [call.ai.binding for call in operator.calls if call.ai.backend == MODEL]
    if len(passes) > 1 and not tracker.limited and any(runtime.bindings[one].collects for one in asked):
        rows = _all_listed(operator, passes, runtime, counters, rows, schema)
    batches: Batches
    for number, members in enumerate(passes):
        given = schema
        schema = pa.schema([*given, *(pa.field(f"a{i}", operator.calls[i].ai.type) for i in members)])
        last = number + 1 == len(passes)
        above = tracker if last else LimitTracker()
        if operator.calls[members[0]].ai.backend == SEARCH:
            queries = runtime.rows(runtime.spool(source, given, rows), source)
            batches = _search(operator, members, runtime, counters, queries, schema, above)
        elif operator.calls[members[0]].ai.over is not None:
            again = partial(runtime.rows, runtime.spool(source, given, rows), source)
            batches = run_set(operator.calls[members[0]], again, schema, runtime, counters[members[0]], above)
        else:
            asking = _Pass(operator, members, runtime, counters)
            batches = asking.run(asking.spool(source, given, rows), source, schema, above)
        source, rows = f"{operator.table}_rows{number}", batches
    answered = [i for members in passes for i in members]
    first = len(schema) - len(answered)
    kept = [*range(operator.width), *(first + answered.index(i) for i in range(len(operator.calls)))]
    if operator.ordered:
        done = f"{operator.table}_done"
        runtime.spool(done, schema, batches)
        batches = runtime.sql(f"SELECT * FROM {done} ORDER BY position")
    with closing(batches):
        for batch in batches:
            yield pa.RecordBatch.from_arrays([batch.column(i) for i in kept], schema=operator.schema)


def _all_listed(
    operator: Operator,
    passes: Sequence[tuple[int, ...]],
    runtime: Runtime,
    counters: Sequence[CallRecord],
    rows: Iterable[pa.RecordBatch],
    schema: pa.Schema,
) -> Batches:
    """List the prompts of all passes of a deferred statement's operator, and yield the operator's rows.

    A pass needs no answers of the passes before it, so all of them can ask in the same round.

    Raises:
        UnansweredError: a pass that others read lacks answers.
    """
    source, lacking = f"{operator.table}_listed", None
    kept = runtime.spool(source, schema, rows)
    for number, members in enumerate(passes):
        if operator.calls[members[0]].ai.backend != MODEL or operator.calls[members[0]].ai.over is not None:
            continue  # a call over sets is not sent itself, and its own pass lists its questions
        asking, table = _Pass(operator, members, runtime, counters), f"{source}{number}"
        given = pa.schema([*schema, *(pa.field(f"a{i}", operator.calls[i].ai.type) for i in members)])
        try:
            with closing(
                asking.run(asking.spool(table, schema, runtime.rows(kept, source)), table, given, LimitTracker())
            ) as found:
                for _ in found:
                    pass
        except UnansweredError as error:
            lacking = error if number + 1 < len(passes) else lacking  # the last pass yields what it has
    if lacking is not None:
        raise lacking
    yield from runtime.rows(kept, source)


def _search(
    operator: Operator,
    members: Sequence[int],
    runtime: Runtime,
    counters: Sequence[CallRecord],
    rows: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    tracker: LimitTracker,
) -> Batches:
    """Yield the rows with one column for each of the searches `members`."""
    searcher = runtime.searcher()
    calls = [(operator.calls[i], searcher.open(operator.calls[i].ai.instruction), counters[i]) for i in members]
    yield from run_searches(calls, rows, schema, tracker, runtime.cancelled)


def _passes(operator: Operator) -> list[tuple[int, ...]]:
    """Group the calls: those over the same arguments share a pass, and with steps all calls share one.

    One pass has one model binding. A call with a promise has a pass of its own.
    """

    def alike(place: int) -> tuple[str, tuple[int, ...], int]:
        call = operator.calls[place]
        has_own = call.ai.cascades or (call.ai.promise is not None and call.ai.promise.label_budget is not None)
        has_own = has_own or call.ai.over is not None
        return call.ai.binding, call.arguments, place if has_own else -1

    if operator.steps:
        return [tuple(range(len(operator.calls)))]
    return [tuple(g) for _, g in groupby(sorted(range(len(operator.calls)), key=alike), key=alike)]


class _Pass:
    """Answer some calls of an operator in one pass over its sorted rows."""

    def __init__(
        self, operator: Operator, members: tuple[int, ...], runtime: Runtime, counters: Sequence[CallRecord]
    ) -> None:
        self._operator = operator
        self._members = members
        self._calls = [operator.calls[i] for i in members]
        self._counters = [counters[i] for i in members]
        self._runtime = runtime
        self._binding = runtime.bindings[self._calls[0].ai.binding]
        self._columns = tuple(dict.fromkeys(a for call in self._calls for a in call.arguments))
        self._joins: list[Group] = []
        """The groups of calls that can share requests."""
        self._cues = [self._binding.engine.count_tokens(self._without_fields(call.ai)) for call in self._calls]
        """The tokens of each call's prompt without its fields."""

    def _without_fields(self, call: AICall) -> str:
        return call.prompt([], prompt_format=self._binding.prompt_format)

    def spool(self, table: str, schema: pa.Schema, rows: Iterable[pa.RecordBatch]) -> SpooledArguments:
        """Keep all rows; on disk they are the stage input `table`."""
        self._check(schema)
        arguments = self._arguments()
        texts = [column for column in arguments.columns if column not in arguments.lists]
        return self._runtime.spool_arguments(table, schema, rows, texts)

    def run(self, spooled: SpooledArguments, table: str, schema: pa.Schema, tracker: LimitTracker) -> Batches:
        """Yield the spooled rows with one more column per call; `schema` is that of the result."""
        runtime = self._runtime
        given = pa.schema(list(schema)[: len(schema) - len(self._calls)])
        arguments = self._arguments()
        size = PartSize() if self._takes_likeliest(tracker) else None
        arranged = arrange(spooled, table, given, arguments, self._how(tracker, size), runtime.sql)
        tracker.rows_per_trial = spooled.rows / max(1, arranged.distinct) if self._shares_tuples else 1.0
        sample = partial(sampled_tuples, runtime, spooled, table, given)
        wished = runtime.settings.questions_per_request
        if any((call.ai.questions_per_request or wished) != 1 for call in self._calls):
            self._find_joins(limited=tracker.limited, arranged=arranged)
        sites = [self._site(i, arranged, sample, limited=tracker.limited) for i in range(len(self._calls))]
        ranking = self._ranking(arranged)
        self._note(spooled.rows, arranged)
        conditions = Conditions(
            self._operator.schema, self._operator.width, runtime.hold, partial(runtime.stage, runtime.ordered)
        )
        if self._promises and self._operator.steps and not tracker.limited:
            listers = [PromptLister([site], conditions) for site in sites]
            populations = [
                Population(arranged, spooled.encoded, arguments, lister, runtime.cancelled) for lister in listers
            ]
            for prompt_batch in self._decided_together(sites, populations, listers):
                yield prompt_batch.finish(range(len(sites)), schema)
            return
        if self._promises and not tracker.limited:
            lister = PromptLister(sites, conditions)
            population = Population(arranged, spooled.encoded, arguments, lister, runtime.cancelled)
            for prompt_batch in self._decided(sites[0], population, lister):
                yield prompt_batch.finish((0,), schema)
            return
        if size is not None:
            lister = PromptLister(sites, conditions)
            yield from self._first_rows(sites[0], arranged, arguments, lister, tracker, size, schema)
            return
        expected = not tracker.limited and len(ranking.steps) == len(ranking.steps[0].rounds) == 1
        if expected:
            for site in sites:
                site.counters.add(prompts_expected=arranged.distinct)
        context = CallContext(
            self._binding,
            self._binding.in_flight.open(),
            sites,
            ranking,
            conditions,
            tracker,
            runtime.settings.dedup,
            expected,
            runtime.errors,
        )
        places = range(len(self._calls))
        try:
            questions = self._questions(sites, ranking, arranged, sample, limited=tracker.limited)
            with closing(CallExecutor(context, questions).answer(arranged.batches(), runtime.cancelled)) as done:
                for prompt_batch in done:
                    yield prompt_batch.finish(places, schema)
        finally:
            self._note_budgets(sites)
            self._note_methods()

    @property
    def _promises(self) -> bool:
        """Return whether a proxy can decide rows."""
        return self._calls[0].ai.cascades

    def _decided(self, site: CallSite, population: Population, lister: PromptLister) -> Iterator[PromptBatch]:
        """Decide about all rows, and then yield them with their answers."""
        runtime, counters, call = self._runtime, self._counters[0], self._calls[0].ai
        oracle = Oracle(site, self._binding, population, runtime.cancelled)
        maker = self._maker(site, oracle)
        if self._binding.asked_share is None:
            decision = decide(call, oracle, maker.proxy(), self._binding.note_run)
        else:
            decision = predict(call, oracle, maker.likely(), self._binding.asked_share)
        counters.promise = decision.promise
        for notice in decision.notices:
            runtime.record.warn(notice)
        yield from answer_rows(call, oracle, decision, lister, counters, population.rows())

    def _decided_together(
        self, sites: Sequence[CallSite], populations: Sequence[Population], listers: Sequence[PromptLister]
    ) -> Iterator[PromptBatch]:
        """Decide about all rows by all filters of one promise, and then yield the rows that pass."""
        runtime, binding = self._runtime, self._binding
        oracles = [Oracle(site, binding, p, runtime.cancelled) for site, p in zip(sites, populations, strict=True)]
        population = JointPopulation(oracles, listers)
        oracle, call = JointOracle(oracles, population), joint_call([site.ai for site in sites])
        proxies = [self._likely(site, own) for site, own in zip(sites, oracles, strict=True)]
        proxy = JointProxy(proxies, oracles, population)

        def note(together: AICall, seen: Seen) -> None:
            if binding.note_run is not None:
                seen.scored = proxy.scored
                binding.note_run(together, seen)

        if binding.asked_share is None:
            decision = decide(call, oracle, proxy, note)
        else:
            shares = () if binding.scored_shares is None else binding.scored_shares(call)
            decision = predict(call, oracle, proxy, binding.asked_share, partial(proxy.foresee, shares))
        calls = [site.ai for site in sites]
        for number, counters in enumerate(self._counters):
            counters.promise = figures_of(number, calls, decision.promise)
        for notice in decision.notices:
            runtime.record.warn(notice)
        yield from JointRows(calls, population, oracle, self._counters).passing(decision)

    def _maker(self, site: CallSite, oracle: Oracle) -> ProxyMaker:
        return ProxyMaker(site, self._binding, oracle, self._runtime, self._operator.name)

    def _likely(self, site: CallSite, oracle: Oracle) -> ModelProxy:
        """Return the proxy of a call that is a language model."""
        made = self._maker(site, oracle).likely()
        if made is None:
            raise InternalError(f"{site.ai.text} has no proxy that is a language model")
        return made

    def _takes_likeliest(self, tracker: LimitTracker) -> bool:
        """Return whether a proxy tells which rows are likely to reach a LIMIT; a dry run must know an earlier run."""
        call, foresee = self._calls[0].ai, self._binding.first_effort
        if not tracker.limited or self._operator.steps or not call.finds_first:
            return False
        return foresee is None or foresee(call, 1, 1, 1.0) is not None

    def _first_rows(
        self,
        site: CallSite,
        arranged: Arranged,
        arguments: ArgumentColumns,
        lister: PromptLister,
        tracker: LimitTracker,
        size: PartSize,
        schema: pa.Schema,
    ) -> Batches:
        """Yield the rows that a LIMIT needs, the likeliest first."""
        runtime, call = self._runtime, self._calls[0].ai
        first = FirstRows(
            call,
            site,
            self._binding,
            partial(self._likely, site),
            lambda oracle: self._maker(site, oracle).likely_price(),
            arranged,
            size,
            arguments,
            lister,
            tracker,
            self._counters[0],
            runtime.cancelled,
        )
        if self._binding.first_effort is not None:
            for prompt_batch in first.foreseen(self._binding.first_effort):
                self._counters[0].promise = first.prediction()
                yield prompt_batch.finish((0,), schema)
            self._counters[0].promise = first.prediction()
            return
        try:
            for prompt_batch in first.batches():
                self._counters[0].promise = first.figures()
                yield prompt_batch.finish((0,), schema)
        finally:
            self._counters[0].promise = first.figures()
            if self._binding.note_run is not None and len(first.order.scores) >= FEWEST_UNITS:
                self._binding.note_run(call, first.seen)
        for notice in first.notices:
            runtime.record.warn(notice)

    def _check(self, schema: pa.Schema) -> None:
        kinds = [schema.field(a).type for a in self._columns]
        if not all(map(pa.types.is_string, kinds)):
            raise InternalError(f"arguments of {self._calls[0].ai.text} are {kinds}, not text")

    def _arguments(self) -> ArgumentColumns:
        names: dict[int, str] = {}
        for call in self._calls:
            for name, column in zip(call.ai.fields, call.arguments, strict=False):
                names.setdefault(column, name)
        readers = tuple(sum(c in call.arguments for call in self._calls) for c in self._columns)
        lists = frozenset(call.arguments[field] for call in self._calls for field in call.ai.lists)
        calls = tuple(call.arguments[: len(call.ai.fields)] for call in self._calls)
        return ArgumentColumns(self._columns, tuple(names.get(c, "") for c in self._columns), readers, lists, calls)

    @property
    def _shares_tuples(self) -> bool:
        """Return whether equal rows share one tuple of arguments."""
        return self._promises or (self._runtime.settings.dedup and not any(call.ai.fresh for call in self._calls))

    def _how(self, tracker: LimitTracker, part_size: PartSize | None) -> How:
        settings, growing = self._runtime.settings, growing_sizes()
        promise = self._calls[0].ai.promise
        # the proxy gets most prompts, so their order suits its prefix cache
        first = self._runtime.bindings.get(promise.proxies[0]) if promise is not None and self._promises else None
        binding = self._binding if first is None or promise is None or promise.proxies[0] == EMBEDDING else first

        def size() -> int:
            return min(growing(), tracker.trials_needed()) if tracker.limited else growing()

        calls, prices = [call.ai for call in self._calls], binding.costs.prices
        together = [self._together(call, fields_first=settings.fields_first, limited=False)[0] for call in calls]
        packs = max(together) > 1
        chooser = LayoutChooser(binding.engine, calls, binding.prompt_format, prices, self._turns(), packs)
        return How(
            settings.ordering,
            self._shares_tuples,
            binding.engine,
            binding.window,
            0.0 if settings.fields_first else min(self._cues),
            part_size or size,
            chooser.choose if settings.layout == "auto" else None,
            any(count != 1 for count in together),
        )

    def _turns(self) -> list[int]:
        """Return for each call the number of the round in which it is asked."""
        rounds = [calls for step in self._operator.steps for calls in step.rounds]
        turn = {call: number for number, calls in enumerate(rounds) for call in calls}
        return [turn.get(call, 0) for call in range(len(self._calls))]

    def _ranking(self, arranged: Arranged) -> Ranking:
        """Return the operator's steps, ranked by the tokens that one row is expected to take in each."""
        if not self._operator.steps:
            return all_at_once(len(self._calls))
        total = arranged.ordering.total_tokens if arranged.ordering else 0.0
        read = sum(len(set(call.arguments)) for call in self._calls)
        field = total / max(1, arranged.distinct * read)
        expected = []
        for step in self._operator.steps:
            calls = [c for r in step.rounds for c in r]
            tokens = sum(self._cues[c] + field * len(set(self._calls[c].arguments)) for c in calls)
            expected.append(Work(len(calls), round(tokens), 0, len(calls)))
        return Ranking(self._operator.steps, expected, self._binding.costs.weigher())

    def _site(self, place: int, arranged: Arranged, sample: _Sampler, *, limited: bool) -> CallSite:
        call, fields_first = self._calls[place], self._fields_first(arranged)
        calibration = None
        if call.ai.labelled is not None or call.ai.uncalibrated or call.ai.by_rows:
            calibration = _calibration(self._operator, call, self._runtime, self._counters[place], sample)
        keys = self._binding.keys(call.ai, fields_first=fields_first)
        together, alone = self._together(call.ai, fields_first=fields_first, limited=limited)
        if together > 1 or alone:
            told = f"each row by itself: {alone}" if alone else f"up to {together:,} rows in a request"
            self._counters[place].note(0, 0, together=told)
        joins = any(place in group.calls for group in self._joins)
        own_keys: CacheKeys | PackKeys = keys
        if together > 1 or joins:
            own_keys = PackKeys(keys, self._binding.user, questions=joins)
        site = CallSite(
            call.ai,
            tuple(arranged.places[self._columns.index(a)] for a in call.arguments[: len(call.ai.fields)]),
            arranged.order,
            call.when,
            call.guard,
            own_keys,
            self._counters[place],
            fields_first,
            self._binding.prompt_format,
            arranged.keeps_field_order,
            None if calibration is None else calibration.ask,
            sampled=None if calibration is None else calibration.sampled,
            together=max(1, together),
            joins=joins,
            joined_fields_first=self._runtime.settings.fields_first,
            label_budget=self._label_budget(place),
        )
        return self._choosing(place, site, keys, arranged, sample) if together == AUTO_ROWS else site

    def _find_joins(self, *, limited: bool, arranged: Arranged) -> None:
        """Find the calls that can share requests, and note why others cannot."""
        first = self._fields_first(arranged)
        together = [self._together(call.ai, fields_first=first, limited=limited)[0] for call in self._calls]
        self._joins, why = joining(self._calls, together, self._binding, self._runtime.settings)
        for place, reason in why.items():
            self._counters[place].note(0, 0, questions=reason)

    def _questions(
        self, sites: list[CallSite], ranking: Ranking, arranged: Arranged, sample: _Sampler, *, limited: bool
    ) -> list[QuestionPlan]:
        """Return how the calls over the same fields share requests; some sites change where they share none."""
        if not self._joins:
            return []
        if self._operator.steps:
            note_likely(ranking, sites, self._operator.width, self._binding.engine)
        ordering = arranged.ordering
        known = ordering.hit_tokens / ordering.total_tokens if ordering is not None and ordering.total_tokens else 0.0
        plans = plan_questions(
            self._joins,
            sites,
            lambda place: sample(self._calls[place]),
            self._binding,
            min(1.0, known),
            arranged.distinct,
        )
        found = []
        for plan in plans:
            if not plan.auto:
                plan.decide(*steps_of(ranking, plan.calls))  # EXPLAIN shows the choice also where all answers are known
            elif not self._agrees(plan, sites, ranking, sample, limited=limited):
                continue
            found.append(plan)
        return found

    def _agrees(
        self, plan: QuestionPlan, sites: list[CallSite], ranking: Ranking, sample: _Sampler, *, limited: bool
    ) -> bool:
        """Return whether sampled rows agree, so that the questions of a plan share requests; else change its sites."""
        places = sorted(plan.calls)
        for place in places:
            sites[place] = replace(sites[place], sampled=set())
        own = [sites[place] for place in places]
        target, rows = self._runtime.settings.rows_agreement, sample(self._calls[places[0]])
        choice = QuestionChoice(plan, own, self._binding, rows, target, limited)
        agrees = choice.agrees(*steps_of(ranking, plan.calls), self._runtime.cancelled)
        for place, site in zip(places, own, strict=True):
            if not agrees:
                sites[place] = without_joins(site)
            elif site.sampled is not None and isinstance(site.keys, PackKeys):
                site.sampled.update([site.keys.marked(key) for key in site.sampled])
        return agrees

    def _fields_first(self, arranged: Arranged) -> bool:
        """Return whether prompts begin with the fields: by the setting, or by the price."""
        return self._runtime.settings.fields_first or arranged.layout.fields_first

    def _choosing(self, place: int, site: CallSite, keys: CacheKeys, arranged: Arranged, sample: _Sampler) -> CallSite:
        """Return a site that chooses before its first prompt how many rows share a request."""

        def told(text: str) -> None:
            self._counters[place].note(0, 0, together=text)

        site = replace(site, sampled=set())
        choice = PackChoice(
            sample_site(site),
            keys,
            self._binding,
            partial(sample, self._calls[place]),
            self._runtime.settings.rows_agreement,
            arranged.distinct,
            told,
        )
        return replace(site, packing=choice.rows_together)

    def _together(self, call: AICall, *, fields_first: bool, limited: bool) -> tuple[int, str]:
        """Return how many rows can share a request, or `AUTO_ROWS`; and why it is one row where more are wished."""
        settings = self._runtime.settings
        wished = call.rows_per_request or settings.rows_per_request
        if wished == 1:
            return 1, ""
        waits = (
            self._binding.collects or settings.delivery == "batch"
        )  # a round must not depend on which rows are known
        alone = "a batch endpoint gets each row by itself" if waits else why_alone(call, fields_first=fields_first)
        if not alone and wished == AUTO_ROWS and limited:
            alone = "auto samples no rows under a LIMIT"
        return (1, alone) if alone else (wished, "")

    def _label_budget(self, place: int) -> LabelBudget | None:
        """Return the label budget of a call, which all of its waves share."""
        call, runtime = self._calls[place].ai, self._runtime
        if call.promise is None or call.promise.label_budget is None:
            return None
        key = self._operator.name, self._members[place]
        if key not in runtime.label_budgets:
            runtime.label_budgets[key] = LabelBudget(call, call.promise.label_budget, runtime.record.warn)
        return runtime.label_budgets[key]

    def _note_budgets(self, sites: Sequence[CallSite]) -> None:
        """Note which promises are not held, because the label budget is spent; a dry run promises nothing."""
        for site, counters in zip(sites, self._counters, strict=True):
            if site.label_budget is not None and self._binding.asked_share is None:
                counters.promise = site.label_budget.figures()

    def _note_methods(self) -> None:
        """Note in a dry run what the other methods of ranking would cost."""
        for call, counters in zip(self._calls, self._counters, strict=True):
            if self._binding.asked_share is not None and RANKED in call.ai.reading.split():
                counted = counters.counts()["distinct_prompts"]
                counters.note(0, 0, steps=methods_text(counted, call.ai.first_rows, None))

    def _note(self, rows: int, arranged: Arranged) -> None:
        by_sql = "rows, by DataFusion" if arranged.keeps_field_order else "fixed, by DataFusion"
        ordering = by_sql if arranged.ordering is None else arranged.ordering.method
        for counters in self._counters:
            tuples = arranged.distinct if self._shares_tuples else rows
            layout = "fields first" if self._fields_first(arranged) else "instruction first"
            why = arranged.layout.why
            counters.note(rows, tuples, ordering=ordering, layout=layout, idle=arranged.idle, layout_why=why)
