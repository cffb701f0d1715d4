"""The options of CREATE VECTOR INDEX, checked."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches

from flightllm.errors import InvalidInputError

KINDS = ("flat", "ivf", "hnsw", "ivfpq")
METRICS = ("cosine", "l2", "ip")
_NUMBERS = {
    "lists": (1, 1 << 20),
    "probes": (1, 1 << 20),
    "neighbors": (2, 512),
    "build_depth": (1, 4_096),
    "search_depth": (1, 1 << 16),
    "codes": (1, 4_096),
}
"""The least and the most of each."""


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """How an index is built and searched; 0 and "" leave the choice to the index.

    `lists` and `probes` are those of the inverted files (nlist and nprobe of faiss), `neighbors`, `build_depth` and
    `search_depth` those of the graph (M, efConstruction and efSearch), `codes` the bytes that product quantization
    leaves of a vector. `columns` are the table's columns that a search returns; none named are all.
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

    @classmethod
    def read(cls, given: Mapping[str, str]) -> "IndexOptions":
        """Read the options as a statement has them, each as text.

        Raises:
            InvalidInputError: an unknown option, or a value it cannot have.
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
        for name, value, valid in (("type", self.type, KINDS), ("metric", self.metric, METRICS)):
            if value not in valid:
                raise InvalidInputError(
                    f"the option {name} of a vector index is one of {', '.join(valid)}; not {value!r}"
                )

    def as_dict(self) -> dict[str, str | int | list[str]]:
        """Return what differs from the defaults, for a manifest and for SHOW."""
        default = asdict(IndexOptions())
        changed = {name: value for name, value in asdict(self).items() if value != default[name]}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in changed.items()}


def _number(name: str, text: str) -> int:
    low, high = _NUMBERS[name]
    if not text.isdecimal() or len(text) > len(str(high)) or not low <= int(text) <= high:
        raise InvalidInputError(
            f"the option {name} of a vector index is a whole number from {low} to {high:,}; not {text!r}"
        )
    return int(text)
