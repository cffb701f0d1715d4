"""Functions of the page's scripts that need no browser."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from flightllm import web

NODE = shutil.which("node") or ""
pytestmark = pytest.mark.skipif(not NODE, reason="no node here: apt-get install nodejs")


def value_of(folder: Path, script: str, names: str, expression: str) -> Any:
    """Return the value of an expression with names of one of the page's scripts."""
    place = folder / "page"
    place.parent.mkdir(exist_ok=True)
    shutil.copytree(Path(web.__file__).parent / "static", place)
    (place / "package.json").write_text('{"type": "module"}')
    text = f'import {{ {names} }} from "./{script}";\nconsole.log(JSON.stringify({expression}));\n'
    (place / "asked.js").write_text(text)
    done = subprocess.run([NODE, "asked.js"], cwd=place, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("direction", "order"),
    [
        ("ascending", ["-inf", "1", "2", "3", "inf", "inf", "NaN", "nan", None]),
        ("descending", ["NaN", "nan", "inf", "inf", "3", "2", "1", "-inf", None]),
    ],
)
def test_numbers_that_are_none(tmp_path: Path, direction: str, order: list[str | None]) -> None:
    """As in PostgreSQL, NaN is greater than each number, infinity too; NULL is last in both directions."""
    texts = ["3", "NaN", None, "1", "inf", "nan", "2", "-inf", "inf"]
    rows = json.dumps([[text] for text in texts])
    asked = f"sorted({rows}, 0, {{ number: true }}, '{direction}')"
    assert [texts[at] for at in value_of(tmp_path, "sorting.js", "sorted", asked)] == order


def test_texts_in_csv(tmp_path: Path) -> None:
    """A quote precedes what a spreadsheet could run, and nothing else: phone numbers and signs stay as they are."""
    plain = ["+49 30", "+49 (30) 12-34/5", "-", "+", "-1.5e3", "text", "- 3", "1=2"]
    risky = ["=1+1", "@SUM(A1)", "+A1", "-cmd|' /C calc'!A0", "+1*2", "-1^2", "-1+cmd()", "\tx", "- item", "+1%"]
    columns, rows = '[{ name: "a" }]', json.dumps([[text] for text in [*plain, *risky]])
    lines = value_of(tmp_path, "download.js", "csv", f"csv({columns}, {rows})").split("\r\n")
    assert lines[1:-1] == [*plain, *(f"'{text}" for text in risky)]


def test_numbers_with_nouns(tmp_path: Path) -> None:
    """A noun is singular after one alone."""
    asked = "[0, 1, 2, 1000].map((value) => counted(value, 'row'))"
    assert value_of(tmp_path, "format.js", "counted", asked) == ["0 rows", "1 row", "2 rows", "1,000 rows"]


def test_places_of_a_plan(tmp_path: Path) -> None:
    """A part stands above the middle of its inputs, and a part that two others read below both of them."""
    reads = {"result": ["a", "b"], "a": ["shared"], "b": ["c"], "c": ["shared"], "shared": []}
    parts = json.dumps([{"name": name, "inputs": inputs} for name, inputs in reads.items()])
    asked = f"(({{ places, ...rest }}) => ({{ ...rest, places: Object.fromEntries(places) }}))(layout({parts}))"
    found = value_of(tmp_path, "layout.js", "layout", asked)
    assert (found["columns"], found["levels"]) == (2, 4)
    levels = {name: place["level"] for name, place in found["places"].items()}
    assert levels == {"result": 0, "a": 1, "b": 1, "c": 2, "shared": 3}
    assert found["places"]["result"]["column"] == 0.5
    assert value_of(tmp_path / "none", "layout.js", "layout", "layout([]).levels") == 0


def test_shares_of_operators(tmp_path: Path) -> None:
    """The cost is the price where it is known, else the time; once calls were made, it is their tokens."""
    calls: list[dict[str, object]] = [{"price": 3, "seconds": 1}, {"price": 1, "seconds": 9}]
    unknown = [{**call, "price": None} for call in calls]
    real: dict[str, object] = {"prompt_tokens": 10, "cached_tokens": 5, "completion_tokens": 15}
    each = [[{"predicted": call} for call in some] for some in (calls, unknown)]
    each.append([{"predicted": calls[0]}, {"predicted": calls[1], "actual": real}])
    plans = [[{"operator": f"s{n}", "calls": [call]} for n, call in enumerate(some)] for some in each]
    asked = f"{json.dumps(plans)}.map(shares).map(({{ of, shares }}) => [of, [...shares.values()]])"
    assert value_of(tmp_path, "figures.js", "shares", asked) == [
        ["predicted price", [0.75, 0.25]],
        ["predicted time", [0.1, 0.9]],
        ["real tokens", [0, 1]],
    ]


def test_counts_of_a_query(tmp_path: Path) -> None:
    """Each call of a plan gets the counts of the same call of the query, and equal calls each get their own."""
    call = {"function": "f", "text": "f(a)", "actual": None}
    document = {"operators": [{"operator": "s0", "calls": [call, call]}, {"operator": "s1", "calls": [call]}]}
    ran = [{"operator": "s0", "function": "f", "text": "f(a)", "calls": number} for number in (1, 2)]
    found = f"withActual({json.dumps(document)}, {json.dumps(ran)})"
    asked = f"{found}.operators.map((one) => one.calls.map((call) => call.actual?.calls))"
    assert value_of(tmp_path, "figures.js", "withActual", asked) == [[1, 2], [None]]


NUMBER, TEXT, DAY = (
    {"name": "n", "type": "int64", "number": True},
    {"name": "t", "type": "string"},
    {"type": "date32[day]"},
)


@pytest.mark.parametrize(
    ("columns", "rows", "kind", "places", "aggregate"),
    [
        ([TEXT, NUMBER], [["x", "1"], ["y", "2"]], "bar", (0, [1], -1), "none"),
        ([TEXT, NUMBER], [["x", "1"], ["x", "2"]], "bar", (0, [1], -1), "sum"),
        ([TEXT], [["x"], ["y"]], "bar", (0, [], -1), "count"),
        ([NUMBER, DAY], [["1", "2024-01-01"], ["2", "2024-01-01"]], "line", (1, [0], -1), "avg"),
        ([NUMBER, DAY, TEXT], [["1", "2024-01-01", "x"], ["2", "2024-01-01", "y"]], "line", (1, [0], 2), "none"),
        ([NUMBER, NUMBER], [["1", "2"]], "scatter", (0, [1], -1), "none"),
        ([NUMBER], [["1"], ["2"]], "histogram", (0, [], -1), "count"),
    ],
)
def test_charts_that_suit(
    tmp_path: Path, columns: list[Any], rows: list[Any], kind: str, places: tuple[int, list[int], int], aggregate: str
) -> None:
    """Times give a line, labels bars, two numbers points, and one number a histogram; repeated labels are summed up."""
    asked = f"choose({json.dumps(columns)}, {json.dumps(rows)})"
    x, ys, series = places
    wanted = {"kind": kind, "x": x, "ys": ys, "series": series, "aggregate": aggregate}
    assert value_of(tmp_path, "charting.js", "choose", asked) == wanted


def test_numbers_of_charts(tmp_path: Path) -> None:
    """Groups have one value for each label; NULL is a label, and no number; days are milliseconds of UTC."""
    rows = [["x", "1"], ["x", "4"], [None, "2"], ["y", None], ["z", "NaN"]]
    days = [["2", "2024-01-02 00:00:00.000000001"], ["1", "2024-01-01"], ["3", None]]
    bars = [{"kind": "bar", "x": 0, "ys": [1], "series": -1, "aggregate": name} for name in ("sum", "avg", "count")]
    line = {"kind": "line", "x": 1, "ys": [0], "series": -1, "aggregate": "none"}
    pie, parts = {**bars[0], "kind": "pie"}, {**bars[2], "kind": "histogram", "x": 1}
    table = f"{json.dumps([TEXT, NUMBER])}, {json.dumps(rows)}"
    of_rows = f"{json.dumps([*bars, pie, parts])}.map((one) => drawn({table}, one))"
    of_days = f"drawn({json.dumps([NUMBER, DAY])}, {json.dumps(days)}, {json.dumps(line)})"
    *found, slices, bins, line_ = value_of(tmp_path, "charting.js", "drawn", f"[...{of_rows}, {of_days}]")
    assert {tuple(one["labels"]) for one in found} == {("x", "NULL", "y", "z")}
    assert [one["sets"][0]["values"] for one in found] == [[5, 2, None, None], [2.5, 2, None, None], [2, 1, 1, 1]]
    assert (slices["labels"], slices["sets"][0]["values"]) == (["x", "NULL"], [5, 2])
    assert slices["notes"] == ["2 values that are not above 0 have no slice."]
    assert (sum(bins["sets"][0]["values"]), bins["notes"]) == (3, ["2 rows without a number are left out."])
    assert line_["sets"][0]["values"] == [[1704067200000, 1], [1704153600000, 2]]
    assert line_["notes"] == ["1 rows without a number are left out."]


def test_rows_to_label(tmp_path: Path) -> None:
    """The statement for the rows to label next has the rows of the statement that is shown, in quotes."""
    asked = 'nextRows({ name: "spam", parameters: ["t"] }, "SELECT t FROM m WHERE t <> \'x\';")'
    assert value_of(tmp_path, "why.js", "nextRows", asked) == (
        'SELECT n."t", spam(n."t") AS answer\n'
        "FROM ai_next_labels('spam', 'SELECT t FROM m WHERE t <> ''x''', 20) AS n"
    )
