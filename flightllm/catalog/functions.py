"""Functions that SQL creates, as the file of objects has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from flightllm.functions.stored import LearnedUse, StoredFunction
from flightllm.learning.learned import Learned

Kind = Literal["function", "filter"]


def told(figures: Mapping[str, str | int | float | bool]) -> str:
    """Return the figures of a fit in words."""
    shares = [
        f"{name.removesuffix('_at_least')} {figures.get(name.removesuffix('_at_least'))}, at least {value}"
        for name, value in figures.items()
        if name.endswith("_at_least")
    ]
    if "mean_error" in figures:
        shares.append(f"mean error {figures['mean_error']}, at most {figures.get('mean_error_at_most')}")
    return f"by {figures.get('labels')} labels of people: {'; '.join(shares)}"


@dataclass(frozen=True, slots=True)
class CreatedFit:
    """The fit of a learned filter, and the way to fit it again."""

    query: str
    """The query of FIT ON, whose rows have the labels."""
    options: Mapping[str, str | int | float | bool]
    """The options of WITH."""
    labels: str
    """The version of the labels: a hash of them."""
    learned: Learned

    def as_json(self) -> dict[str, Any]:
        """Return the fit as the file has it."""
        return {
            "query": self.query,
            "options": dict(self.options),
            "labels": self.labels,
            "learned": self.learned.as_json(),
        }

    @classmethod
    def of_json(cls, written: Mapping[str, Any]) -> CreatedFit:
        """Read what `as_json` returned.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        options = MappingProxyType(dict(written["options"]))
        return cls(str(written["query"]), options, str(written["labels"]), Learned.of_json(written["learned"]))


@dataclass(frozen=True, slots=True)
class CreatedFunction:
    """A function, and the figures that its author states about it."""

    name: str
    parameters: tuple[str, ...]
    body: str
    returns: str
    """The name of the SQL type of its values."""
    figures: Mapping[str, str | int | float | bool]
    owner: str
    fit: CreatedFit | None = None
    """The fit of a learned filter; None for a function of CREATE FUNCTION."""
    version: int = 0
    """Counts the changes of the function; the store sets it."""
    created: str = ""

    @property
    def kind(self) -> Kind:
        """Return the word of SQL for the object."""
        return "function" if self.fit is None else "filter"

    def as_json(self) -> dict[str, Any]:
        """Return the function as the file has it."""
        return {
            "name": self.name,
            "parameters": list(self.parameters),
            "body": self.body,
            "returns": self.returns,
            "figures": dict(self.figures),
            "owner": self.owner,
            "version": self.version,
            "created": self.created,
            **({"fit": self.fit.as_json()} if self.fit is not None else {}),
        }

    @classmethod
    def of_json(cls, written: Mapping[str, Any]) -> CreatedFunction:
        """Read what `as_json` returned.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        if not isinstance(written["body"], str) or type(written["version"]) is not int:
            raise TypeError(f"the function {written['name']!r} has no expression or number")
        return cls(
            str(written["name"]),
            tuple(map(str, written["parameters"])),
            written["body"],
            str(written["returns"]),
            MappingProxyType(dict(written["figures"])),
            str(written["owner"]),
            CreatedFit.of_json(written["fit"]) if "fit" in written else None,
            written["version"],
            str(written["created"]),
        )

    def stored(self) -> StoredFunction:
        """Return the function as texts call it."""
        use = None if self.fit is None else LearnedUse(self.fit.learned.features, self.fit.learned, told(self.figures))
        return StoredFunction(self.name, self.parameters, self.body, self.owner, use)
