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
    dev: {type: flightllm, port: "{{ env_var('SHOP_PORT') | int }}", schema: shop, threads: 2}
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
select id, ai_gen('Name the topic of {body}', body) as topic from {{ ref('stg_reviews') }}
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
""",
    "snapshots/kept.yml": """
snapshots:
  - name: kept
    relation: ref('reviews')
    config: {unique_key: id, strategy: check, check_cols: [body]}
""",
}
_MORE = {
    "models/said.sql": """
{{ config(materialized='view', grants={'select': ['ann']}) }}
select id, ai_gen('Say {body}', body) as reply from {{ ref('stg_reviews') }}
""",
    "models/heard.sql": """
{{ config(materialized='table', grants={'select': ['ann']}) }}
with said as (select * from {{ ref('said') }})
select id, reply, {{ dbt.dateadd('quarter', 1, dbt.date(2024, 1, 31)) }} as later,
    {{ dbt.last_day("cast('2024-02-03' as date)", 'month') }} as last,
    {{ dbt.safe_cast("'x'", api.Column.translate_type('integer')) }} as no
from said
""",
    "models/days.sql": """
{{ dbt.date_spine('day', "cast('2024-02-27' as date)", "cast('2024-03-02' as date)") }}
""",
}
"""Models of one test alone."""


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
    first = dbt(server.port, "build")
    assert "ERROR=0" in first, first
    assert "OK 3 rows, 3 calls (0 from the cache)" in first
    assert "This run asked for 6 calls (0 from the cache)" in first
    assert ", $" in first
    seed = project / "seeds" / "reviews.csv"
    for number, strategy, changed in ((4, "merge", 2), (5, "delete+insert", 3), (6, "append", 2)):
        seed.write_text(seed.read_text(encoding="utf-8") + f"{number},New {number},3,2024-01-05\n", encoding="utf-8")
        arguments = ("--vars", json.dumps({"strategy": strategy}), "-s", "reviews", "stg_reviews", "replies", "nulls")
        log = dbt(server.port, "build", "--exclude", "unique_replies_id", *arguments)
        assert "ERROR=0" in log, log
        assert f"OK {changed} rows, 2 calls (1 from the cache)" in log, log
    found = [
        batch.to_pydict() for batch in database.session().execute("SELECT id FROM shop.replies ORDER BY id").batches
    ]
    assert [number for part in found for number in part["id"]] == [1, 2, 3, 4, 5, 5, 6]
    session = database.session()
    assert ask(session, "SELECT count(*) AS n FROM shop.nulls").rows == [{"n": 2}]  # the second one is appended
    deletes = ask(session, "SELECT sql FROM system.queries WHERE kind = 'delete'").rows
    assert deletes == []  # each strategy is one statement
    assert "WARN freshness" in dbt(server.port, "source", "freshness")
    assert "Catalog written" in dbt(server.port, "docs", "generate")
    catalog = json.loads((project / "target" / "catalog.json").read_text(encoding="utf-8"))
    assert list(catalog["nodes"]["model.shop.replies"]["columns"]) == ["id", "body", "reply"]
    assert "ERROR=0" in dbt(server.port, "run", "--full-refresh", "-s", "replies")


def test_grants_and_macros(server: FlightSqlServer, database: Database, project: Path, dbt: Dbt) -> None:
    """Grants are given once and taken back, views call a model in the target's schema, and dates are as elsewhere."""
    for name in ("ann", "bob"):
        database.access.store.add_user(User(name, "user"))
    for name, content in _MORE.items():
        (project / name).write_text(content, encoding="utf-8")
    dbt(server.port, "seed")
    for before, grantee in (("ann", "ann"), ("ann", "ann"), ("ann", "bob")):
        for name in ("said", "heard"):
            model = project / "models" / f"{name}.sql"
            model.write_text(
                model.read_text(encoding="utf-8").replace(f"['{before}']", f"['{grantee}']"), encoding="utf-8"
            )
        log = dbt(server.port, "run", "-s", "+heard", "days")
        assert "ERROR=0" in log, log
        session = database.session()
        grants = ask(session, f"SELECT name FROM system.grants WHERE grantee = '{grantee}'").rows
        assert sorted(row["name"] for row in grants) == ["heard", "said"]
    assert ask(session, "SELECT name FROM system.grants WHERE grantee = 'ann'").rows == []
    (row,) = ask(
        session, "SELECT DISTINCT CAST(later AS VARCHAR) AS l, CAST(last AS VARCHAR) AS d, no FROM shop.heard"
    ).rows
    assert (row["l"][:10], row["d"], row["no"]) == ("2024-04-30", "2024-02-29", None)
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
    log = dbt(server.port, "run", "-s", *kinds)
    assert "materialized_view is not supported" in log, log
    assert "microbatch is not supported" in log, log


def test_no_server(dbt: Dbt) -> None:
    """`dbt debug` says that no server answers, and what to look at."""
    log = dbt(1, "debug")
    assert "cannot use the server at grpc://127.0.0.1:1" in log
    assert "see host, port, tls and the login of the profile" in log
    assert "Vendor code" not in log
