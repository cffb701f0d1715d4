"""The first row of a CSV file as names or as values."""

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flightllm.file_formats.csv_files import convert_csv
from flightllm.file_formats.options import NOTHING_SAID


def names(folder: Path, content: str) -> list[str]:
    """Return the names of the columns of a CSV file."""
    (folder / "t.csv").write_text(content)
    convert_csv([folder / "t.csv"], NOTHING_SAID, folder / "rows.parquet")
    return list(pq.read_schema(folder / "rows.parquet").names)


@pytest.mark.parametrize(
    "content",
    [
        "country,2019,2020\nGermany,5,6\nFrance,7,8\n",
        "Country,2019,2020\nGermany,5.5,6\nFrance,7,\n",
        "name,1\nBob,2\n",
        "Code,1,2\nDE12,3,4\nFR7,3,3\n",
        "region,2020,2021,total\nDE,1,2,3\n",
        "name,2019\nBob,true\nAnn,false\n",
        "name,city\nBob,Rome\n",
        "a,,c\n1,2,3\n",
        "id,note,\n1,x,\n2,,5\n",
    ],
)
def test_a_row_of_names(tmp_path: Path, content: str) -> None:
    """Years and small numbers beside a text are names, where what stands below is of another kind."""
    assert names(tmp_path, content) == [
        name or f"column{place}" for place, name in enumerate(content.partition("\n")[0].split(","), 1)
    ]


@pytest.mark.parametrize(
    "content",
    [
        "1,x\n2,y\n",
        "1,hello\n2,Bye\n3,Thanks\n",
        "Bob,1985\nAnn,1990\n",
        "Ford,2019,15000\nVW,2020,12000\n",
        "x,1.5\nY,2.5\n",
        "x,5,5\nY,2,3\n",
        "2019,2020\n1,2\n",
        "2024-01-02,good,\n2024-01-03,bad,4\n2024-01-04,ok,3\n",
        "good,\nbad,4\nok,3\n",
        ",5.5\n1,\n",
    ],
)
def test_a_row_of_values(tmp_path: Path, content: str) -> None:
    """A row like those below it is one of values."""
    width = content.partition("\n")[0].count(",") + 1
    assert names(tmp_path, content) == [f"column{place}" for place in range(1, width + 1)]


def test_an_index_without_a_name(tmp_path: Path) -> None:
    """An empty cell above numbers that count the rows is the name that an index does not have."""
    assert names(tmp_path, ",text\n0,foo\n1,bar\n2,baz\n") == ["column1", "text"]


KINDS: dict[str, Callable[[random.Random], str]] = {
    "text": lambda source: source.choice(["good", "bad", "fine", "well"]),
    "whole": lambda source: str(source.randint(3_000, 9_000)),
    "number": lambda source: f"{source.uniform(0, 10):.3f}",
    "day": lambda source: f"2024-{source.randint(1, 12):02}-{source.randint(1, 28):02}",
    "truth": lambda source: source.choice(["true", "false"]),
}


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("seed", range(200))
def test_what_a_generator_knows(tmp_path: Path, header: bool, seed: int) -> None:
    """Tables with empty cells anywhere have a header if and only if the generator wrote one."""
    source = random.Random(seed)  # noqa: S311 - cells of a test
    kinds = [source.choice([*KINDS]) for _ in range(source.randint(1, 5))] + [source.choice([*KINDS][1:])]
    source.shuffle(kinds)
    rows = [[KINDS[kind](source) if source.random() > 0.3 else "" for kind in kinds] for _ in range(6)]
    rows.append([KINDS[kind](source) for kind in kinds])  # each column has a value
    place = next(place for place, kind in enumerate(kinds) if kind != "text")
    if header:
        cells = [f"name{place}" if source.random() > 0.3 else "" for place in range(len(kinds))]
        cells[place] = "known"
        rows.insert(0, cells)
    else:
        rows[0][place] = KINDS[kinds[place]](source)
    found = names(tmp_path, "".join(f"{','.join(row)}\n" for row in rows))
    named = [cell or f"column{place}" for place, cell in enumerate(rows[0], 1)]
    assert found == (named if header else [f"column{place}" for place in range(1, len(kinds) + 1)])
