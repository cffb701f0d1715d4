"""The first row of a CSV file as names or as values."""

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
    ],
)
def test_a_row_of_names(tmp_path: Path, content: str) -> None:
    """Years and small numbers beside a text are names, where what stands below is of another kind."""
    assert names(tmp_path, content) == content.partition("\n")[0].split(",")


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
    ],
)
def test_a_row_of_values(tmp_path: Path, content: str) -> None:
    """A row like those below it is one of values."""
    width = content.partition("\n")[0].count(",") + 1
    assert names(tmp_path, content) == [f"column{place}" for place in range(1, width + 1)]
