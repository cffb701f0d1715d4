"""`flightllm evaluate` against a server whose model has a price."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flightllm.cli import main
from flightllm.client import Client
from flightllm.config import Config, EngineConfig, LogConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.log import configure_logging
from flightllm.session.database import Database

Run = Callable[..., Result]
CALL = "ai_filter('Is it about money?', body)"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Return a function that runs `flightllm evaluate` on a server with labelled rows."""
    folder = tmp_path_factory.mktemp("evaluate")
    config = Config(engine=EngineConfig("fake", price_input=1_000.0, price_output=1_000.0), data_folder=folder)
    with closing(Database.open(config)) as database:
        session = database.session()
        session.update(
            "CREATE TABLE notes AS SELECT 'note ' || value AS body, value % 2 = 0 AS money,"
            " CASE value % 2 WHEN 0 THEN 'bug' ELSE 'praise' END AS kind FROM generate_series(1, 40)"
        )
        session.update("CREATE FUNCTION about_shop AS ai_filter('Is it about a shop?', {body})")
        server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), functions=["ai_filter", "ai_classify"])
        environment = {"FLIGHTLLM_URI": server.uri}

        def invoke(*given: str) -> Result:
            configure_logging(LogConfig(level="error"))  # the server here shares the command's output
            return CliRunner().invoke(main, ["evaluate", *given], env=environment)

        yield invoke
        server.drain(0)


def _json(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_price_is_predicted_before_anything_is_asked(run: Run) -> None:
    """A dry run predicts all variants, and a budget below that refuses them."""
    options = ("notes", CALL, "money", "--layouts", "instruction,fields")
    predicted = _json(run(*options, "--dry-run", "--json"))
    assert (predicted["calls"], predicted["cached"]) == (80, 0)
    refused = run(*options, "--budget", str(predicted["price"] / 2))
    assert refused.exit_code == 1
    assert "max_cost" in refused.output
    assert _json(run(*options, "--dry-run", "--json"))["cached"] == 0
    assert "predicted: 80 model calls" in run(*options, "--dry-run").output


def test_variants_are_shown_with_the_statement_that_stores_the_chosen_one(run: Run) -> None:
    """The table has a line for each variant, and the statement has the figures of the chosen one."""
    result = run("notes", CALL, "money", "--examples", "0,2", "--confusion", "--agreement")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].split("┃")[1].strip() == "examples"
    assert "$ / 1,000 rows" in lines[0]
    assert {"confusion", "agreement"} <= set(lines)
    assert "too few labels to choose" in result.output
    assert lines[-1].startswith("CREATE FUNCTION name AS ai_filter('Is it about money?', body")
    assert "WITH (accuracy = '" in lines[-1]


def test_chosen_variant_becomes_a_function(run: Run) -> None:
    """`--create` stores the chosen call with its figures, and the function can be evaluated like the call."""
    created = run("notes", CALL, "money", "--examples", "0,2", "--create", "about_money")
    assert created.exit_code == 0, created.output
    assert "created about_money" in created.stderr
    found = _json(run("notes", "about_money(body)", "money", "--json"))
    assert found["variants"][0]["n"] == 40
    refused = run("notes", "ai_filter('Is it new?', body)", "money", "--create", "about_money")
    assert "exists" in refused.output
    unasked = _json(run("notes", "ai_filter('Is it new?', body)", "money", "--dry-run", "--json"))
    assert unasked["cached"] == 0, "the name is checked before any call"


@pytest.mark.parametrize(
    ("name", "call", "told"),
    [
        ("about_shop", CALL, "the function 'about_shop' exists"),
        ("lower", CALL, "'lower' is a name of SQL"),
        ("ai_mine", CALL, "'ai_mine' is a name of SQL"),
        ("a.b", CALL, "a name of one part"),
        ("two words", CALL, "write CREATE [OR REPLACE] FUNCTION"),
        ("1st", CALL, "write CREATE [OR REPLACE] FUNCTION"),
        ('"Mine"', CALL, "write letters in lower case"),
        ("mine", "ai_filter('Is it about money?', notes.body)", "without a table before it"),
        ("mine", "about_shop(body)", "calls the function about_shop"),
    ],
)
def test_nothing_is_asked_for_what_cannot_be_stored(run: Run, name: str, call: str, told: str) -> None:
    """The server checks the function as CREATE FUNCTION does, before the evaluation asks its model."""
    refused = run("notes", call, "money", "--create", name, "--set", "cache=off")
    assert refused.exit_code == 1
    assert told in refused.output
    assert "Traceback" not in refused.output


def test_json_has_everything(run: Run) -> None:
    """The variants, the parts that were asked for, the chosen one and the statement are in one document."""
    result = run("notes", "ai_classify(body, ['bug', 'praise'])", "kind", "--confusion", "--metric", "f1", "--json")
    found = _json(result)
    assert set(found) == {"variants", "confusion", "chosen", "statement"}
    assert found["chosen"] == 1
    [variant] = found["variants"]
    assert sum(row["rows"] for row in found["confusion"]) == variant["n"] == 40


def test_all_parts_ask_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """One query has all parts, so that a run without a cache asks as often as one with the figures alone."""
    sent, query = [], Client.query

    def counted(self: Client, sql: str) -> Any:
        sent.append(sql)
        return query(self, sql)

    monkeypatch.setattr(Client, "query", counted)
    call, options = "ai_filter('Is it about a refund?', body)", ("--layouts", "instruction,fields", "--json")
    result = run("notes", call, "money", *options, "--confusion", "--agreement", "--set", "cache=off")
    found = _json(result)
    assert sum(sql.startswith("SELECT") and "ai_evaluate" in sql for sql in sent) == 1
    assert [one["calls"] for one in found["variants"]] == [40, 40]
    assert set(found["agreement"][0]) >= {"variant", "other", "kappa", "n"}
    assert "part" not in found["variants"][0]
    assert {"label", "rows"} <= set(found["confusion"][0])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--examples", "four"), "expected whole numbers"),
        (("--models", "default,"), "expected values between commas"),
        (("--metric", "mae"), "metric is 'accuracy' or 'f1'"),
        (("--dry-run", "--metric", "mae"), "metric is 'accuracy' or 'f1'"),
        (("--create", "f", "--dry-run"), "--dry-run chooses nothing"),
        (("--recall", "1"), "0<x<1"),
    ],
)
def test_wrong_options_are_refused(run: Run, options: tuple[str, ...], told: str) -> None:
    """An error says what is wrong, without a traceback."""
    result = run("notes", CALL, "money", *options)
    assert result.exit_code != 0
    assert told in result.output


def test_files_need_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--open` evaluates rows of a file; there is no server that could keep a function."""
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "home"))
    file = tmp_path / "notes.csv"
    file.write_text("body,money\nrefund,yes\nlovely,no\ncharged,1\n")
    given = ["evaluate", "--open", str(file), "--engine", "fake", "notes", CALL, "money"]
    result = CliRunner().invoke(main, [*given, "--json"])
    assert _json(result)["variants"][0]["n"] == 3
    assert "--open has a server for this command only" in CliRunner().invoke(main, [*given, "--create", "f"]).output
