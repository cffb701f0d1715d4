"""Learn a filter from labelled rows: read their features by a query, fit, and certify."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from flightllm.catalog.functions import CreatedFit, told
from flightllm.common.names import quoted
from flightllm.common.stopping import text_is_read
from flightllm.config.session_settings import Settings
from flightllm.datafusion.run import Batches
from flightllm.errors import AICallError, CancelledError, ConfigError, InvalidInputError, MissingExtraError
from flightllm.evaluation.truth import Question, read_labels
from flightllm.execution.accounting import FIT
from flightllm.execution.batch_query import BatchQuery
from flightllm.execution.cancel_token import stop_of_planning
from flightllm.execution.context import Services
from flightllm.execution.late_query import LateQuery
from flightllm.execution.learned_models import embedding_of, engine_of
from flightllm.execution.plain_query import PlainQuery
from flightllm.execution.planning import plan
from flightllm.execution.staged_query import StagedQuery
from flightllm.functions.call import AICall
from flightllm.functions.learned import kind_of, matrix, options_of, question_of
from flightllm.functions.stored import LearnedUse, StoredFunction
from flightllm.learning.fitting import FITTED, TARGETS, Fitted, Labels, Wanted, check_labels, fitted, text_of
from flightllm.learning.learned import FEATURES, Feature, Kind, LateFit, Learned, Rows
from flightllm.learning.regression import check_installed
from flightllm.observe.query_record import CancelToken, QueryRecord
from flightllm.sql.literals import text_literal
from flightllm.sql.names import PEOPLES_LABELS, parse_name
from flightllm.sql.parsed_text import ParsedText

FEATURES_OF: Final = "__features"
"""The name of the function that returns the features of a row, while a filter is fitted."""
_MOST_LABELS: Final = 100_000
OPTIONS: Final = (*TARGETS, "confidence", "features")


@dataclass(frozen=True, slots=True)
class Found:
    """The rows of a query: their features, their own columns as texts, and the call that gave the features."""

    rows: Rows
    columns: Mapping[str, Sequence[str | None]]
    model: Sequence[str | None]
    """The model's own answers as SQL writes them."""
    features: tuple[Feature, ...]
    call: AICall


def wanted_of(options: Mapping[str, str | int | float | bool]) -> Wanted:
    """Return what the options of WITH ask for.

    Raises:
        InvalidInputError: an option is unknown, or not a share above 0 and below 1.
    """
    shares: dict[str, float] = {}
    for name, value in options.items():
        if name not in OPTIONS:
            raise InvalidInputError(f"a learned filter has no option {name}: it has {', '.join(OPTIONS)}")
        if name == "features":
            continue
        try:
            shares[name] = float(value)
        except ValueError:
            shares[name] = 0.0
        if isinstance(value, bool) or not 0.0 < shares[name] < 1.0:
            raise InvalidInputError(f"{name} must be a number above 0 and below 1, not {value}")
    confidence = shares.pop("confidence", 0.95)
    return Wanted(shares, confidence)


def learn(
    function: StoredFunction,
    query: str,
    options: Mapping[str, str | int | float | bool],
    services: Services,
    settings: Settings,
    record: QueryRecord,
    look: Callable[[str], int] = lambda _: 1,
) -> tuple[CreatedFit, Fitted]:
    """Fit a filter to the labels that a query returns: columns named as the parameters, and a column `label`.

    `look` counts a look at a question, and returns how many there were, this one included. The default counts nothing.

    Raises:
        InvalidInputError: the query lacks a column, a label is not an answer, there are too few or too many labels, or
            a target is not certified.
        MissingExtraError: scikit-learn is not installed.
        FlightLLMError: the query or the call is wrong.
    """
    wanted = wanted_of(options)
    check_installed(FITTED)  # before a model is asked, because each answer costs
    asked = asked_features(function, query, options, services, settings, labelled=True)
    kind = kind_of(asked.call)
    check_targets(wanted, asked.call)
    given_labels(asked, services, settings, record.cancelled)  # before a model is asked
    with closing(asked.query.run(record)) as batches:
        found = asked.found(batches, record)
    labels = labels_of(found, kind)
    done = fitted(labels, kind, found.features, options_of(found.call), wanted, lambda: look(question_of(found.call)))
    if done.missed:
        raise InvalidInputError(
            f"the filter is not stored, because {done.missed}: label more rows, or lower the target. Without targets,"
            " the filter is stored with the figures that it reaches"
        )
    learned = replace(
        done.learned,
        embedding=embedding_of(services) if "embedding" in found.features else "",
        model=found.call.model or "",
        engine=engine_of(found.call.model, services) if "model" in found.features else "",
        question=question_of(found.call),
        layout=settings.layout if "model" in found.features else "",
    )
    return CreatedFit(query, options, labels.digest, learned), replace(done, learned=learned)


def check_targets(wanted: Wanted, call: AICall) -> None:
    """Check that the answers of a call have the figures of the targets.

    Raises:
        InvalidInputError: they lack one.
    """
    own = {"filter": TARGETS, "label": ("accuracy",), "score": ()}[kind_of(call)]
    if unknown := [name for name in wanted.targets if name not in own]:
        raise InvalidInputError(f"{call.function} cannot certify {unknown[0]}: it has {', '.join(own) or 'no targets'}")


def labels_of(found: Found, kind: Kind) -> Labels:
    """Return the rows that have a label; NULL is a missing label, and so is NaN, as pandas writes it.

    Raises:
        InvalidInputError: a label is not an answer of the call.
    """
    options = options_of(found.call)
    read = labels_in(found.columns["label"], kind, options)
    places = [place for place, label in enumerate(read) if label is not None]
    labels = [label for label in read if label is not None]
    values = list(zip(*(found.columns[name] for name in found.columns if name != "label"), strict=True))
    texts = [text_of(values[place]) for place in places]
    return Labels(found.rows.at(places), labels, texts, [found.model[place] for place in places])


def labels_in(column: Sequence[str | None], kind: Kind, options: Sequence[str]) -> list[str | None]:
    """Return the labels in a column as the fit takes them; None for a missing label.

    Raises:
        InvalidInputError: a label is not an answer of the call.
    """
    given = [None if _is_missing(one, options) else one for one in column]
    read = read_labels(_question(kind, options), given)
    return [
        None if label is None else _label(label, str(one), kind, options)
        for label, one in zip(read, given, strict=True)
    ]


def _is_missing(given: str | None, options: Sequence[str]) -> bool:
    return given is None or (given.strip().lower() == "nan" and given not in options)


def _question(kind: Kind, options: Sequence[str]) -> Question:
    if kind == "score":
        return Question("numbers", low=float(options[0]), high=float(options[-1]))
    return Question("yes/no") if kind == "filter" else Question("classes", tuple(options))


def _label(value: Any, given: str, kind: Kind, options: Sequence[str]) -> str:
    """Return a label as the fit takes it.

    Raises:
        InvalidInputError: a number is out of range.
    """
    if kind == "score":
        if not float(options[0]) <= value <= float(options[-1]):
            raise InvalidInputError(f"the label {given[:40]} is not a number from {options[0]} to {options[-1]}")
        return given.strip()
    return str(value) if kind == "label" else "Yes" if value else "No"


@dataclass(frozen=True, slots=True)
class AskedFeatures:
    """A planned query of features; the models are not asked yet."""

    query: BatchQuery | StagedQuery
    columns: Mapping[str, str]
    """The column of each parameter, and of the label."""
    features: tuple[Feature, ...]
    named: bool
    """The options name the features."""
    call: AICall
    rows: str
    """The text of the query of rows."""
    with_features: Callable[[tuple[Feature, ...]], BatchQuery | StagedQuery]
    """Plans the same query with other features."""

    def found(self, batches: Batches, record: QueryRecord) -> Found:
        """Return the features, from the batches of the query.

        Raises:
            InvalidInputError: there are too many rows, or there is no feature.
            CancelledError: the statement was cancelled.
        """
        features = self.features
        table = pa.Table.from_batches(_bounded(batches), self.query.schema)
        if record.cancelled.is_set():
            raise CancelledError("the statement was cancelled")
        found = table[FEATURES_OF].combine_chunks()
        probabilities, vectors = found.field("probabilities"), found.field("vector")
        count = len(options_of(self.call))
        rows = Rows(
            matrix(probabilities, count if "model" in features else 0), matrix(vectors, _width(vectors, features))
        )
        if "model" in features and table.num_rows and not rows.known.any() and not self.named:
            # an engine without probabilities: the vectors are enough
            features = tuple(one for one in features if one != "model")
            rows = Rows(rows.probabilities[:, :0], rows.vectors)
        if not features or (table.num_rows and not rows.known.any()):
            if kind_of(self.call) == "score":
                raise InvalidInputError(
                    "there is nothing to learn from: the model gives no probabilities. Choose a model that gives them"
                )
            raise InvalidInputError(
                "there is nothing to learn from: the model gives no probabilities, and there are no vectors. Configure"
                " [embedding], or choose a model that gives probabilities"
            )
        shown = {name: table[name].to_pylist() for name in self.columns}
        return Found(rows, shown, found.field("answer").to_pylist(), features, self.call)


def asked_features(
    function: StoredFunction,
    query: str,
    options: Mapping[str, str | int | float | bool],
    services: Services,
    settings: Settings,
    *,
    labelled: bool,
    loads: bool = True,
) -> AskedFeatures:
    """Plan the query of the features of rows, whose columns are named as the function's parameters.

    Rows without an answer have unknown features. With `labelled`, only rows with a label are asked about. The embedding
    model is loaded, unless `loads` is false.

    Raises:
        InvalidInputError: the query lacks a column.
        FlightLLMError: the query or the call is wrong.
    """
    services = replace(services, on_error="null")
    call = call_of(function, services, settings)
    features, chosen = _features(options, kind_of(call), services, loads=loads)
    query = own_labels(call) if query == PEOPLES_LABELS else query
    columns = _columns(plan(ParsedText(query), services, settings).schema.names, function.parameters, labelled=labelled)
    texts = ", ".join(f"CAST(given.{quoted(of)} AS VARCHAR) AS {quoted(name)}" for name, of in columns.items())
    values = ", ".join(f"given.{quoted(columns[name])}" for name in function.parameters)
    text = f"SELECT {texts}, {FEATURES_OF}({values}) AS {FEATURES_OF} FROM ({query}\n) AS given"
    if labelled:
        text += f" WHERE given.{quoted(columns['label'])} IS NOT NULL"

    def planned(features: tuple[Feature, ...]) -> BatchQuery | StagedQuery:
        stored = StoredFunction(
            FEATURES_OF, function.parameters, function.body, services.rights.principal.name, LearnedUse(features)
        )
        registry = services.functions.with_stored({**services.functions.stored, FEATURES_OF: stored})
        found = plan(ParsedText(text), replace(services, functions=registry), settings)
        if not isinstance(found, BatchQuery | StagedQuery):
            raise InvalidInputError("rows of an evaluation cannot be asked about: keep them by CREATE TABLE … AS first")
        return found

    return AskedFeatures(planned(features), columns, features, chosen, call, query, planned)


def call_of(function: StoredFunction, services: Services, settings: Settings) -> AICall:
    """Return the call of a function's expression."""
    own = StoredFunction(FEATURES_OF, function.parameters, function.body, services.rights.principal.name)
    stored = {**services.functions.stored, FEATURES_OF: own}
    given = ", ".join(f"CAST(NULL AS VARCHAR) AS {quoted(name)}" for name in function.parameters)
    text = f"SELECT {FEATURES_OF}({', '.join(map(quoted, function.parameters))}) AS x FROM (SELECT {given}) AS given"
    services = replace(services, functions=services.functions.with_stored(stored))
    query = plan(ParsedText(text), services, settings)
    if isinstance(query, LateQuery):
        raise InvalidInputError(f"the expression of {function.name} reads an evaluation: write an AI call")
    call = next(iter(query.extracted.calls.values()))
    return replace(call, text=function.body)  # errors quote what the user wrote


@dataclass(frozen=True, slots=True)
class GivenLabels:
    """How many rows a query of labels returns, how many have a label, and how many different values these have."""

    rows: int
    labelled: int
    values: int


def given_labels(
    asked: AskedFeatures, services: Services, settings: Settings, cancelled: CancelToken
) -> GivenLabels | None:
    """Read the labels, ask no model, and check that a fit can take them; None if the rows themselves ask models.

    Raises:
        InvalidInputError: a label is not an answer of the call, or there are too few or too many labels.
        CancelledError: the statement was cancelled.
    """
    columns = [f"CAST(given.{quoted(of)} AS VARCHAR) AS {quoted(name)}" for name, of in asked.columns.items()]
    sql = f"SELECT {', '.join(columns)} FROM ({asked.rows}\n) AS given"
    query = plan(ParsedText(sql), services, settings)
    if not isinstance(query, PlainQuery):
        return None
    total = 0

    def with_label(batches: Batches) -> Batches:
        nonlocal total
        for batch in batches:
            total += batch.num_rows
            yield batch.filter(pc.is_valid(batch["label"]))

    with closing(query.run(QueryRecord("", sql, cancelled))) as batches:
        table = pa.Table.from_batches(_bounded(with_label(batches)), query.schema)
    if cancelled.is_set():
        raise CancelledError("the statement was cancelled")
    kind = kind_of(asked.call)
    read = labels_in(table["label"].to_pylist(), kind, options_of(asked.call))
    found = zip(*(table[name].to_pylist() for name in asked.columns if name != "label"), strict=True)
    texts = [text_of(values) for values, label in zip(found, read, strict=True) if label is not None]
    labels = [label for label in read if label is not None]
    check_labels(labels, texts, kind)
    return GivenLabels(total, len(labels), len(set(texts)))


def _bounded(batches: Batches) -> Batches:
    count = 0
    for batch in batches:
        count += batch.num_rows
        if count > _MOST_LABELS:
            raise InvalidInputError(f"the query returns more than {_MOST_LABELS:,} rows: add a LIMIT")
        yield batch


def _width(vectors: pa.Array, features: Sequence[Feature]) -> int:
    if "embedding" not in features:
        return 0
    return int(max(vectors.value_lengths().drop_null().to_pylist(), default=0))


def _features(
    options: Mapping[str, str | int | float | bool], kind: Kind, services: Services, *, loads: bool = True
) -> tuple[tuple[Feature, ...], bool]:
    """Return the features to use, and whether the options name them. A score takes only the model's probabilities.

    Raises:
        InvalidInputError: a feature is unknown, or of no use for a score.
        ConfigError, MissingExtraError: the options name the embedding, and there is no embedding model.
    """
    embeds = services.backends.embeddings if loads else services.backends.late_embeddings
    if "features" in options:
        named = [one.strip().lower() for one in str(options["features"]).split(",") if one.strip()]
        if not named or not set(named) <= set(FEATURES):
            raise InvalidInputError(f"features must be one or more of {', '.join(FEATURES)}")
        if kind == "score" and "embedding" in named:
            raise InvalidInputError(
                "ai_score learns only from the model's probabilities: leave out features, or write features = 'model'"
            )
        if "embedding" in named:
            embeds()
        return tuple(one for one in FEATURES if one in named), True
    if kind == "score":
        return ("model",), True
    try:
        embeds()
    except (ConfigError, MissingExtraError):
        return ("model",), False
    return FEATURES, False


def _columns(names: Sequence[str], parameters: Sequence[str], *, labelled: bool) -> Mapping[str, str]:
    """Return the column of each parameter, and of `label`: by its name, or else by the order of the columns.

    The order decides only if the query has no further column, and no named column is in another's place.

    Raises:
        InvalidInputError: the query has no column for one of them.
    """
    wanted = [*parameters, *(["label"] if labelled else [])]
    absent = [name for name in wanted if name not in names]
    if not absent:
        return {name: name for name in wanted}
    by_order = dict(zip(wanted, names, strict=False))
    if len(names) != len(wanted) or any(by_order[name] != name for name in wanted if name in names):
        raise InvalidInputError(
            f"the query has no column {absent[0]}: it needs {', '.join(wanted)}, and has {', '.join(names)}. Name the"
            " columns by AS, or return as many, in this order"
        )
    return by_order


def labelled(services: Services, layout: str, function: StoredFunction, table: str, call: AICall) -> LearnedUse:
    """Return a fit of a call to the labels in a table, which has a column for each field and a column `label`.

    `system.labels` means the labels that people gave to this question. A fit asks models, so the query makes it when it
    runs, within its budget and its record. The fit is kept until the labels change.

    Raises:
        FlightLLMError: there is no such table, a column is missing, or the labels teach no filter.
    """
    text_is_read()
    own = table.lower() == PEOPLES_LABELS
    query = own_labels(call) if own else _columns_of(table, function.parameters, services)
    listed = plan(ParsedText(query), services, Settings())
    if not isinstance(listed, PlainQuery):
        raise AICallError(f"the labels in {table} come from AI calls: keep them by CREATE TABLE … AS first")
    with closing(listed.run(_record(query))) as batches:
        rows = sorted(repr(row) for batch in batches for row in batch.to_pylist())
    digest = blake2b("\x1e".join(rows).encode(errors="replace"), digest_size=16).hexdigest()
    made_with = (question_of(call), layout, embedding_of(services), engine_of(call.model, services))
    key = (function.body, digest, *made_with, services.rights.answers)

    def made(settings: Settings, record: QueryRecord) -> Learned:
        if (kept := services.fits.of(key)) is not None and isinstance(kept.fit, Learned):
            return kept.fit  # another call of the query made it
        settings = replace(settings, layout=layout or settings.layout)
        fit, done = learn(function, query, {}, services, settings, record.inner(query, FIT))
        for note in done.notes:
            record.warn(note)
        services.fits.keep(key, LearnedUse(fit.learned.features, fit.learned, told(done.figures)))
        return fit.learned

    if found := services.fits.of(key):
        return found
    features, _ = _features({}, kind_of(call), services)
    about = f"{function.name} asks about the {len(rows):,} rows of {table} first, by {named_features(features)}"

    def asked(settings: Settings) -> BatchQuery | StagedQuery | None:
        if "model" not in features:
            return None
        settings = replace(settings, layout=layout or settings.layout)
        return asked_features(function, query, {"features": "model"}, services, settings, labelled=True).query

    return LearnedUse(features, LateFit(kind_of(call), features, about, asked, made))


def named_features(features: Sequence[Feature]) -> str:
    """Return the features in words, and what a prediction leaves out."""
    named = f"the {'feature' if len(features) == 1 else 'features'} {', '.join(features)}"
    return f"{named}; the prediction leaves out the vectors" if "embedding" in features else named


def _record(query: str) -> QueryRecord:
    return QueryRecord("", query, stop_of_planning())


def _columns_of(table: str, fields: Sequence[str], services: Services) -> str:
    """Return the query of the labelled rows of a table.

    Raises:
        InvalidInputError: the table has no column of a field's name, or no column `label`.
        FlightLLMError: there is no such table, or the user has no right to it.
    """
    source = parse_name(table).sql
    there = plan(ParsedText(f"SELECT * FROM {source}"), services, Settings()).schema.names
    wanted = (*fields, "label")
    if absent := [name for name in wanted if name not in there]:
        instead = next((name for name in there if name not in wanted), "name")
        raise InvalidInputError(
            f"the labels in {table} have no column {absent[0]}: they need the columns {', '.join(wanted)}, and have"
            f" {', '.join(there)}. Name the fields of the call as the columns, as in {instead} => …"
        )
    return f"SELECT {', '.join(map(quoted, wanted))} FROM {source}"


def own_labels(call: AICall) -> str:
    """Return the query of the labels of a question in `system.labels`; a field with several values has no text."""
    fields = ", ".join(f"json_get_str(fields, {text_literal(field)}) AS {quoted(field)}" for field in call.fields)
    task = text_literal(call.task or call.instruction)
    return (
        f"SELECT {fields}, label FROM system.labels WHERE function = {text_literal(call.function)} AND task = {task}"
        " AND label IS NOT NULL"
    )
