"""Choose rows for people to label next, for a learned filter."""

import json
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np
import pyarrow as pa

from flightllm.catalog.functions import CreatedFunction
from flightllm.catalog.models import missing
from flightllm.common.names import quoted
from flightllm.config.session_settings import Settings
from flightllm.datafusion.run import Batches
from flightllm.errors import FlightLLMError
from flightllm.execution.context import Services
from flightllm.execution.late_table import Bindings
from flightllm.execution.learn import Found, asked_features, own_labels
from flightllm.execution.learned_models import check_made_with
from flightllm.execution.plan_texts import late_fits
from flightllm.execution.planning import plan
from flightllm.functions.call import AICall
from flightllm.functions.learned import question_of
from flightllm.learning.choosing import next_rows
from flightllm.learning.fitting import draw, text_of, trains
from flightllm.learning.learned import LateFit, Learned
from flightllm.observe.query_record import QueryRecord
from flightllm.sql.names import PEOPLES_LABELS
from flightllm.sql.next_labels import NextLabels
from flightllm.sql.parsed_text import ParsedText


class RowsToLabel:
    """A table of rows to label: the filter's columns, its `answer` now, the `margin`, and the `side` of the label.

    Every second row has the side `judge`: it is a random draw among the rows that would judge. The others have the side
    `train`: their labels would teach the filter most. If one side has too few rows, there are more of the other one.

    The columns `function`, `task` and `fields` name the question for a label in `system.labels`.

    Rows that have a label, and further rows with the same values, are left out. The filter asks for the features of all
    rows of the query, once the query runs.
    """

    def __init__(self, services: Services, settings: Settings, wanted: NextLabels) -> None:
        """Plan the features.

        Raises:
            NotFoundError: there is no such filter.
            PermissionDeniedError: the user has no right to the filter.
            FlightLLMError: the query is wrong.
        """
        function = services.objects.function(wanted.filter)
        if function is None or function.fit is None:
            services.rights.check_usage("FUNCTION", wanted.filter)
            raise missing("filter", wanted.filter)
        services.rights.check_usage("FUNCTION", function.name, function.owner)
        self._learned = function.fit.learned
        self._wanted, self._function, self._services = wanted, function, services
        # A promise, or a NULL for want of money, would hide features.
        self._settings = replace(settings, quality=None, on_budget="fail")
        options = {"features": ", ".join(self._learned.features)}
        stored = replace(function.stored(), learned=None)
        self._asked = asked_features(stored, wanted.rows, options, services, self._settings, labelled=False)
        check_made_with(self._learned, services, question_of(self._asked.call), settings.layout)
        self.schema = _schema(function)

    @property
    def calls(self) -> Collection[AICall]:
        """Return the call that gives the features."""
        return self._asked.query.calls

    @property
    def fits(self) -> Sequence[LateFit]:
        """Return the fits to labels that the rows need."""
        return late_fits(self._asked.query.extracted)

    def explain(self) -> list[tuple[str, str]]:
        """Return a line for the rows to label, and the plan of the features."""
        told = f"up to {self._wanted.count:,} rows for the filter {self._function.name}"
        return [("rows to label", told), *self._asked.query.explain()]

    def drain(self, bindings: Bindings, record: QueryRecord) -> None:
        """Ask for all features, and forget them: for a prediction."""
        with closing(self._batches(bindings, record)) as batches:
            for _ in batches:
                pass

    def forget(self) -> None:
        """Drop nothing: no other table needs the rows."""

    def rows(self, bindings: Bindings, record: QueryRecord) -> pa.Table:
        """Ask for all features, and choose rows.

        Raises:
            FlightLLMError: the query fails, or has too many rows.
        """
        record = record.inner(self._wanted.rows)
        with closing(self._batches(bindings, record)) as batches:
            found = self._asked.found(batches, record)
        seen = _labelled(self._function, found.call, self._services, self._settings, record)
        return _chosen(self._function, self._learned, found, seen, self._wanted.count, self.schema)

    def _batches(self, bindings: Bindings, record: QueryRecord) -> Batches:
        return self._asked.query.run_on(bindings, record)


def _chosen(
    function: CreatedFunction,
    learned: Learned,
    found: Found,
    seen: set[tuple[str | None, ...]],
    count: int,
    schema: pa.Schema,
) -> pa.Table:
    """Return the rows to label; `seen` are the values that have a label."""
    columns = [found.columns[name] for name in function.parameters]
    places = []
    for place, values in enumerate(zip(*columns, strict=True)):
        if values not in seen and None not in values:
            seen.add(values)
            places.append(place)
    rows = found.rows.at(places)
    margins = learned.margins(rows) if places else np.zeros(0)
    draws = [draw(text_of([column[place] for column in columns])) for place in places]
    points = _points(learned, rows.inputs(learned.kind, learned.numbers))
    picked = _picked(margins, points, draws, count)
    answers = learned.decided(rows, [found.model[place] for place in places]) if places else []
    shown = [[column[places[at]] for at in picked] for column in columns]
    told = [answers[at] for at in picked]
    fields = [
        json.dumps(
            {name: column[places[at]] for name, column in zip(found.call.fields, columns, strict=True)},
            ensure_ascii=False,
        )
        for at in picked
    ]
    own: list[list[Any]] = [
        [None if one is None else _told(one) for one in told],
        [None if np.isnan(margins[at]) else float(margins[at]) for at in picked],
        ["train" if trains(draws[at]) else "judge" for at in picked],
        [found.call.function] * len(picked),
        [found.call.task or found.call.instruction] * len(picked),
        fields,
    ]
    lists = zip([*shown, *own], schema.types, strict=True)
    return pa.Table.from_arrays([pa.array(one, of) for one, of in lists], schema=schema)


def _schema(function: CreatedFunction) -> pa.Schema:
    own = ("answer", "margin", "side", "function", "task", "fields")
    types = {"margin": pa.float64()}
    return pa.schema([(name, types.get(name, pa.string())) for name in (*function.parameters, *own)])


def _picked(margins: np.ndarray, points: np.ndarray, draws: Sequence[bytes], count: int) -> list[int]:
    """Return the places of rows to label: one that trains, one that judges, and so on.

    A choice by margins is not random, so these rows must not judge. The rows that judge come in the order of
    their draws, which is random whatever the filter says about them.
    """
    training = np.array([at for at, drawn in enumerate(draws) if trains(drawn)], dtype=np.int64)
    judging = sorted((at for at, drawn in enumerate(draws) if not trains(drawn)), key=draws.__getitem__)
    wanted = max(count - count // 2, count - len(judging))
    taught = [int(training[at]) for at in next_rows(margins[training], points[training], wanted)] if draws else []
    pairs = zip_longest(taught, judging[: count - len(taught)])
    return [at for pair in pairs for at in pair if at is not None]


def _told(answer: object) -> str:
    """Return an answer as a label says it."""
    if isinstance(answer, bool):
        return "Yes" if answer else "No"
    return str(answer)


def _points(learned: Learned, inputs: np.ndarray) -> np.ndarray:
    return inputs if learned.kind == "score" else (inputs - learned.center) / learned.scale


def _labelled(
    function: CreatedFunction, call: AICall, services: Services, settings: Settings, record: QueryRecord
) -> set[tuple[str | None, ...]]:
    """Return the values that have a label; nothing if the user cannot read the labels."""
    if function.fit is None:
        return set()
    given = function.fit.query
    if given == PEOPLES_LABELS:
        given = own_labels(call)
    columns = ", ".join(f"CAST(given.{quoted(name)} AS VARCHAR)" for name in function.parameters)
    text = f"SELECT {columns} FROM ({given}\n) AS given"
    try:
        query = plan(ParsedText(text), services, settings)
        with closing(query.run(record)) as batches:
            return {tuple(row.values()) for batch in batches for row in batch.to_pylist()}
    except FlightLLMError:
        return set()
