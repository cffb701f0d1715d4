"""Names of tables from names of files."""

import re
from pathlib import Path, PurePosixPath

from flightllm.file_formats.compressed import COMPRESSIONS

_WORDS = frozenset(
    re.findall(
        r"\w+",
        "all and as between by case cast create cross delete distinct drop else end except exists false fetch for"
        " from full group having in inner insert intersect into is join lateral left like limit natural not null"
        " offset on or order outer over partition qualify right select set table then true union unnest update using"
        " values when where window with",
    )
)
"""Words that are not valid as a table's name without quotes, here or in other systems."""


def stem(path: PurePosixPath | Path) -> str:
    """Return a file's name without its endings, such as `.csv.gz`."""
    name = path.name
    if path.suffix.lower() in COMPRESSIONS:
        name = name[: -len(path.suffix)]
    return name.rpartition(".")[0] or name


def table_name(text: str) -> str:
    """Return a name that SQL reads without quotes: `Q3 Tickets` becomes `q3_tickets`, `2024` becomes `t_2024`."""
    name = re.sub(r"\W+", "_", text.strip()).strip("_").lower() or "t"
    if name[0].isdigit():
        name = f"t_{name}"
    return f"{name}_table" if name in _WORDS else name
