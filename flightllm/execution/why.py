"""Tell why a row of a result has its answers: the prompts as they were sent, and the answers that the cache keeps."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice, permutations
from typing import Any

import pyarrow as pa

from flightllm.common.cells import rows_of
from flightllm.common.text import json_text
from flightllm.datafusion.run import Batches
from flightllm.engines.registry import OpenModel
from flightllm.errors import InvalidInputError, NotFoundError, PermissionDeniedError, UnsupportedError
from flightllm.execution.accounting import models_of, predict
from flightllm.execution.cancel_token import stopped_by
from flightllm.execution.query import Query
from flightllm.execution.staged_query import StagedQuery
from flightllm.functions.call import MODEL, AICall
from flightllm.functions.confidence import split
from flightllm.llm.engine import Choice
from flightllm.observe.query_record import QueryRecord
from flightllm.operators.call_context import ModelBinding
from flightllm.operators.rows import given_fields
from flightllm.plan.trace import TracedCall, traced
from flightllm.system_tables.labels import Fields, fields_of, key_of

_MOST_ORDERS = 720
"""The most orders of fields that are tried: those of six fields."""
_MOST_PROMPTS = 1_000_000
"""The most prompts without a kept answer that the run can pass: each takes microseconds, because no model is asked."""
_ENOUGH_ROWS = 10_000
"""The rows after which a search that has found the row ends; a client's first rows are among them."""
_LOST = "the row is not in the result any more: its table has changed, or its answers are not kept"
_UNSEEN = (
    "the row is not among the {rows:,} rows that could be compared, because the query has too many prompts without a"
    " kept answer: add a condition that only a few rows fulfil, such as WHERE id = 7, and run it first"
)


class WhyQuery:
    """The prompts and answers behind one row of a query. It asks no model; the query runs on the cached answers."""

    schema = pa.schema([pa.field("why", pa.string())])

    def __init__(self, query: Query, row: Sequence[str | None]) -> None:
        """`row` are the texts of a row as `rows_of` returns them.

        Raises:
            UnsupportedError: the prompts of a row cannot be told, for example because an aggregate is above the calls.
            InvalidInputError: the query has no AI calls, or a row of it has another number of values.
        """
        if not isinstance(query, StagedQuery):
            ai = bool(getattr(query, "calls", ()))
            reason = "its AI calls run as batch functions" if ai else "it has no AI calls"
            raise UnsupportedError(f"the query tells no prompts: {reason}")
        if query.services.rights.policies:
            raise UnsupportedError("the query tells no prompts, because row policies apply to you")
        if len(row) != len(query.schema):
            raise InvalidInputError(f"the row has {len(row)} values, but the query has {len(query.schema)} columns")
        self._calls: list[TracedCall] = []
        self._query = query.with_nodes(self._trace)
        self._width, self._row = len(query.schema), list(row)
        self._exact, self._similar = _Found(), _Found()
        answered = frozenset[int]().union(*(call.columns for call in self._calls))
        self._plain = [at for at in range(self._width) if at not in answered]
        """The columns that depend on no answer."""
        self._compared, self._whole = 0, True
        self._bindings: Mapping[str, ModelBinding] = {}
        self.services, self.settings, self.calls = query.services, query.settings, query.calls

    def _trace(self, root: Any) -> Any:
        node, self._calls = traced(root)
        return node

    def explain(self) -> list[tuple[str, str]]:
        """Return the plan of the query with its arguments."""
        return self._query.explain()

    def run(self, record: QueryRecord) -> Batches:
        """Yield one row with a JSON document about the row and its calls.

        Its keys are `rows` that look like this one, `several`, `by`, `whole`, `unlabelled` and `calls`.
        `by` is `values` if a row has all the values. It is `others` if only the columns without answers are equal,
        because an answer is not kept. `whole` tells whether all rows of the result were compared.
        `unlabelled` is the reason why the user cannot label the answers, or None.

        Raises:
            NotFoundError: the result has no such row any more, or the row is not among those that could be compared.
        """
        cancelled = record.cancelled.is_set
        with stopped_by(record.cancelled), models_of(self, cancelled) as models:
            figures = predict(self, models, cancelled, most_prompts=_MOST_PROMPTS, draws=1)
            whole = self._whole and figures.is_whole
            found = self._exact if self._exact.rows else self._similar
            if not found.rows:
                raise NotFoundError(_LOST if whole else _UNSEEN.format(rows=self._compared))
            values = found.values[0]
            calls = [told for call in self._calls if (told := self._told(call, models, values)) is not None]
        about = {"rows": found.rows, "several": len(found.values) > 1, "unlabelled": self._unlabelled()}
        told = {**about, "by": "values" if found is self._exact else "others", "whole": whole, "calls": calls}
        yield pa.RecordBatch.from_arrays([pa.array([json_text(told)])], schema=self.schema)

    def run_on(self, bindings: Mapping[str, ModelBinding], record: QueryRecord) -> Batches:
        """Run the query, and keep the arguments of the rows that look like the row."""
        self._bindings, self._exact, self._similar = bindings, _Found(), _Found()
        self._compared, self._whole = 0, True
        plain = [self._row[at] for at in self._plain]
        with closing(self._query.run_on(bindings, record)) as batches:
            for batch in batches:
                for row in rows_of(batch):
                    self._compared += 1
                    if row[: self._width] == self._row:
                        self._exact.add(row[self._width :])
                    elif plain and [row[at] for at in self._plain] == plain:
                        self._similar.add(row[self._width :])
                yield batch
                if self._exact.rows and self._compared >= _ENOUGH_ROWS:
                    self._whole = False
                    return

    def _told(
        self, call: TracedCall, models: Mapping[str | None, OpenModel], arguments: list[str | None]
    ) -> dict[str, Any] | None:
        ai = call.ai
        if ai.backend != MODEL:
            return None
        model, binding = models[ai.model], self._bindings[ai.binding]
        values = tuple(arguments[call.first : call.first + len(ai.fields)])
        parameters, constraint = ai.parameters, ai.parameters.constraint
        about = {
            "function": ai.function,
            "text": ai.text,
            "model": ai.model,
            "filter": self._filter(ai),
            "engine": model.engine.name,
            "columns": sorted(call.columns),
            "filters": call.filters,
            "calibrated": ai.labelled is not None or ai.by_rows,
            "parameters": {
                "temperature": parameters.temperature,
                "max_tokens": parameters.max_tokens,
                "top_p": parameters.top_p,
                "seed": parameters.seed,
                "reasoning": parameters.reasoning,
                "constraint": None if constraint is None else type(constraint).__name__.lower(),
                "options": list(constraint.options) if isinstance(constraint, Choice) else None,
            },
        }
        fields, answer, first = self._found(ai, binding, values)
        about["layout"] = "fields first" if first else "instruction first"
        if fields is None:
            return {**about, "prompt": None, "kept": False, "answer": None, "labels": []}
        prompt = ai.prompt(fields, fields_first=first, prompt_format=binding.prompt_format)
        told = {
            **about,
            "fields": [list(one) for one in fields],
            "prompt": prompt,
            "prompt_tokens": model.engine.count_tokens(prompt),
            "kept": answer is not None,
            **self._labels(ai, fields_of(fields)),
        }
        if answer is None:
            return {**told, "answer": None}
        text, probabilities = split(answer)
        return {
            **told,
            "answer": text,
            "answer_tokens": model.engine.count_tokens(text),
            "probabilities": [None if p != p else p for p in probabilities] or None,  # NaN is unknown  # noqa: PLR0124
        }

    def _filter(self, ai: AICall) -> dict[str, Any] | None:
        """Return the name and the parameters of the learned filter that makes a call, or None."""
        function = self.services.objects.function(ai.learned_by)
        if function is None or function.fit is None:
            return None
        return {"name": function.name, "parameters": list(function.parameters)}

    def _unlabelled(self) -> str | None:
        try:
            self.services.rights.check_writer("labelling an answer")
        except PermissionDeniedError as error:
            return str(error)
        return None

    def _labels(self, ai: AICall, fields: Fields) -> dict[str, Any]:
        """Return what names the answer to people's labels, and the labels that the user can see, the oldest first."""
        named = {"function": ai.function, "task": ai.task or ai.instruction, "fields": fields}
        rights = self.services.rights
        who = rights.principal.name
        found = self.services.labels.of(key_of(ai.function, ai.task or ai.instruction, fields))
        seen = [one for one in found if rights.unlimited or one.user == who]
        return {"subject": named, "labels": [{**one.shown(), "own": one.user == who} for one in seen]}

    def _found(
        self, ai: AICall, binding: ModelBinding, values: tuple[str | None, ...]
    ) -> tuple[list[tuple[str, str]] | None, str | None, bool]:
        """Return the fields of the prompt in their order, the kept answer, and whether the fields come first.

        A row without a call has no fields. An operator can order the fields of each prompt, and the price can choose
        the layout. The order and the layout that have a kept answer are those that were sent.
        """
        layouts = (False, True) if self.settings.layout == "auto" else (self.settings.fields_first,)
        given = None
        for fields_first in layouts:
            keys = binding.keys(ai, fields_first=fields_first)
            for fields in islice(_orders(ai, values), _MOST_ORDERS):
                given = given or fields
                key = keys.key(fields)
                if (answer := self.services.cache.peek([key]).get(key)) is not None:
                    return fields, answer, fields_first
        return given, None, layouts[0]


@dataclass(slots=True)
class _Found:
    """Rows that look like the row, and the first two different lists of their arguments."""

    rows: int = 0
    values: list[list[str | None]] = field(default_factory=list)

    def add(self, arguments: list[str | None]) -> None:
        """Count a row."""
        self.rows += 1
        if len(self.values) < 2 and arguments not in self.values:
            self.values.append(arguments)


def _orders(ai: AICall, values: tuple[str | None, ...]) -> Iterator[list[tuple[str, str]]]:
    """Yield the fields of a prompt in each order, the written one first; nothing if the row has no prompt."""
    for order in permutations(range(len(ai.fields))):
        named = [(ai.fields[at], at, at in ai.required, at in ai.lists) for at in order]
        fields = given_fields(named, values)
        if fields is None:
            return
        yield fields
