"""A project of dbt through the package dbt-flightllm: seeds, models that call a model, tests, documentation.

dbt-core is not in the environment of the tests. FLIGHTLLM_DBT_PYTHON names a Python that has what
packages/dbt_flightllm needs; CI makes one.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from flightllm.access.store import User
from flightllm.config import Config, EngineConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.databases import ask

_PYTHON = os.environ.get("FLIGHTLLM_DBT_PYTHON") or (sys.executable if find_spec("dbt") else None)
pytestmark = pytest.mark.skipif(_PYTHON is None, reason="FLIGHTLLM_DBT_PYTHON names no Python that has dbt-core")
Dbt = Callable[..., str]
_PACKAGE = Path(__file__).parents[2] / "packages" / "dbt_flightllm"
_FILES = {
    "dbt_project.yml": "name: shop\nversion: '1.0'\nprofile: shop\n",
    "profiles.yml": """
shop:
  target: dev
  outputs:
    dev: &dev {type: flightllm, port: "{{ env_var('SHOP_PORT') | int }}", schema: shop, threads: 2}
    tight: {<<: *dev, settings: {max_calls: 1}}
    far: {<<: *dev, host: 0.0.0.0}
""",
    "seeds/reviews.csv": """id,body,price,written
1,The tea came late,4.5,2024-01-02
2,"Lovely, warm mug",12,2024-01-03
3,Broken on arrival,,2024-01-04
""",
    "models/stg_reviews.sql": "select id, body, cast(written as timestamp) as written from {{ ref('reviews') }}",
    "models/replies.sql": """
{{ config(materialized='incremental', unique_key='id', incremental_strategy=var('strategy', 'merge')) }}
select id, body, ai_gen('Reply to {body}', body) as reply from {{ ref('stg_reviews') }}
{% if is_incremental() %} where id >= (select max(id) from {{ this }}) {% endif %}
""",
    "models/nulls.sql": """
{{ config(materialized='incremental', unique_key=['k', 'n'], incremental_strategy=var('strategy', 'merge')) }}
select cast(null as bigint) as k, 1 as n, 'x' as s
""",
    "models/topics.sql": """
{{ config(materialized='table') }}
select id, ai_gen('Name the {{ var("about", "topic") }} of {body}', body) as topic from {{ ref('stg_reviews') }}
""",
    "models/reply_lengths.sql": "select id, length(reply) as n from {{ ref('replies') }}",
    "models/schema.yml": """
version: 2
sources:
  - name: raw
    schema: shop
    tables:
      - name: stg_reviews
        config: {freshness: {warn_after: {count: 1, period: day}}, loaded_at_field: written}
models:
  - name: replies
    description: A reply to each review.
    columns:
      - name: id
        data_tests: [unique, not_null]
      - name: body
        data_tests: [{relationships: {arguments: {to: ref('reviews'), field: body}}}]
  - name: topics
    config: {contract: {enforced: true}}
    columns:
      - {name: topic, data_type: text}
      - {name: id, data_type: bigint, constraints: [{type: not_null}]}
""",
    "snapshots/kept.yml": """
snapshots:
  - name: kept
    relation: ref('reviews')
    config: {unique_key: id, strategy: check, check_cols: [price]}
""",
}
_MORE = {
    "models/said.sql": """
{{ config(materialized='view', grants={'select': ['ann']}) }}
select id, ai_gen('Say {body}', body) as reply from {{ ref('stg_reviews') }}
""",
    "models/heard.sql": """
{{ config(materialized='table', grants={'select': ['ann']}, pre_hook="select 1; select ';' -- two; statements") }}
with said as (select * from {{ ref('said') }})
select id, reply, {{ dbt.dateadd('quarter', 1, dbt.date(2024, 1, 31)) }} as later,
    {{ dbt.last_day("cast('2024-02-03' as date)", 'month') }} as last,
    {{ dbt.safe_cast("'x'", api.Column.translate_type('integer')) }} as no,
    {{ dbt.current_timestamp() }} as at, cast('1.2345' as {{ dbt.type_float() }}) as f
from said
""",
    "models/days.sql": """
{{ config(post_hook="set flightllm.timeout = 0.000001") }}
{{ dbt.date_spine('day', "cast('2024-02-27' as date)", "cast('2024-03-02' as date)") }}
""",
}
"""Models of one test alone."""
_OPTIONS = "materialized='incremental', unique_key='id', "
_NEW = "{% if is_incremental() %} select 1 as id, 'new' as a, 'new' as b union all select 2, 'new', 'new'"
_OLD = " {% else %} select 0 as id, 'old' as a, 'old' as b union all select 1, 'old', 'old' {% endif %}"
_WIDER = (
    "{% if is_incremental() %} select 1 as id, 9 as a, true as c {% else %} select 0 as id, 7 as a, 8 as b {% endif %}"
)
_INCREMENTAL = {
    name: "{{ config(" + _OPTIONS + options + ") }} " + sql
    for name, options, sql in (
        ("only", "merge_update_columns=['a']", _NEW + _OLD),
        ("excluded", "merge_exclude_columns=['a']", _NEW + _OLD),
        ("some", "incremental_predicates=['DBT_INTERNAL_DEST.id > 1']", _NEW + _OLD),
        ("replaced", "incremental_strategy='delete+insert', incremental_predicates=['id > 1']", _NEW + _OLD),
        ("own", "incremental_strategy='first_only'", _NEW + _OLD),
        ("appended", "on_schema_change='append_new_columns', merge_update_columns=['c']", _WIDER),
        ("synced", "on_schema_change='sync_all_columns'", _WIDER.replace("9", "'new'")),
        ("failed", "on_schema_change='fail'", _WIDER),
    )
}
_GROWN = """
snapshots:
  - name: grown
    relation: ref('appended')
    config: {unique_key: id, strategy: check, check_cols: all}
"""
_OWN = """
{% macro get_incremental_first_only_sql(arguments) %}
insert into {{ arguments['target_relation'] }} select * from {{ arguments['temp_relation'] }} where id = 1
{% endmacro %}
"""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database with an engine whose answers have a price."""
    engine = EngineConfig(kind="fake", max_in_flight=8, price_output=1.0)
    database = Database.open(Config(engine=engine, data_folder=tmp_path / "data"))
    yield database
    database.close()


@pytest.fixture
def server(database: Database) -> Iterator[FlightSqlServer]:
    """Serve it."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"))
    yield server
    server.drain(0)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Write a project."""
    folder = tmp_path / "project"
    for name, content in _FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def process() -> Iterator[subprocess.Popen[str]]:
    """Start dbt once for all tests."""
    more = {"PYTHONPATH": str(_PACKAGE), "DO_NOT_TRACK": "1"}
    command = [str(_PYTHON), str(Path(__file__).with_name("dbt_runner.py"))]
    with subprocess.Popen(
        command, env=os.environ | more, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        yield started
        started.kill()


def test_statements() -> None:
    """A semicolon in a text, a nested comment or a dollar quote ends no statement; `a$1$` is a name."""
    wanted = {
        "select 1; select ';' -- two;": ["select 1", " select ';' -- two;"],
        "select /* a /* ; */ b; */ 1; select 2": ["select /* a /* ; */ b; */ 1", " select 2"],
        "select a$1$; select b$1$": ["select a$1$", " select b$1$"],
        "select $t$;$$;$t$; -- end": ["select $t$;$$;$t$"],
        "/* only; */": ["/* only; */"],
    }
    names = "import json, sys; from dbt.adapters.flightllm.connections import statements"
    code = f"{names}; print(json.dumps({{sql: statements(sql) for sql in sys.argv[1:]}}))"
    command = [str(_PYTHON), "-c", code, *wanted]
    more = {"PYTHONPATH": str(_PACKAGE), "DO_NOT_TRACK": "1"}
    done = subprocess.run(command, env=os.environ | more, capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout) == wanted


@pytest.fixture
def dbt(process: subprocess.Popen[str], project: Path) -> Dbt:
    """Return what runs a command of dbt for a port, and returns its log."""

    def run(port: int, *arguments: str) -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        limit = threading.Timer(120, process.kill)
        limit.start()
        process.stdin.write(json.dumps({"folder": str(project), "port": port, "arguments": arguments}) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        limit.cancel()
        return str(json.loads(answer))

    return run


def test_a_project(server: FlightSqlServer, database: Database, project: Path, dbt: Dbt) -> None:
    """Models ask only for new rows, and the log has the cost of each model and of the run."""
    first = dbt(server.port, "build", "-s", "reviews", "stg_reviews", "replies", "topics")
    assert "ERROR=0" in first, first
    assert "OK 3 rows, 3 calls (0 from the cache)" in first
    assert "This run asked for 6 calls (0 from the cache)" in first
    costs = _costs(project)
    assert set(costs) == {"replies", "topics"}
    assert costs["topics"].pop("tokens") > 0
    assert costs["topics"].pop("price") > 0
    assert costs["topics"] == {"calls": 3, "cached": 0}
    assert f", ${costs['replies']['price']:.6f}" in first, first
    assert "constraint type not_null is not supported" in first  # dbt's warning of a contract
    _add(project, 4)
    log = dbt(server.port, "build", "-s", "reviews", "stg_reviews", "replies")
    assert "ERROR=0" in log, log
    assert "OK 2 rows, 2 calls (1 from the cache)" in log, log
    rows = ask(database.session(), "SELECT id FROM shop.replies ORDER BY id").rows
    assert [row["id"] for row in rows] == [1, 2, 3, 4]


def _add(project: Path, number: int) -> None:
    """Add a row to the seed, and change the price of the first one."""
    seed = project / "seeds" / "reviews.csv"
    before = seed.read_text(encoding="utf-8").replace("late,4.5", "late,4.6")
    seed.write_text(f"{before}{number},New {number},3,2024-01-05\n", encoding="utf-8")


@pytest.mark.slow
def test_each_command(server: FlightSqlServer, database: Database, project: Path, dbt: Dbt) -> None:
    """A run over its limit keeps the old table. Each strategy, snapshots, freshness and documentation work."""
    assert "ERROR=0" in dbt(server.port, "build")
    tight = dbt(server.port, "run", "--target", "tight", "-s", "topics", "--vars", "{about: tone}")
    assert "max_calls" in tight, tight
    assert ask(database.session(), "SELECT count(*) AS n FROM shop.topics").rows == [{"n": 3}]  # the old table stays
    again = dbt(server.port, "run", "-s", "topics")
    assert "OK 3 rows, 3 calls (3 from the cache)" in again
    for number, strategy, changed in ((4, "merge", 2), (5, "delete+insert", 3), (6, "append", 2)):
        _add(project, number)
        arguments = (
            "--vars",
            json.dumps({"strategy": strategy}),
            "-s",
            "reviews",
            "stg_reviews",
            "replies",
            "nulls",
            "kept",
        )
        log = dbt(server.port, "build", "--exclude", "unique_replies_id", *arguments)
        assert "ERROR=0" in log, log
        assert f"OK {changed} rows, 2 calls (1 from the cache)" in log, log
    found = [
        batch.to_pydict() for batch in database.session().execute("SELECT id FROM shop.replies ORDER BY id").batches
    ]
    assert [number for part in found for number in part["id"]] == [1, 2, 3, 4, 5, 5, 6]
    session = database.session()
    assert ask(session, "SELECT count(*) AS n FROM shop.nulls").rows == [{"n": 2}]  # the second one is appended
    old = ask(session, "SELECT price FROM shop.kept WHERE id = 1 AND dbt_valid_to IS NOT NULL").rows
    assert old == [{"price": 4.5}]
    deletes = ask(session, "SELECT sql FROM system.queries WHERE kind = 'delete'").rows
    assert deletes == []  # each strategy is one statement
    assert "WARN freshness" in dbt(server.port, "source", "freshness")
    assert "Catalog written" in dbt(server.port, "docs", "generate")
    catalog = json.loads((project / "target" / "catalog.json").read_text(encoding="utf-8"))
    assert list(catalog["nodes"]["model.shop.replies"]["columns"]) == ["id", "body", "reply"]
    assert "ERROR=0" in dbt(server.port, "run", "--full-refresh", "-s", "replies")


def _costs(project: Path) -> dict[str, dict[str, float]]:
    """Return what each model of the last run cost, from the file that dbt writes."""
    results = json.loads((project / "target" / "run_results.json").read_text(encoding="utf-8"))["results"]
    names = ("calls", "cached", "tokens", "price")
    found = {one["unique_id"].split(".")[-1]: one["adapter_response"] for one in results}
    return {
        name: {key: one[key] for key in names} for name, one in found.items() if one.get("calls") or one.get("cached")
    }


@pytest.mark.slow
def test_incremental_options(server: FlightSqlServer, database: Database, project: Path, dbt: Dbt) -> None:
    """Options of incremental models choose the columns and rows that change."""
    (project / "macros").mkdir()
    (project / "macros" / "own.sql").write_text(_OWN, encoding="utf-8")
    (project / "snapshots" / "grown.yml").write_text(_GROWN, encoding="utf-8")
    for name, content in _INCREMENTAL.items():
        (project / "models" / f"{name}.sql").write_text(content, encoding="utf-8")
    assert "ERROR=0" in dbt(server.port, "build", "-s", *_INCREMENTAL, "grown")
    log = dbt(server.port, "build", "-s", *_INCREMENTAL, "grown")
    assert "ERROR=1" in log, log
    assert "out of sync" in log

    session = database.session()

    def rows(name: str) -> list[tuple[object, ...]]:
        found = ask(session, f'SELECT * FROM shop."{name}" ORDER BY id, a').rows
        return [tuple(row.values()) for row in found]

    old, new = [(0, "old", "old"), (1, "old", "old")], [(1, "new", "new"), (2, "new", "new")]
    assert rows("only") == [old[0], (1, "new", "old"), new[1]]
    assert rows("excluded") == [old[0], (1, "old", "new"), new[1]]
    assert rows("some") == [old[0], *sorted([old[1], new[0]]), new[1]]
    assert rows("replaced") == [old[0], *sorted([old[1], new[0]]), new[1]]
    assert rows("own") == [old[0], *sorted([old[1], new[0]])]
    assert rows("appended") == [(0, 7, 8, None), (1, 9, None, True)]
    assert [(row[0], row[-1]) for row in rows("grown")] == [
        (0, None),
        (0, None),
        (1, True),
    ]  # a snapshot gets the new column
    assert rows("synced") == [(0, "7", None), (1, "new", True)]
    assert rows("failed") == [(0, 7, 8)]


@pytest.mark.parametrize(
    "grantees", [["ann"], pytest.param(["ann", "ann", "bob"], marks=pytest.mark.slow)], ids=["once", "changed"]
)
def test_grants_and_macros(
    server: FlightSqlServer, database: Database, project: Path, dbt: Dbt, grantees: list[str]
) -> None:
    """Grants are given once and taken back, views call a model in the target's schema, and dates are as elsewhere."""
    for name in ("ann", "bob"):
        database.access.store.add_user(User(name, "user"))
    dbt(server.port, "seed")
    for grantee in grantees:
        for name, content in _MORE.items():
            (project / name).write_text(content.replace("['ann']", f"['{grantee}']"), encoding="utf-8")
        log = dbt(server.port, "run", "-s", "+heard", "days")
        assert "ERROR=0" in log, log
        assert "the cost of model.shop.days is not known: " in log
        session = database.session()
        grants = ask(session, f"SELECT name FROM system.grants WHERE grantee = '{grantee}'").rows
        assert sorted(row["name"] for row in grants) == ["heard", "said"]
    left = ask(session, "SELECT name FROM system.grants WHERE grantee = 'ann'").rows
    assert bool(left) == (grantees[-1] == "ann")
    (row,) = ask(
        session, "SELECT DISTINCT CAST(later AS VARCHAR) AS l, CAST(last AS VARCHAR) AS d, no FROM shop.heard"
    ).rows
    assert (row["l"][:10], row["d"], row["no"]) == ("2024-04-30", "2024-02-29", None)
    (row,) = ask(session, "SELECT DISTINCT arrow_typeof(at) AS kind, f FROM shop.heard").rows
    assert row == {"kind": 'Timestamp(µs, "UTC")', "f": 1.2345}
    assert ask(session, "SELECT count(*) AS n FROM shop.days").rows == [{"n": 4}]  # dbt leaves the end out


_MICROBATCH = (
    "materialized='incremental', incremental_strategy='microbatch', event_time='at', begin='2024-01-01',"
    " batch_size='day'"
)


def test_unsupported(server: FlightSqlServer, project: Path, dbt: Dbt) -> None:
    """What the server cannot do is a clear error."""
    kinds = {"view": "materialized='materialized_view'", "batch": _MICROBATCH}
    for name, config in kinds.items():
        (project / "models" / f"{name}.sql").write_text("{{ config(" + config + ") }} select 1 as at", encoding="utf-8")
    (project / "models" / "frame.py").write_text("def model(dbt, session):\n    return session\n", encoding="utf-8")
    log = dbt(server.port, "run", "-s", *kinds, "frame")
    assert "materialized_view is not supported" in log, log
    assert "microbatch is not supported" in log, log
    assert "only supports languages ['sql']" in log, log


def test_no_server(dbt: Dbt) -> None:
    """`dbt debug` says that no server answers, and what to look at."""
    log = dbt(1, "debug")
    assert "cannot use the server at grpc://127.0.0.1:1" in log
    assert "see host, port, tls and the login of the profile" in log
    assert "Vendor code" not in log
    assert "grpc+tls://0.0.0.0:1" in dbt(1, "debug", "--target", "far")  # TLS is on beyond this machine
