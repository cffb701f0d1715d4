"""SemBench's film questions: the labelled model reads prompts, and the measures follow the benchmark's rules."""

import json
import os
import runpy
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pc
import pytest

from bench.sembench import metrics
from bench.sembench.__main__ import main
from bench.sembench.endpoint import Endpoint, listening
from bench.sembench.errors import Errors
from bench.sembench.form import Form, form_of, offered
from bench.sembench.forms import BEST, FORMS
from bench.sembench.goals import goals
from bench.sembench.gold import statements
from bench.sembench.labels import Review, reviews, stars, table, two_labels
from bench.sembench.measure import Running, asked, opened
from bench.sembench.model import LabelledModel
from bench.sembench.published import PUBLISHED
from bench.sembench.texts import Texts, marks
from bench.sembench_runner.__main__ import HERE, install
from bench.sembench_runner.__main__ import main as put_runner

GOOD = Review("A fine film, warm and clever from start to end.", positive=True, stars=4.5)
BAD = Review('Dull: "two hours" that I will not get back.', positive=False, stars=1.5)
LONG = Review("A fine film, warm and clever from start to end. Yet nobody needs it.", positive=False, stars=2.0)
KNOWN = (GOOD, BAD, LONG)
LABELS = ("positive", "negative")


def model(errors: Errors | None = None) -> LabelledModel:
    """Return a model that knows three reviews."""
    return LabelledModel(Texts(KNOWN), errors or Errors())


def answer(said: str, **more: object) -> str:
    """Return the text of the answer to a prompt; `more` are further fields of the request."""
    return model().answer({"messages": [{"role": "user", "content": said}], **more}).text


def choice(*options: str) -> dict[str, object]:
    """Return the field that restricts an answer to some options."""
    return {"structured_outputs": {"choice": list(options)}}


def test_texts_are_found_in_any_form() -> None:
    """A review is found as it is, inside JSON, and with other white space; the longest one at a place counts."""
    said = f"a: {LONG.text}\nb: {json.dumps({'t': BAD.text})} c:  {GOOD.text.replace(' ', '  ')} \u00e9"
    text, found = Texts(KNOWN).marked(said)
    assert found == [LONG, BAD, GOOD]
    assert marks(text) == [0, 1, 2]
    assert "film" not in text
    assert text.endswith("\u00e9")


@pytest.mark.parametrize(
    ("question", "review", "right"),
    [
        ("Is the review clearly positive?", GOOD, "Yes"),
        ("Is the review clearly positive?", BAD, "No"),
        ("Is the review negative?", BAD, "Yes"),
        ("Does the critic like the film? `reviewText`", LONG, "No"),
        ("Is the sentiment positive rather than negative?", GOOD, "Yes"),
    ],
)
def test_yes_no_about_one_review(question: str, review: Review, right: str) -> None:
    """The words of the question count, and not those of the review."""
    assert answer(f"reviewText: {review.text}\n\n{question}", **choice("Yes", "No")) == right
    assert answer(f"reviewText: {review.text}\n\n{question}\nAnswer Yes or No.") == right


@pytest.mark.parametrize(
    ("question", "one", "other", "right"),
    [
        ("Do the two reviews express opposite sentiments?", GOOD, BAD, "Yes"),
        ("Do the two reviews express opposite sentiments - one is positive, one negative?", BAD, LONG, "No"),
        ("Do the two reviews express the same sentiment?", BAD, LONG, "Yes"),
        ("Do the two reviews express the same sentiment?", BAD, GOOD, "No"),
    ],
)
def test_yes_no_about_a_pair(question: str, one: Review, other: Review, right: str) -> None:
    """Two reviews agree or differ as asked."""
    assert answer(f"a: {one.text}\nb: {other.text}\n\n{question}", **choice("Yes", "No")) == right


def test_labels_are_chosen_by_their_meaning() -> None:
    """Labels can have other words and letters; a label that names no sentiment is the last resort."""
    assert answer(BAD.text, **choice(*LABELS)) == "negative"
    assert answer(GOOD.text, **choice("NEGATIVE review", "POSITIVE review")) == "POSITIVE review"
    assert answer(f"{BAD.text}\nAnswer with one of these labels: positive, negative.") == "negative"
    assert answer(GOOD.text, **choice("negative", "other")) == "other"


def test_ratings_span_the_options() -> None:
    """The expected value of the numbers is the score on any scale; a negative property turns it round."""
    said = {"messages": [{"role": "user", "content": f"{GOOD.text}\nHow much did the reviewer like it?"}]}
    for options, expected in ((("1", "2", "3", "4", "5"), 4.5), (tuple(map(str, range(11))), 8.75)):
        chances = model().answer({**said, **choice(*options)}).chances
        assert sum(float(option) * chance for option, chance in chances.items()) == pytest.approx(expected)
        assert sum(chances.values()) == pytest.approx(1)
    assert answer(f"{BAD.text}\nHow negative is it? A number from 1 to 5.") == "5"


def test_comparison_names_the_better_review() -> None:
    """Of two reviews, the one with the higher score is chosen, or the lower one for a negative property."""
    said = f"A: {BAD.text}\nB: {GOOD.text}\n"
    assert answer(f"{said}Which is more positive?", **choice("A", "B")) == "B"
    assert answer(f"{said}Which is more negative?", **choice("A", "B")) == "A"


def test_rows_of_one_request_are_answered_by_code() -> None:
    """Each row of a pack has its own answer, and the order of the codes does not matter."""
    enum = {"type": "string", "enum": ["Yes", "No"]}
    schema = {
        "type": "object",
        "properties": {"LJS": enum, "GXZ": {"$ref": "#/$defs/answer"}},
        "$defs": {"answer": enum},
    }
    said = f"Is the review positive?\n\nRow GXZ\nt: {GOOD.text}\n\nRow LJS\nt: {BAD.text}\n\nAnswer Yes or No."
    found = answer(said, response_format={"type": "json_schema", "json_schema": {"schema": schema}})
    assert json.loads(found) == {"LJS": "No", "GXZ": "Yes"}


@pytest.mark.parametrize(
    ("condition", "possible", "relation"),
    [
        ("Do the two reviews express opposite sentiments?", True, "different"),
        ("Do both express the same sentiment?", True, "same"),
        ("Was the second review written first?", False, "same"),
    ],
)
def test_a_property_of_pairs_is_proposed(condition: str, possible: bool, relation: str) -> None:
    """The condition decides whether a property is proposed, and not the words around the condition."""
    names = ("possible", "left_question", "right_question", "labels", "relation")
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    said = f"Records have the same or different labels.\n\ncondition: {condition}\nleft_records: [{BAD.text}]"
    found = json.loads(answer(said, response_format={"type": "json_schema", "json_schema": {"schema": schema}}))
    assert (found["possible"], found["relation"], found["labels"]) == (possible, relation, list(LABELS))


def test_prompts_of_other_forms_are_told() -> None:
    """A prompt that no reader can read gets an answer that says so, and counts."""
    for said in ("What is the capital of Peru?", f"{GOOD.text}\nWho wrote this?"):
        found = model().answer({"messages": [{"role": "user", "content": said}]})
        assert found.unread
        assert found.text == "I cannot say."
    found = model().answer({"messages": [{"role": "user", "content": "Is it wet?"}], **choice("wet", "dry")})
    assert (found.unread, found.text, found.chances) == (True, "wet", {"wet": 0.5, "dry": 0.5})


def test_options_are_read_from_words() -> None:
    """Without a constraint in the request, its words say what can be answered."""
    assert offered('Answer with exactly one of these and nothing else: "1", "2".') == ("1", "2")
    assert offered("Answer with a number from 1 (not at all) to 3 (fully).") == ("1", "2", "3")
    assert offered("Answer with one word: positive, negative, neutral or mixed.")[-2:] == ("neutral", "mixed")
    assert offered("Say something.") == ()
    assert form_of({"guided_choice": ["a"]}, "") == Form(("a",))


def test_errors_come_as_often_as_stated() -> None:
    """Equal texts err alike, in all prompts; independent errors depend on the prompt, and hit a pair once."""
    some = [Review(f"review {number}", positive=True, stars=5) for number in range(2_000)]
    alike = Errors(0.1, seed=3)
    wrong = [one for one in some if not alike.understood([one], "a")[0].positive]
    assert 0.07 < len(wrong) / len(some) < 0.13
    assert all(not alike.understood([one], "another prompt")[0].positive for one in wrong)
    apart = Errors(0.1, independent=True)
    told = [[apart.understood([one, some[0]], prompt) for prompt in ("a", "b")] for one in some]
    rates = [
        sum(pair[0].positive != pair[1].positive for pair in pairs) / len(some) for pairs in zip(*told, strict=True)
    ]
    assert all(0.07 < rate < 0.13 for rate in rates)
    assert [pair[0][0] for pair in told] != [pair[1][0] for pair in told]
    assert wrong[0].mirrored().stars == 1


def test_labels_are_read(tmp_path: Path) -> None:
    """Scores of all forms come to one scale; texts with two labels are found."""
    texts = {"3/5": 3, "7/10": 3.5, "1.5 of 4": 1.875, "B+": 4, "A+": 5, "D-": 1.4, "0/5": 1, "": 4, "Recommended": 4}
    assert {text: stars(text, positive=True) for text in texts} == pytest.approx(texts)
    assert stars(None, positive=False) == 2
    path = tmp_path / "Reviews.csv"
    columns = {"reviewText": ["x", "x", "y", ""], "scoreSentiment": ["POSITIVE", "NEGATIVE", "NEGATIVE", "POSITIVE"]}
    pc.write_csv(pa.table({**columns, "originalScore": ["4", "1/5", "2/5", ""]}), path)
    found = table(path)
    assert [(one.text, one.positive, one.stars) for one in reviews(found)] == [("x", True, 4.0), ("y", False, 2.0)]
    assert two_labels(found) == {"x": ["NEGATIVE", "POSITIVE"]}


def test_measures_are_those_of_the_benchmark() -> None:
    """Values are computed by hand from the rules of the benchmark's evaluator."""
    right = [(number,) for number in range(20)]
    assert metrics.retrieved([(1,), (2,), (99,), (3,), (4,), (98,)], right, 5)["f1"] == pytest.approx(0.8)
    assert metrics.retrieved([(1,), (1,), (2,)], right, 5) == pytest.approx(
        {"precision": 1, "recall": 0.4, "f1": 0.8 / 1.4, "score": 0.8 / 1.4}
    )
    assert metrics.retrieved([], right, 5)["score"] == 0
    pairs = [("m", 1, 2), ("m", 2, 1), ("m", 3, 4)]
    assert metrics.paired([("m", 2, 1), ("m", 1, 2), ("m", 9, 8)], pairs) == pytest.approx(
        {"precision": 0.5, "recall": 0.5, "f1": 0.5, "score": 0.5}
    )
    assert metrics.paired([("m", 2, 1), ("m", 3, 4)], pairs, 10)["score"] == 1
    assert metrics.counted([(12,)], [(16,)])["score"] == pytest.approx(0.75)
    assert metrics.counted([(None,)], [(16,)])["score"] == 0
    labels = metrics.counted_by_label([("positive", 5), ("other", 1)], [("POSITIVE", 4), ("NEGATIVE", 2)])
    assert labels["relative_error"] == pytest.approx((0.25 + 1 + 1) / 3)
    assert metrics.spearman([1, 2, 3, 4], [1, 2, 3, 4]) == pytest.approx(1)
    assert metrics.spearman([1, 2, 2, 3], [4, 3, 3, 1]) == pytest.approx(-1)
    assert metrics.spearman([106, 100, 86, 101], [7, 27, 2, 50]) == pytest.approx(0.4)
    assert metrics.spearman([1, 1], [1, 2]) == 0
    assert metrics.ranked([("a", 1.0), ("b", None), ("c", 2.0)], [("a", 5.0), ("c", 9.0)])["score"] == pytest.approx(1)


def test_every_question_has_what_it_needs() -> None:
    """Each question has a natural form, a best form, a measure, and published figures."""
    names = [f"Q{number}" for number in range(1, 11)]
    assert list(FORMS) == names == list(metrics.METRICS)
    assert all("natural" in FORMS[name] and BEST[name] in FORMS[name] for name in names)
    assert all(list(some) == names for system, some in PUBLISHED.items() if system != "ThalamusDB")
    assert sum(one.tokens for one in PUBLISHED["ThalamusDB"].values()) == 449_225
    assert statements("-- Q1: First; it counts.\nSELECT 1;\n-- Q2: x\nSELECT 2;\n") == {
        "Q1": "SELECT 1;",
        "Q2": "SELECT 2;",
    }


def test_goals_compare_with_targets() -> None:
    """A goal tells its figure, and whether this is reached; those of other questions are left out."""
    cold = {"Q7": {"natural": {"calls": 8_128, "score": 1.0}, "map": {"calls": 128, "score": 0.9}}}
    found = goals(cold, {}, {"Q7": 1.0})
    assert {name: goal["reached"] for name, goal in found.items()} == {
        "Q7 natural: calls": False,
        "Q7 map: calls": True,
        "Q7 natural: score": True,
        "Q7 map: score": False,
    }


FILM, PAIRED = "taken_3", "ant_man_and_the_wasp_quantumania"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with few reviews: six of one film, and three of another, each of these in two rows."""
    found = tmp_path_factory.mktemp("sembench")
    folder = found / "sembench_movie"
    folder.mkdir()
    rows = [
        (FILM, number, f"Seen {number} times: a film.", "POSITIVE" if number < 3 else "NEGATIVE", "")
        for number in range(6)
    ]
    twice = [(PAIRED, 10 + number, f"Opinion {number} of it.", sentiment, f"{number + 2}.5/5")
             for number, sentiment in enumerate(("NEGATIVE", "POSITIVE", "POSITIVE"))]  # fmt: skip
    names = ("id", "reviewId", "reviewText", "scoreSentiment", "originalScore")
    columns = dict(zip(names, map(list, zip(*rows, *twice, *twice, strict=True)), strict=True))
    pc.write_csv(pa.table(columns), folder / "Reviews.csv")
    pc.write_csv(pa.table({"id": [FILM, PAIRED], "audienceScore": [40.0, 80.0]}), folder / "Movies.csv")
    return found


@pytest.fixture(scope="module")
def endpoint(data: Path) -> Iterator[tuple[Endpoint, str]]:
    """Serve the labelled model on a free port."""
    known = reviews(table(data / "sembench_movie" / "Reviews.csv"))
    with listening(LabelledModel(Texts(known), Errors())) as (opened_endpoint, server):
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield opened_endpoint, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


RIGHT: Mapping[str, Sequence[tuple[Any, ...]]] = {
    "Q2": [(0,), (1,), (2,)],
    "Q3": [(3,)],
    "Q4": [(0.5,)],
    "Q7": [(PAIRED, 10, 11), (PAIRED, 10, 12)],
    "Q8": [("POSITIVE", 3), ("NEGATIVE", 3)],
    "Q9": [(10, 2.5), (11, 3.5), (12, 4.5)],
}


def test_questions_run_over_http(data: Path, endpoint: tuple[Endpoint, str]) -> None:
    """Questions reach their best scores; calls are the distinct reviews, and kept answers cost nothing."""
    running = Running(endpoint[1])
    calls: dict[str, int] = {}
    with opened(data, endpoint[1]) as database:
        for name, form in (("Q3", "natural"), ("Q8", "natural"), ("Q7", "map"), ("Q9", "natural")):
            figures, _ = asked(database, running, name, FORMS[name][form], RIGHT[name])
            assert figures["score"] == pytest.approx(1), name
            assert figures["unread"] == 0
            calls[name] = figures["calls"]
    assert calls == {"Q3": 6, "Q8": 0, "Q7": 3, "Q9": 3}
    assert figures["prompt_tokens"] > figures["cached_tokens"] > 0
    assert figures["dollars"] > 0


def test_packed_rows_need_fewer_calls(data: Path, endpoint: tuple[Endpoint, str]) -> None:
    """Several reviews in a request have the same answers."""
    with opened(data, endpoint[1]) as database:
        figures, _ = asked(database, Running(endpoint[1]), "Q4", FORMS["Q4"]["packed"], RIGHT["Q4"])
    assert (figures["calls"], figures["score"]) == (1, 1.0)


def test_endpoint_tells_what_it_does_not_have(endpoint: tuple[Endpoint, str]) -> None:
    """Other paths are not found, and the list of models is there."""
    server, url = endpoint
    assert server.post("/v1/embeddings", {})[0] == 404
    assert server.get("/other")[0] == 404
    with urllib.request.urlopen(f"{url}/v1/models") as answered:  # noqa: S310 - this test's own endpoint
        assert json.loads(answered.read())["data"][0]["id"] == "labels"


def test_bad_arguments_end_with_a_message(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing table, an unknown question and a bad error are named."""
    monkeypatch.setenv("FLIGHTLLM_DATA", str(data / "none"))
    for arguments, told in (
        ([], "set FLIGHTLLM_DATA"),
        (["--queries", "Q11"], "choose from Q1, Q2"),
        (["--error", "many"], "numbers between commas"),
        (["--error", "90"], "from 0 to 50 percent"),
    ):
        if arguments:
            monkeypatch.setenv("FLIGHTLLM_DATA", str(data))
        with pytest.raises(SystemExit):
            main(arguments)
        assert told in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif("FLIGHTLLM_DATA" not in os.environ, reason="FLIGHTLLM_DATA is not set")
def test_real_tables_reach_the_ceiling(capsys: pytest.CaptureFixture[str]) -> None:
    """Over the real tables, a model without errors has the best scores, and one review in ten is mistaken at 10 %."""
    main(["--error", "0,10", "--queries", "Q5,Q7,Q8", "--forms", "map,packed", "--json"])
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures["goals"]["Q7 map: calls"]["reached"]
    assert figures["errors"]["0"]["cold"]["Q8"]["packed"]["score"] == 1
    assert figures["errors"]["10"]["cold"]["Q8"]["packed"]["score"] < 1


def test_runner_has_the_sql_of_the_benchmark(tmp_path: Path) -> None:
    """The SQL files are the best forms, and go into a copy of SemBench with the runner, once."""
    named = '    runner_classes = {\n        "lotus": "LotusRunner",\n    }\n'
    run = tmp_path / "src" / "run.py"
    run.parent.mkdir()
    run.write_text(named, encoding="utf-8")
    for _ in range(2):
        files = install(tmp_path)
    assert run.read_text(encoding="utf-8").count('"flightllm": "FlightLLMRunner",\n        "lotus"') == 1
    queries = tmp_path / "files" / "movie" / "query" / "flightllm"
    found = {path.stem: " ".join(path.read_text(encoding="utf-8").split()) for path in queries.iterdir()}
    assert found == {name: " ".join(FORMS[name][form].split()) + ";" for name, form in BEST.items()}
    assert len(files) == 2 + len(FORMS)
    run.write_text("systems = 1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no list runner_classes"):
        install(tmp_path)


def test_runner_refuses_other_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that is no copy of SemBench is named."""
    with pytest.raises(SystemExit):
        put_runner([str(tmp_path)])
    assert "name a copy of github SemBench/SemBench" in capsys.readouterr().err


@dataclass
class Metric:
    """SemBench's record of a question, with the fields that runners give."""

    query_id: int
    status: str
    execution_time: float
    results: Any = None
    token_usage: int | None = None
    money_cost: float | None = None
    error: str | None = None


class GenericRunner:
    """The parts of SemBench's base class that the runner calls, with SemBench's signatures."""

    scenario_handler = None

    def __init__(self, use_case: str, scale_factor: int, model_name: str, workers: int, *, skip_setup: bool) -> None:
        self.data_path = Path(os.environ["SEMBENCH_FILES"]) / use_case
        self.model_name, self.concurrent_llm_worker = model_name, workers
        assert skip_setup
        assert scale_factor == 9

    def load_data(self, filename: str) -> Any:
        """Read a table."""
        return pd.read_csv(self.data_path / filename)

    def _discover_query_text(self, query_id: int) -> str:
        return (HERE / "query" / f"Q{query_id}.sql").read_text(encoding="utf-8")


def test_runner_runs_questions(
    data: Path, endpoint: tuple[Endpoint, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runner returns frames with the tokens spent, and an error where a question fails."""
    module = ModuleType("runner.generic_runner")
    vars(module).update(GenericRunner=GenericRunner, GenericQueryMetric=Metric)
    monkeypatch.setitem(sys.modules, "runner", ModuleType("runner"))
    monkeypatch.setitem(sys.modules, "runner.generic_runner", module)
    monkeypatch.setenv("SEMBENCH_FILES", str(data))
    config = tmp_path / "engine.toml"
    config.write_text(f'[engine]\nkind = "openai"\nmodel = "labels"\nbase_url = "{endpoint[1]}/v1"\n', encoding="utf-8")
    monkeypatch.setenv("FLIGHTLLM_SEMBENCH_CONFIG", str(config))
    runner = runpy.run_path(str(HERE / "flightllm_runner.py"))["FlightLLMRunner"]("sembench_movie", 9)
    found = runner.execute_query(8)
    assert sorted(map(tuple, found.results.to_numpy().tolist())) == [("NEGATIVE", 3), ("POSITIVE", 3)]
    assert found.status == "success"
    assert found.token_usage > 6 * 40
    assert found.execution_time > 0
    monkeypatch.setattr(runner, "_discover_query_text", lambda _: "SELECT scoreSentiment FROM Reviews")
    failed = runner.execute_query(1)
    assert failed.status == "failed"
    assert "No field named scoresentiment" in failed.error
    monkeypatch.delenv("FLIGHTLLM_SEMBENCH_CONFIG")
    own = runner._configuration().engine
    assert (own.kind, own.model, own.options["provider"]) == ("openai", "gemini-2.5-flash", "gemini")
