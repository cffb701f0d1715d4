"""A fit to labels, and its decisions: numbers only, so that a file of weights can run no code."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias
from uuid import uuid4
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

Kind = Literal["filter", "label", "score"]
"""The answers that are learned: yes or no, one of several labels, or a number."""
KINDS: Final[tuple[Kind, ...]] = ("filter", "label", "score")
Feature = Literal["embedding", "model"]
FEATURES: Final[tuple[Feature, ...]] = ("embedding", "model")
"""The inputs: the vector of the row's text, and the model's log probabilities."""
Floats: TypeAlias = NDArray[np.float64]
Answer: TypeAlias = bool | str | float | None
"""An answer of a filter, a class or a number; None if nobody knows it."""
_LEAST: Final = 1e-6
"""The least probability in a logarithm: a model that is quite sure must not outweigh everything else."""
_PARTS: Final = 4_096
"""Numbers are multiples of 1 / `_PARTS`, so that sums of them are exact, whatever the order of the rows."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The features of some rows. `probabilities` and `vectors` have a row of NaN where a feature is unknown."""

    probabilities: Floats
    """For each row, the probabilities of the options; no columns if the model is not asked."""
    vectors: Floats
    """For each row, its vector; no columns without an embedding model."""

    def at(self, places: Sequence[int] | NDArray[np.int64] | NDArray[np.bool_]) -> Rows:
        """Return the features of some of the rows."""
        return Rows(self.probabilities[places], self.vectors[places])

    @property
    def known(self) -> NDArray[np.bool_]:
        """Return for each row whether all its features are known."""
        parts = np.concatenate([self.probabilities, self.vectors], axis=1)
        return np.asarray(~np.isnan(parts).any(axis=1))

    def inputs(self, kind: Kind, numbers: Sequence[float] = ()) -> Floats:
        """Return the inputs of a fit: vector, then log odds, log probabilities, or the expected number.

        Example for a filter without vectors: the probabilities of Yes and No `[0.9, 0.1]` become `[2.197]`.
        """
        found = np.clip(self.probabilities, _LEAST, 1.0)
        if not found.shape[1]:
            return self.vectors
        if kind == "filter":
            model = (np.log(found[:, 0]) - np.log(found[:, 1]))[:, None]
        elif kind == "label":
            model = np.log(found) - np.log(found).mean(axis=1, keepdims=True)
        else:
            model = (self.probabilities @ np.asarray(numbers))[:, None]
        return np.concatenate([self.vectors, model], axis=1)


@dataclass(frozen=True, eq=False)
class Learned:
    """A fit. `weights` has a line for each class (one line for a filter), and an entry for each input.

    An input x counts as (x - center) / scale. For a score, `knots` are the points of a line that never falls.
    """

    kind: Kind
    features: tuple[Feature, ...]
    options: tuple[str, ...]
    """The texts of the model's options in their order, as answers show them."""
    classes: tuple[str, ...]
    """The classes that the labels have, for labels; otherwise empty."""
    weights: Floats
    intercepts: Floats
    center: Floats
    scale: Floats
    cut: float = 0.0
    """A filter is true where its score is above this."""
    knots: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    embedding: str = ""
    """The embedding model that gave the vectors; empty without vectors."""
    model: str = ""
    """The name in SQL of the model that gave the probabilities; empty for the server's own model."""
    engine: str = ""
    """The engine behind this name; empty without probabilities."""
    question: str = ""
    """A text that tells the question apart from others; empty if nobody knows it."""
    layout: str = ""
    """The setting by which the prompts were written; empty without probabilities."""

    @property
    def id(self) -> str:
        """Return a name that follows from the content."""
        return sha256(json.dumps(self.as_json(), sort_keys=True).encode()).hexdigest()[:16]

    @property
    def numbers(self) -> tuple[float, ...]:
        """Return the numbers of the options of a score."""
        return tuple(map(float, self.options)) if self.kind == "score" else ()

    def scores(self, rows: Rows) -> Floats:
        """Return the score of each row and class before the cut, as log odds; NaN where a feature is unknown."""
        inputs = rows.inputs(self.kind, self.numbers)
        if self.kind == "score":
            found = np.interp(inputs[:, -1], self.knots[:, 0], self.knots[:, 1])
            return np.where(np.isnan(inputs[:, -1]), np.nan, found)[:, None]
        with np.errstate(invalid="ignore"):
            return np.asarray(((inputs - self.center) / self.scale) @ self.weights.T + self.intercepts)

    def answers(self, rows: Rows) -> list[bool | str | float | None]:
        """Return the answer for each row; None where a feature is unknown."""
        scores = self.scores(rows)
        known: NDArray[np.bool_] = np.asarray(~np.isnan(scores).any(axis=1))
        if self.kind == "filter":
            made: list[bool | str | float] = [bool(one) for one in scores[:, 0] > self.cut]
        elif self.kind == "label":
            made = [self.classes[at] for at in np.where(known[:, None], scores, 0.0).argmax(axis=1)]
        else:
            made = [
                round(_PARTS * float(one)) / _PARTS if here else 0.0
                for one, here in zip(scores[:, 0], known, strict=True)
            ]
        return [one if there else None for one, there in zip(made, known, strict=True)]

    def decided(self, rows: Rows, model: Sequence[str | None]) -> list[bool | str | float | None]:
        """Return the answer for each row: the model's own answer, as SQL writes it, where a feature is unknown."""
        answers = self.answers(rows)
        return [self._read(own) if one is None else one for one, own in zip(answers, model, strict=True)]

    def _read(self, text: str | None) -> bool | str | float | None:
        return read(self.kind, text)

    def margins(self, rows: Rows) -> Floats:
        """Return how far each row is from another answer: 0 at the cut; NaN where a feature is unknown."""
        scores = self.scores(rows)
        if self.kind == "label" and scores.shape[1] > 1:
            ordered = np.sort(scores, axis=1)
            return ordered[:, -1] - ordered[:, -2]
        if self.kind == "filter":
            return np.abs(scores[:, 0] - self.cut)
        spread = np.clip(rows.probabilities, _LEAST, 1.0)
        return np.asarray((spread * np.log(spread)).sum(axis=1))  # the least sure rating first

    def as_json(self) -> dict[str, Any]:
        """Return the fit as a file has it."""
        return {
            "kind": self.kind,
            "features": list(self.features),
            "options": list(self.options),
            "classes": list(self.classes),
            "cut": self.cut,
            **{name: getattr(self, name) for name in _MADE_WITH},
            **{name: _packed(getattr(self, name)) for name in _ARRAYS},
        }

    @classmethod
    def of_json(cls, written: Mapping[str, Any]) -> Learned:
        """Read what `as_json` returned.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        kind, features = written["kind"], tuple(written["features"])
        if kind not in KINDS or not set(features) <= set(FEATURES):
            raise ValueError(f"a fit of the kind {kind!r} with the features {features!r}")
        arrays = {name: _unpacked(written[name]) for name in _ARRAYS}
        lines, width = arrays["weights"].shape
        if arrays["intercepts"].shape != (lines,) or any(arrays[one].shape != (width,) for one in ("center", "scale")):
            raise ValueError("the weights of a fit have different sizes")
        options, classes = tuple(map(str, written["options"])), tuple(map(str, written["classes"]))
        models = {name: str(written[name]) if name in _MODELS else str(written.get(name, "")) for name in _MADE_WITH}
        named: dict[str, Any] = {**models, **arrays}
        return cls(kind, features, options, classes, cut=float(written["cut"]), **named)


_MODELS: Final = ("embedding", "model", "engine")
_MADE_WITH: Final = (*_MODELS, "question", "layout")
_ARRAYS: Final = ("weights", "intercepts", "center", "scale", "knots")


def _packed(array: Floats) -> dict[str, Any]:
    return {"shape": list(array.shape), "float32": base64.b64encode(array.astype("<f4").tobytes()).decode()}


def _unpacked(written: Mapping[str, Any]) -> Floats:
    values = np.frombuffer(base64.b64decode(written["float32"], validate=True), "<f4").astype(np.float64)
    if not np.isfinite(values).all():
        raise ValueError("a weight is not a finite number")
    return values.reshape([int(one) for one in written["shape"]])


def read(kind: Kind, text: str | None) -> bool | str | float | None:
    """Return a model's own answer as a value, from the text that SQL writes."""
    if text is None or kind == "label":
        return text
    return text == "true" if kind == "filter" else float(text)


class LateFit:
    """A fit that its query makes when it runs, because the fit asks models. Until then, only predictions read it."""

    def __init__(
        self,
        kind: Kind,
        features: tuple[Feature, ...],
        about: str,
        asked: Callable[[Any], Any],
        make: Callable[[Any, Any], Learned],
    ) -> None:
        """Take what makes the fit, from the settings and the record of the statement; `about` is for EXPLAIN.

        `asked` plans the query of the model's answers about the labelled rows, from the settings; it can return None.
        """
        self.kind = kind
        self.features = features
        self.about = about
        self.asked = asked
        self.id = uuid4().hex[:16]
        self.fit: Learned | None = None
        self._make = make

    def run(self, settings: Any, record: Any) -> None:
        """Make the fit, once."""
        if self.fit is None:
            self.fit = self._make(settings, record)


_OPEN: WeakValueDictionary[str, Learned | LateFit] = WeakValueDictionary()
"""The fits in use by their ids. An id follows from the content, so it can mean only one fit."""


def opened(learned: Learned | LateFit) -> str:
    """Return the id of a fit, by which functions find it while anybody holds it."""
    _OPEN.setdefault(learned.id, learned)
    return learned.id


def found(id_: str) -> Learned | LateFit:
    """Return the fit of an id.

    Raises:
        KeyError: nobody holds the fit any more.
    """
    return _OPEN[id_]
