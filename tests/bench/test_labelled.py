"""The labelled rows: which label each file's marks mean, and which rows a task takes."""

from pathlib import Path

import pytest

from bench.labelled import task


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder in which the tasks look for their files."""
    monkeypatch.setenv("FLIGHTLLM_LABELLED", str(tmp_path))
    return tmp_path


def _shown(name: str, rows: int) -> list[tuple[str, str]]:
    asked = task(name, rows)
    return [(asked.labels[row.label], value) for row in asked.rows for _, value in row.fields]


def test_opinions(folder: Path) -> None:
    """A 0 marks an opinion, and a 1 what happens in the story; the file is not in UTF-8."""
    lines = ["0 starts slowly – but it helps , clichés and all . ", "1 they leave the city . "]
    (folder / "subj.all").write_text("\n".join(lines) + "\n", encoding="cp1252")
    assert _shown("opinions", 2) == [
        ("opinion", "starts slowly – but it helps , clichés and all ."),
        ("story", "they leave the city ."),
    ]


def test_gadgets(folder: Path) -> None:
    """A 1 marks praise, which comes first; lines without a text are left out."""
    (folder / "custrev.all").write_text("0 it broke .\n1 \n0 \n1 i love it .\n", encoding="utf-8")
    assert _shown("gadgets", 4) == [("praise", "i love it ."), ("complaint", "it broke .")]


def test_questions(folder: Path) -> None:
    """Each of the six marks has its label. A text that is there twice is left out, and a label without rows too."""
    lines = [
        "5 When did Hawaii become a state ?",
        "2 What does USPS stand for ?",
        "1 What do bats eat ?",
        "0 What is an atom ?",
        "4 What county is Modesto , California in ?",
        "3 Who was Galileo ?",
        "0 What is an atom ?",
        "0 Why does it rain ?",
    ]
    (folder / "TREC.test.all").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert _shown("questions", 8) == [
        ("explanation", "What is an atom ?"),
        ("thing", "What do bats eat ?"),
        ("abbreviation", "What does USPS stand for ?"),
        ("person or group", "Who was Galileo ?"),
        ("place", "What county is Modesto , California in ?"),
        ("number or date", "When did Hawaii become a state ?"),
        ("explanation", "Why does it rain ?"),
    ]


def test_a_smaller_number_gives_the_first_rows(folder: Path) -> None:
    """Rows are drawn in one order, with all labels in turn, so measured rows stay the same with more examples."""
    (folder / "custrev.all").write_text("".join(f"{n % 2} text {n} .\n" for n in range(40)), encoding="utf-8")
    rows = task("gadgets", 40).rows
    assert list(task("gadgets", 10).rows) == list(rows[:10])
    assert [row.label for row in rows] == [0, 1] * 20
    assert len({row.fields for row in rows}) == 40


def test_a_missing_file(folder: Path) -> None:
    """The message names the file and the variable of its folder."""
    with pytest.raises(SystemExit, match=r"task gadgets needs .*custrev\.all: set .* FLIGHTLLM_LABELLED"):
        task("gadgets", 2)
    assert not list(folder.iterdir())
