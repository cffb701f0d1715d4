"""A function that SQL created: an expression with AI calls, over parameters that calls give values to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flightllm.errors import AICallError
from flightllm.learning.learned import Feature, LateFit, Learned


@dataclass(frozen=True, slots=True)
class LearnedUse:
    """The features that an AI call gets from its fields, and the fit that decides by them."""

    features: tuple[Feature, ...]
    fit: Learned | LateFit | None = None
    """Without a fit, the value is the features: `struct<answer, probabilities, vector>`."""
    told: str = ""
    """The labels and the figures of the fit, for EXPLAIN ANALYZE."""


@dataclass(frozen=True, slots=True)
class StoredFunction:
    """A function as CREATE FUNCTION stores it."""

    name: str
    parameters: tuple[str, ...]
    body: str
    """The expression, in which each parameter is a name without a qualifier."""
    owner: str
    learned: "LearnedUse | None" = None
    """For a learned filter, the decision in place of the model's."""

    @property
    def signature(self) -> str:
        """Return the usage of the function, such as `is_spam(t)`."""
        return f"{self.name}({', '.join(self.parameters)})"

    def values(self, given: Sequence[tuple[str | None, str]]) -> Mapping[str, str]:
        """Return the SQL text of each parameter's value, from the names and texts of a call's arguments.

        Raises:
            AICallError: a parameter is unknown, missing or given twice.
        """
        found: dict[str, str] = {}
        named = {name for name, _ in given}
        free = iter([parameter for parameter in self.parameters if parameter not in named])
        for name, text in given:
            target = next(free, None) if name is None else name
            if target is None:
                raise AICallError(f"too many arguments. Usage: {self.signature}")
            if target not in self.parameters:
                raise AICallError(f"unknown parameter {target}. Usage: {self.signature}")
            if target in found:
                raise AICallError(f"the parameter {target} is given twice. Usage: {self.signature}")
            found[target] = text
        if absent := [parameter for parameter in self.parameters if parameter not in found]:
            raise AICallError(f"missing argument {absent[0]}. Usage: {self.signature}")
        return found
