"""The options of CREATE VECTOR INDEX, with their checks."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches

from flightllm.errors import InvalidInputError

KINDS = ("flat", "ivf", "hnsw", "ivfpq")
METRICS = ("cosine", "l2", "ip")
ON_ERROR = ("fail", "null")
_NUMBERS = {
    "lists": (1, 1 << 20),
    "probes": (1, 1 << 20),
    "neighbors": (2, 512),
    "build_depth": (1, 4_096),
    "search_depth": (1, 1 << 16),
    "codes": (1, 4_096),
}
"""The least and greatest value of each numeric option."""


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """How an index is built and searched; 0 and "" leave the choice to the index.

    `lists` and `probes` belong to inverted files (faiss's nlist and nprobe). `neighbors`, `build_depth` and
    `search_depth` belong to the graph (M, efConstruction and efSearch). `codes` is the number of bytes to which product
    quantization compresses a vector. `columns` are the table's columns that a search returns; empty means all.
    With `on_error` "null", the index leaves out texts that the embedding model rejects; with "fail" it is not built.
    """

    type: str = "flat"
    metric: str = "cosine"
    model: str = ""
    lists: int = 0
    probes: int = 0
    neighbors: int = 32
    build_depth: int = 80
    search_depth: int = 0
    codes: int = 0
    columns: tuple[str, ...] = ()
    on_error: str = "fail"

    @classmethod
    def read(cls, given: Mapping[str, str]) -> "IndexOptions":
        """Read a statement's options, each given as text.

        Raises:
            InvalidInputError: an option is unknown, or its value is invalid.
        """
        known = [field.name for field in fields(cls)]
        values: dict[str, str | int | tuple[str, ...]] = {}
        for name, text in given.items():
            if name not in known:
                close = get_close_matches(name, known, n=1)
                hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
                raise InvalidInputError(f"a vector index has no option {name!r}; {hint}")
            if name in _NUMBERS:
                values[name] = _number(name, text)
            elif name == "columns":
                values[name] = tuple(column.strip() for column in text.split(",") if column.strip())
            else:
                values[name] = text
        return cls(**values)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        chosen = (("type", self.type, KINDS), ("metric", self.metric, METRICS), ("on_error", self.on_error, ON_ERROR))
        for name, value, valid in chosen:
            if value not in valid:
                raise InvalidInputError(
                    f"the option {name} of a vector index must be one of {', '.join(valid)}, not {value!r}"
                )

    def as_dict(self) -> dict[str, str | int | list[str]]:
        """Return the options that differ from the defaults, for a manifest and for SHOW."""
        default = asdict(IndexOptions())
        changed = {name: value for name, value in asdict(self).items() if value != default[name]}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in changed.items()}


def _number(name: str, text: str) -> int:
    low, high = _NUMBERS[name]
    if not text.isdecimal() or len(text) > len(str(high)) or not low <= int(text) <= high:
        raise InvalidInputError(
            f"the option {name} of a vector index must be a whole number from {low} to {high:,}, not {text!r}"
        )
    return int(text)
