"""EXPLAIN of a fit: the labelled rows, the features, and the predicted work of the model. No model is asked."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing

from flightllm.common.names import quoted
from flightllm.config.session_settings import Settings
from flightllm.datafusion.run import Batches
from flightllm.engines.registry import OpenModel
from flightllm.execution.accounting import AskingQuery
from flightllm.execution.cancel_token import stop_of_planning
from flightllm.execution.context import Services
from flightllm.execution.learn import asked_features, check_targets, labels_in, named_features, wanted_of
from flightllm.execution.plain_query import PlainQuery
from flightllm.execution.planning import plan
from flightllm.functions.call import AICall
from flightllm.functions.learned import kind_of, options_of
from flightllm.functions.stored import StoredFunction
from flightllm.observe.query_record import QueryRecord
from flightllm.operators.call_context import ModelBinding
from flightllm.plan.parts import PlanPart
from flightllm.sql.parsed_text import ParsedText


class PlannedFit:
    """The fit of a filter, which EXPLAIN shows. A prediction leaves out the vectors of the labelled rows."""

    def __init__(
        self,
        function: StoredFunction,
        query: str,
        options: Mapping[str, str | int | float | bool],
        services: Services,
        settings: Settings,
    ) -> None:
        """Plan the features.

        Raises:
            InvalidInputError: the query lacks a column, or an option is wrong.
            FlightLLMError: the query or the call is wrong.
        """
        self.services, self.settings = services, settings
        wanted = wanted_of(options)
        self._asked = asked_features(function, query, options, services, settings, labelled=True, loads=False)
        check_targets(wanted, self._asked.call)
        self._query = self._asked.query
        self.path = self._query.path
        own = {"features": "model"}
        self._model = (
            asked_features(function, query, own, services, settings, labelled=True).query
            if "model" in self._asked.features
            else None
        )

    @property
    def calls(self) -> Collection[AICall]:
        """Return the calls of the model."""
        return () if self._model is None else self._model.calls

    def run(self, record: QueryRecord) -> Batches:
        """Ask nothing, because EXPLAIN runs no fit."""
        del record
        yield from ()

    def run_on(self, bindings: Mapping[str, ModelBinding], record: QueryRecord) -> Batches:
        """Ask the model about the labelled rows: for a prediction."""
        if self._model is not None:
            yield from self._model.run_on(bindings, record)

    def explain(self) -> list[tuple[str, str]]:
        """Return a line about the labels and the features, and the plan of the features."""
        return [
            ("fit of labels", f"{self._labels()}, by {named_features(self._asked.features)}"),
            *self._query.explain(),
        ]

    def parts(self) -> Sequence[PlanPart]:
        """Return the parts of the plan of the features."""
        return self._query.parts()

    def variants(self, models: Mapping[str | None, OpenModel]) -> Iterator[tuple[str, Callable[[], AskingQuery]]]:
        """Yield each optimization of the model's calls."""
        if self._model is not None:
            yield from self._model.variants(models)

    def _labels(self) -> str:
        """Return how many rows have a label, from a query that asks no model.

        Raises:
            InvalidInputError: a label is not an answer of the call.
        """
        columns = [f"CAST(given.{quoted(name)} AS VARCHAR)" for name in self._asked.columns.values()]
        sql = f"SELECT {', '.join(columns)} FROM ({self._asked.rows}\n) AS given"
        query = plan(ParsedText(sql), self.services, self.settings)
        if not isinstance(query, PlainQuery):
            return "rows that ask models, so their number is not known"
        with closing(query.run(QueryRecord("", sql, stop_of_planning()))) as batches:
            found = [row for batch in batches for row in zip(*(one.to_pylist() for one in batch.columns), strict=True)]
        call = self._asked.call
        labels = labels_in([row[-1] for row in found], kind_of(call), options_of(call))
        values = {row[:-1] for row, label in zip(found, labels, strict=True) if label is not None}
        count = sum(label is not None for label in labels)
        return f"{count:,} labelled rows of {len(found):,}, with {len(values):,} different values"
