"""`ai_evaluate` on models whose errors are known."""

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from flightllm.access.store import User
from flightllm.common.principal import Principal
from flightllm.config import Config, EngineConfig
from flightllm.engines.fake.engine import FakeEngine
from flightllm.errors import BudgetExceededError, CancelledError, FlightLLMError
from flightllm.execution.evaluate import Evaluated
from flightllm.llm.engine import Choice, Completion, JsonSchema, Request
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, explained, rows

ROWS = 200
WRONG = {"strong": 4, "cheap": 5, "weak": 35}
"""The wrong answers of each model to 100 questions."""


def _is_wrong(model: str, number: int) -> bool:
    digest = blake2b(f"{model} {number}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % 100 < WRONG[model]


def _answer(self: FakeEngine, request: Request) -> Completion:
    """Answer with the truth, which the text says, or wrongly, as often as the model's name says."""
    self._sent += 1
    text = request.fields[0][1]
    number = int(text.split()[1])
    wrong = _is_wrong(self._model, number)
    options = request.parameters.constraint
    probabilities = None
    if isinstance(options, JsonSchema):
        answer = '{"labels": ["bug"]}' if wrong else '{"labels": ["bug", "praise"]}'
    elif not isinstance(options, Choice):
        return Completion(request.id, "text", None, 10, 0, 1)
    else:
        true = "Yes" if "good" in text else "No"
        if "Yes" not in options.options:
            true = options.options[number % len(options.options)]
        place = options.options.index(true)
        answer = options.options[(place + wrong) % len(options.options)]
        each = 0.1 / (len(options.options) - 1)
        probabilities = tuple(0.9 if one == answer else each for one in options.options)
    if "fails" in text:
        return Completion(request.id, None, "it fails", 10, 0, 0)
    return Completion(request.id, answer, None, len(request.prompt) // 4, 0, 1, probabilities)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open a database with three models and a table of labelled rows."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FakeEngine, "_answer", _answer)
        patched.setattr(FakeEngine, "revision", property(lambda self: self._model))
        folder: Path = tmp_path_factory.mktemp("evaluate")
        database = Database.open(
            Config(engine=EngineConfig("fake", "strong", price_input=10.0, price_output=10.0), data_folder=folder)
        )
        session = database.session()
        for name, price in (("cheap", 1), ("weak", 0.1)):
            session.update(
                f"CREATE MODEL {name} OPTIONS (engine fake, model '{name}', price_input {price}, price_output {price})"
            )
        session.update(
            f"""CREATE TABLE notes AS SELECT value AS id,
            CASE WHEN value % 4 = 0 THEN 'good ' ELSE 'bad ' END || value AS body, value % 4 = 0 AS fine,
            CASE value % 2 WHEN 0 THEN 'Bug' ELSE 'praise' END AS kind, CAST(value % 11 AS DOUBLE) AS stars,
            CASE WHEN value % 10 <> 0 THEN CASE WHEN value % 4 = 0 THEN 'YES' ELSE 'no' END END AS some
            FROM generate_series(1, {ROWS})"""
        )
        yield database
        database.close()


@pytest.fixture
def session(database: Database) -> Session:
    """Return a fresh session."""
    return database.session()


def _one(session: Session, sql: str) -> dict[str, Any]:
    [row] = rows(session, sql)
    return row


def _wrong(model: str, numbers: range = range(1, ROWS + 1)) -> int:
    return sum(_is_wrong(model, number) for number in numbers)


_FILTER = "ai_filter('Is it good?', body)"


@pytest.mark.parametrize(
    "arguments",
    [
        f"(SELECT body, fine FROM notes), {_FILTER}, fine",
        pytest.param(f"notes, {_FILTER}, fine", marks=pytest.mark.slow),
        pytest.param(f"TABLE notes, {_FILTER}, label => fine", marks=pytest.mark.slow),
        pytest.param("'notes', 'ai_filter(''Is it good?'', body)', 'fine'", marks=pytest.mark.slow),
        "'SELECT * FROM notes;', $$ai_filter('Is it good?', body)$$, 'fine'",
    ],
)
def test_figures_are_those_of_the_known_errors(session: Session, arguments: str) -> None:
    """Accuracy is the share of right answers, however the arguments are written."""
    row = _one(session, f"SELECT * FROM ai_evaluate({arguments})")
    assert (row["n"], row["left_out"], row["failed"]) == (ROWS, 0, 0)
    assert row["accuracy"] == 1 - _wrong("strong") / ROWS
    missed = _wrong("strong", range(4, ROWS + 1, 4))
    assert row["recall"] == pytest.approx(1 - missed / (ROWS // 4))
    assert row["accuracy_low"] < row["accuracy"] < row["accuracy_high"]
    assert row["ece"] == pytest.approx(abs(row["accuracy"] - 0.9))
    assert row["price_per_1000"] == pytest.approx(row["tokens_per_1000"] * 10 / 1e6, rel=0.01)
    assert row["chosen"] is True


def test_cheapest_that_is_as_good_is_chosen(session: Session) -> None:
    """Of a good model, an equally good cheap one and a bad cheapest one, the equally good one is chosen."""
    sql = f"SELECT * FROM ai_evaluate(notes, {_FILTER}, fine, models => ['default', 'cheap', 'weak'])"
    found = {row["model"]: row for row in rows(session, sql)}
    assert [name for name, row in found.items() if row["chosen"]] == ["cheap"]
    assert found["weak"]["worse_p"] < 0.001
    assert found["cheap"]["worse_p"] >= 0.05
    assert found["default"]["price_per_1000"] == pytest.approx(10 * found["cheap"]["price_per_1000"], rel=0.1)
    assert all(row["n"] == ROWS // 2 for row in found.values())
    assert "too few labels" in found["cheap"]["note"]
    assert found["cheap"]["call"] == "ai_filter('Is it good?', body, model => 'cheap')"
    assert found["default"]["agreement"] == 1.0 > found["weak"]["agreement"]
    assert rows(session, sql)[1]["accuracy"] == found["cheap"]["accuracy"]


def test_known_answers_are_not_asked_again(session: Session) -> None:
    """A second run asks nothing, and predicts the same prices."""
    sql = "SELECT * FROM ai_evaluate(notes, ai_filter('Is it known?', body), fine)"
    first, again = _one(session, sql), _one(session, sql)
    assert (first["calls"], again["calls"], again["cached"]) == (ROWS, 0, ROWS)
    assert again["tokens_per_1000"] == pytest.approx(first["tokens_per_1000"], rel=0.05)
    assert again["price_per_1000"] == pytest.approx(first["price_per_1000"], rel=0.05)


@pytest.mark.slow
def test_examples_come_from_the_choosing_half(session: Session) -> None:
    """Rows that are examples belong to neither half, and the call has them."""
    sql = f"SELECT * FROM ai_evaluate(notes, {_FILTER}, fine, examples => [0, 4], layouts => ['instruction', 'fields'])"
    found = ask(session, sql)
    variants = [(layout, number) for layout in ("instruction", "fields") for number in (0, 4)]
    assert [(row["layout"], row["examples"]) for row in found.rows] == variants
    assert [row["n"] for row in found.rows] == [ROWS // 2] * 4
    tokens = {row["examples"]: row["tokens_per_1000"] for row in found.rows}
    assert tokens[4] > tokens[0]


def test_missing_labels_and_answers_are_counted(session: Session) -> None:
    """Rows without a label are left out; a failed answer counts as wrong."""
    session.update("CREATE TABLE gaps AS SELECT CASE WHEN id = 1 THEN 'fails 1' ELSE body END AS body, some FROM notes")
    row = _one(session, f"SELECT * FROM ai_evaluate(gaps, {_FILTER}, some)")
    assert (row["n"], row["left_out"], row["failed"]) == (ROWS * 9 // 10, ROWS // 10, 1)
    session.update("DROP TABLE gaps")


def test_classes_have_a_confusion_matrix(session: Session) -> None:
    """The matrix counts labels by answers; the spelling of labels is that of the call."""
    call = "ai_classify(body, ['bug', 'praise'])"
    sql = f"SELECT label, answer, rows FROM ai_evaluate(notes, {call}, kind, part => 'confusion')"
    counts = {(row["label"], row["answer"]): row["rows"] for row in rows(session, sql)}
    wrong = _wrong("strong", range(2, ROWS + 1, 2))
    assert counts["bug", "praise"] == wrong
    assert counts["bug", "bug"] == ROWS // 2 - wrong
    assert counts["bug", None] == 0
    row = _one(session, f"SELECT * FROM ai_evaluate(notes, {call}, kind)")
    assert row["accuracy"] == 1 - _wrong("strong") / ROWS
    assert row["f1_low"] <= row["f1"] <= row["f1_high"]


def test_lists_and_numbers_have_their_own_figures(session: Session) -> None:
    """Lists have the Jaccard index, and ratings the error and the correlation."""
    call = "ai_classify(body, ['bug', 'praise'], multi => true)"
    row = _one(
        session, f'SELECT * FROM ai_evaluate((SELECT body, \'["bug", "praise"]\' AS both FROM notes), {call}, both)'
    )
    assert row["jaccard"] == pytest.approx(1 - _wrong("strong") / ROWS / 2)
    row = _one(session, "SELECT * FROM ai_evaluate(notes, ai_score('How good?', body, expected => false), stars)")
    assert row["mae"] < 1
    assert row["spearman"] > 0.8
    assert "accuracy" not in row


def test_agreement_compares_each_pair(session: Session) -> None:
    """Two models agree where both are right or both are wrong."""
    sql = f"SELECT * FROM ai_evaluate(notes, {_FILTER}, fine, models => ['default', 'cheap'], part => 'agreement')"
    row = _one(session, sql)
    errors = [{n for n in range(1, ROWS + 1) if _is_wrong(m, n)} for m in ("strong", "cheap")]
    assert row["agreement"] == 1 - len(errors[0] ^ errors[1]) / ROWS
    assert row["kappa_low"] < row["kappa"] < 1


@pytest.mark.slow
def test_query_around_it_is_any_query(session: Session) -> None:
    """The figures are a table: they can be filtered, joined, stored, and come after a WITH."""
    inner = f"ai_evaluate((SELECT * FROM chosen), {_FILTER}, fine, models => ['default', 'cheap'])"
    sql = (
        f"WITH chosen AS (SELECT * FROM notes WHERE id <= 40) SELECT e.model, e.n * 2 FROM {inner} AS e WHERE e.chosen"
    )
    [row] = rows(session, sql)
    assert list(row.values()) == ["cheap", 40]
    earlier = "a AS (SELECT * FROM notes WHERE id <= 20)"
    sql = f"WITH {earlier}, e AS (SELECT * FROM ai_evaluate(a, {_FILTER}, a.fine)) SELECT n FROM e"
    assert rows(session, sql) == [{"n": 20}]
    session.update(f"CREATE TABLE kept AS SELECT model, accuracy FROM ai_evaluate(notes, {_FILTER}, fine)")
    session.update(f"INSERT INTO kept SELECT model, accuracy FROM ai_evaluate(notes, {_FILTER}, fine)")
    assert len(rows(session, "SELECT * FROM kept")) == 2
    session.update("DROP TABLE kept")


def test_names_are_those_of_the_session(session: Session) -> None:
    """Tables in texts are looked up in the session's schemas, temporary tables among them."""
    session.update("CREATE TEMP TABLE mine AS SELECT * FROM notes WHERE id <= 10")
    row = _one(session, "SELECT n FROM ai_evaluate('mine', 'ai_filter(''Is it good?'', body)', 'fine')")
    assert row["n"] == 10


def test_describing_asks_nothing(session: Session) -> None:
    """The columns are known from the plan; EXPLAIN predicts the calls of all variants."""
    sql = "SELECT * FROM ai_evaluate(notes, ai_filter('Is it new?', body), fine, models => ['default', 'cheap'])"
    before = len(rows(session, "SELECT * FROM system.ai_calls"))
    assert "accuracy_low" in session.describe(sql).schema.names
    plan = explained(session, sql)
    assert plan["variant 2"] == "ai_filter('Is it new?', body, model => 'cheap') (model cheap)"
    assert str(2 * ROWS) in plan["total"]
    assert len(rows(session, "SELECT * FROM system.ai_calls WHERE calls > 0")) <= before


def test_labels_of_people_are_found_by_the_question(session: Session) -> None:
    """Labels that people gave to answers of the same question are the truth."""
    task = "Is it liked?\\n\\nAnswer Yes if this is so, otherwise No."
    session.update(
        f"""INSERT INTO system.labels (function, task, fields, label) SELECT 'ai_filter', E'{task}',
        '{{"body": "' || body || '"}}', CASE WHEN fine THEN 'yes' ELSE 'no' END FROM notes WHERE id <= 60"""
    )
    row = _one(session, "SELECT * FROM ai_evaluate(notes, ai_filter('Is it liked?', body), system.labels)")
    assert (row["n"], row["left_out"]) == (60, ROWS - 60)
    assert row["accuracy"] == 1 - _wrong("strong", range(1, 61)) / 60
    session.update("DELETE FROM system.labels WHERE true")


def test_interrupted_run_continues(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that came before an interruption are not asked again."""
    sql = "SELECT * FROM ai_evaluate(notes, ai_filter('Is it cut off?', body), fine, models => ['default', 'cheap'])"
    asked, whole = 0, FakeEngine._answer
    result = session.execute(sql)

    def counted(self: FakeEngine, request: Request) -> Completion:
        nonlocal asked
        asked += 1
        if asked == ROWS + 50:
            result.query.cancel()
        return whole(self, request)

    with monkeypatch.context() as patched:
        patched.setattr(FakeEngine, "_answer", counted)
        with pytest.raises(CancelledError):
            list(result.batches)
    ran = ask(session, sql)
    assert len(ran.rows) == 2
    assert 0 < ran.calls <= 2 * ROWS - asked + 1


@pytest.mark.slow
def test_proxies_are_variants(session: Session) -> None:
    """A proxy decides most rows at its own price, and the server's model answers the others."""
    options = "proxies => ['none', 'cheap'], recall => 0.8, precision => 0.8"
    call = "ai_filter('Is it proxied?', body)"
    sql = f"SELECT * FROM ai_evaluate(many, {call}, fine, {options})"
    session.update(
        "CREATE TABLE many AS SELECT body || ' ' || n AS body, fine FROM notes, generate_series(1, 5) AS g(n)"
    )
    alone, proxied = rows(session, sql)
    assert proxied["call"] == "ai_filter('Is it proxied?', body, proxy => 'cheap', recall => 0.8, precision => 0.8)"
    assert alone["price_per_1000"] / 10 < proxied["price_per_1000"] < alone["price_per_1000"]
    assert proxied["accuracy"] > 0.8
    again = rows(session, sql)
    assert [row["calls"] for row in again] == [0, 0]
    for before, after in zip((alone, proxied), again, strict=True):
        assert after["price_per_1000"] == pytest.approx(before["price_per_1000"], rel=0.1)
    session.update("DROP TABLE many")


def test_no_model_is_its_own_proxy(session: Session) -> None:
    """Of several proxies, the one that is the variant's own model makes no variant."""
    lists = "models => ['default', 'cheap'], proxies => ['none', 'cheap'], recall => 0.9"
    shown = explained(session, f"SELECT * FROM ai_evaluate(notes, {_FILTER}, fine, {lists})")
    assert [name for name in shown if name.startswith("variant")] == ["variant 1", "variant 2", "variant 3"]


def test_stored_functions_are_evaluated(session: Session) -> None:
    """A stored function is a call like any other."""
    session.update("CREATE FUNCTION is_good AS ai_filter('Is it good?', body, model => 'weak')")
    row = _one(session, "SELECT * FROM ai_evaluate(notes, is_good(body), fine)")
    assert row["accuracy"] == pytest.approx(1 - _wrong("weak") / ROWS)
    session.update("DROP FUNCTION is_good")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (f"notes, {_FILTER}", "lacks its label"),
        (f"notes, {_FILTER}, id", "'2', '3', '4'"),
        (f"notes, {_FILTER}, nothing", "nothing"),
        (f"missing, {_FILTER}, fine", "missing"),
        ("notes, 1 + 1, fine", "evaluates one call"),
        ("notes, ai_filter('Is it good?', *), fine", "name the columns"),
        ("notes, ai_summarize(body), fine, calibrate => ['off']", "ai_summarize has no calibrate =>"),
        (f"notes, {_FILTER}, fine, proxies => ['weak']", "also write recall =>"),
        (f"notes, {_FILTER}, fine, recall => 0.9", "recall is for variants with a proxy: also write proxies =>"),
        ("notes, lower(body), fine", "evaluates one AI call"),
        ("notes, ai_summarize(body), fine", "no answers that labels can be compared with"),
        (f"notes, {_FILTER}, fine, model => ['a']", "there is no option 'model'"),
        (f"notes, {_FILTER}, fine, layouts => ['sideways']", "layouts is a list of"),
        (f"notes, {_FILTER}, fine, models => ['absent']", "absent"),
        (f"notes, {_FILTER}, fine, metric => 'mae'", "metric is 'accuracy' or 'f1'"),
        (f"notes, {_FILTER}, fine, part => 'all'", "part is one of"),
        (f"(SELECT body, fine FROM notes WHERE id < 4), {_FILTER}, fine, examples => [8]", "give only 2 examples"),
        (f"(SELECT * FROM notes WHERE id < 0), {_FILTER}, fine", "no row has a label"),
        (f"(SELECT body, {_FILTER} AS own, fine FROM notes), {_FILTER}, fine", "cannot ask a model"),
        ("notes, ai_score('How?', body), stars, part => 'confusion'", "confusion matrix"),
        (
            f"notes, {_FILTER}, fine, examples => [{', '.join(map(str, range(65)))}]",
            "65 variants, and 64 are the most",
        ),
        (
            "(SELECT 'good 1' AS body, true AS fine FROM generate_series(1, 100001)), ai_filter('?', body), fine",
            "take a sample",
        ),
    ],
)
def test_errors_say_what_is_wrong(session: Session, arguments: str, told: str) -> None:
    """Each wrong argument has an error that names it."""
    with pytest.raises(FlightLLMError) as error:
        rows(session, f"SELECT * FROM ai_evaluate({arguments})")
    assert told in str(error.value)


@pytest.mark.slow
def test_budget_holds_for_all_variants_together(session: Session) -> None:
    """A limit that each single variant would keep refuses them all before the first call."""
    sql = "SELECT * FROM ai_evaluate(notes, ai_filter('Is it dear?', body), fine, models => ['default', 'cheap'])"
    with pytest.raises(BudgetExceededError):
        ask(session, sql, max_calls=str(ROWS + 50))
    assert len(ask(session, sql, max_calls=str(2 * ROWS)).rows) == 2


def test_readers_see_their_own_rows(database: Database) -> None:
    """An evaluation reads only tables that its user can read."""
    database.access.store.add_user(User("eve", "user"))
    reader = database.session(Principal("eve", "user"))
    with pytest.raises(FlightLLMError, match="notes"):
        rows(reader, f"SELECT * FROM ai_evaluate('notes', $${_FILTER}$$, 'fine')")


def test_parts_of_one_query_ask_once(session: Session) -> None:
    """Evaluations of one query that differ by their part only share their answers, also without the cache."""
    session.set_option("cache", "false")
    given = "notes, ai_filter('Is it good?', body), fine"
    both = f"SELECT v.accuracy, c.rows FROM ai_evaluate({given}) AS v, ai_evaluate({given}, part => 'confusion') AS c"
    alone, found = ask(session, f"SELECT * FROM ai_evaluate({given})"), ask(session, both)
    assert alone.calls == found.calls > 0
    assert len(found.rows) == 6


def test_rows_are_dropped_after_a_run(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once its tables are made, a planned evaluation keeps no rows and answers: a prepared statement lives long."""
    made = list[Evaluated]()
    forget = Evaluated.forget

    def forgotten(self: Evaluated) -> None:
        made.append(self)
        forget(self)

    monkeypatch.setattr(Evaluated, "forget", forgotten)
    part = f"ai_evaluate(notes, {_FILTER}, fine, part => 'confusion')"
    figures = f"SELECT count(*) AS n FROM ai_evaluate(notes, {_FILTER}, fine)"
    assert all(row["n"] for row in ask(session, f"{figures} UNION ALL SELECT count(*) FROM {part}").rows)
    assert len(made) == 2
    assert made[0] is made[1]
    assert (made[0]._last, made[0]._known) == (None, None)
