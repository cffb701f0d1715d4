"""EXPLAIN of a fit: the labelled rows, the features, and the predicted work of the model. No model is asked."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from flightllm.config.session_settings import Settings
from flightllm.datafusion.run import Batches
from flightllm.engines.registry import OpenModel
from flightllm.execution.accounting import AskingQuery
from flightllm.execution.batch_query import BatchQuery
from flightllm.execution.cancel_token import stop_of_planning
from flightllm.execution.context import Services
from flightllm.execution.learn import asked_features, check_targets, given_labels, named_features, wanted_of
from flightllm.execution.staged_query import StagedQuery
from flightllm.functions.call import AICall
from flightllm.functions.stored import StoredFunction
from flightllm.observe.query_record import QueryRecord
from flightllm.operators.call_context import ModelBinding
from flightllm.plan.parts import PlanPart


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
        self._model = self._of_model()

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

    def _of_model(self) -> BatchQuery | StagedQuery | None:
        """Return the plan of the model's features; None if the fit uses vectors only."""
        match self._asked.features:
            case ("model",):
                return self._query
            case features if "model" in features:
                return self._asked.with_features(("model",))
        return None

    def _labels(self) -> str:
        """Return how many rows have a label, from a query that asks no model.

        Raises:
            InvalidInputError: a label is not an answer of the call, or there are too few or too many labels.
        """
        given = given_labels(self._asked, self.services, self.settings, stop_of_planning())
        if given is None:
            return "rows that ask models, so their number is not known"
        return f"{given.labelled:,} labelled rows of {given.rows:,}, with {given.values:,} different values"
