"""The tools of agents, called by the official client against a real server."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from types import MappingProxyType

import pytest
from mcp import Client as McpClient
from mcp import MCPError

from flightllm.access.store import Allowance, User
from flightllm.common.names import quoted
from flightllm.config import Config, EmbeddingConfig, EngineConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.databases import SAMPLES
from tests.indexes import FRUIT
from tests.mcp.support import Agent, agent
from tests.mcp.support import told as call

Agents = Callable[..., Agent]
BREACHES = (
    "INSERT INTO open_t VALUES (1, 'x')",
    "DROP TABLE open_t",
    "DELETE FROM open_t",
    "TRUNCATE open_t",
    "WITH x AS (SELECT 1 AS a) INSERT INTO open_t SELECT a, 'x' FROM x",
    "EXPLAIN ANALYZE INSERT INTO open_t VALUES (1, 'x')",
    "SELECT 1; DROP TABLE open_t",
    "INSERT INTO open_t VALUES (1, 'x') RETURNING a",
    "CREATE TEMPORARY TABLE mine AS SELECT 1 AS a",
    "GRANT SELECT ON shut_t TO ann",
    "CREATE MODEL m OPTIONS (engine 'fake')",
    "SET flightllm.read_only = 'off'",
    "RESET flightllm.all",
    "COPY open_t TO '/tmp/open_t.csv'",
    "/* SELECT */ INSERT INTO open_t VALUES (1, 'x')",
)


MISTAKES: tuple[tuple[str, dict[str, object], str], ...] = (
    ("query", {}, "'sql' is a required property"),
    ("query", {"sql": ""}, "sql: "),
    ("query", {"sql": "SELECT 1", "limit": 5}, "'limit' was unexpected"),
    ("query", {"sql": "SELECT 1", "max_rows": 100_000}, "max_rows: 100000"),
    ("query", {"sql": "SELECT nope FROM open_t"}, "nope"),
    ("query", {"sql": "SELEC 1"}, "SELEC"),
    ("query", {"sql": "SELECT '\ud800'"}, "surrogate"),
    ("describe", {"table": "open"}, "open_t"),
    ("describe", {"table": "open_t; DROP TABLE open_t"}, "no table"),
    ("search", {"query": "x"}, "no vector index"),
    ("search", {"query": "x", "mode": "magic"}, "mode: 'magic'"),
    ("estimate_cost", {"sql": "SELECT ai_gne('x')"}, "ai_gen"),
)


def test_changes_are_refused(as_user: Agents, database: Database) -> None:
    """Without `--allow-changes`, no statement of an admin changes anything, whatever its form."""
    before = database.session().catalog.entries

    async def work(client: McpClient) -> list[str]:
        return [sql for sql in BREACHES if not (await call(client, "query", {"sql": sql})).failed]

    assert as_user().ask(work) == []
    assert database.session().catalog.entries == before


def test_no_setting_raises_a_limit(as_user: Agents) -> None:
    """A setting of the session can be changed, but the limits hold: they come with each call."""
    root = as_user(calls=5)

    async def work(client: McpClient) -> list[bool]:
        texts = ("SET flightllm.max_calls = 'none'", "EXPLAIN ANALYZE SELECT ai_gen('Tell of {b}', b) FROM open_t")
        return [(await call(client, "query", {"sql": sql})).failed for sql in texts]

    assert root.ask(work) == [False, True]


def test_changes_can_be_allowed(as_user: Agents) -> None:
    """With `--allow-changes` the tool changes tables, counts rows, and says so in its hints."""
    root = as_user(changes=True)
    assert not root.call("query", sql="CREATE OR REPLACE TABLE notes AS SELECT 1 AS a").failed
    told = root.call("query", sql="INSERT INTO notes VALUES (2), (3)")
    assert told.data["affected"] == 2
    assert "2 rows affected" in told.text
    tools = root.ask(lambda client: client.list_tools()).tools
    hints = {tool.name: tool.annotations for tool in tools}
    assert [name for name, hint in hints.items() if not hint.read_only_hint] == ["query"]
    assert hints["query"].destructive_hint
    assert not root.call("query", sql="DROP TABLE notes").failed


def test_rights_hold(as_user: Agents) -> None:
    """An agent lists, describes and queries only what its user can read."""
    ann = as_user("ann")
    assert [one["name"] for one in ann.call("list_tables").data["tables"]] == ["open_t"]
    assert not ann.call("describe", table="open_t").failed
    for tool, arguments in (("describe", {"table": "shut_t"}), ("query", {"sql": "SELECT * FROM shut_t"})):
        told = ann.call(tool, **arguments)
        assert told.failed
        assert "shut_t" in told.text


def test_answers_say_what_they_cost(as_user: Agents) -> None:
    """Calls, answers from the cache, tokens, price and seconds are in the JSON and in the text."""
    root = as_user()
    sql = "SELECT a, ai_gen('Cost of {b}', b) AS told FROM open_t WHERE a <= 3"
    first, again = root.call("query", sql=sql), root.call("query", sql=sql)
    assert (first.data["cost"]["calls"], first.data["cost"]["cached"]) == (3, 0)
    assert first.data["cost"]["price"] > 0
    assert "Spent: 3 model calls, " in first.text
    assert (again.data["cost"]["calls"], again.data["cost"]["cached"]) == (0, 3)


def test_costly_statements_are_refused(as_user: Agents) -> None:
    """A statement above a limit is refused before its first call, with its estimate and what to do."""
    sql = "SELECT ai_gen('Refused {b}', b) AS told FROM open_t"
    dear = as_user(cost=0.001).call("query", sql=sql)
    many = as_user(calls=10).call("query", sql=sql)
    own = as_user().call("query", sql=sql, max_calls=20)
    assert "a cost of" in dear.text
    assert "500" in many.text
    for told in (dear, many, own):
        assert told.failed
        assert "--max-cost" in told.text
    estimate = as_user(calls=10).call("estimate_cost", sql=sql)
    assert estimate.data["predicted"]["calls"] == 500
    assert f"{estimate.data['predicted']['seconds']:,.1f} s" in estimate.text.splitlines()[0]
    assert not estimate.data["allowed"]
    assert estimate.data["cost"]["calls"] == 0
    assert as_user(cost=None).call("estimate_cost", sql="SELECT 1").data["allowed"]


def test_cut_rows_are_told(as_user: Agents) -> None:
    """An answer says how many rows are left and how to get them; rows of a model are not paid to be counted."""
    root = as_user()
    told = root.call("query", sql="SELECT a FROM open_t ORDER BY a", max_rows=2)
    assert told.data["rows"] == [[1], [2]]
    assert told.data["rows_left"] == 498
    assert "OFFSET 2" in told.text
    asked = as_user(cost=None).call("query", sql="SELECT ai_gen('Cut {b}', b) FROM open_t", max_rows=2)
    assert asked.data["row_count"] == 2
    assert asked.data["rows_left"] is None or asked.data["cost"]["calls"] == 500
    assert "the rows are cut" in asked.text


def test_cut_cells_are_told(as_user: Agents) -> None:
    """A long text says how much is missing; wide answers stop at a number of characters."""
    root = as_user()
    told = root.call("query", sql="SELECT repeat('x', 5000) AS long, 'short' AS s", max_characters=10)
    assert told.data["rows"] == [["xxxxxxxxxx… (4,990 characters more)", "short"]]
    assert told.data["cut_cells"] == 1
    assert "max_characters" in told.text
    wide = root.call("query", sql="SELECT repeat('x', 30000) FROM open_t", max_rows=100, max_characters=50_000)
    assert wide.data["row_count"] == 2
    assert wide.data["rows_left"] == 498


def test_all_values_are_json(as_user: Agents) -> None:
    """NaN, infinity, decimals, large numbers, dates, bytes and nested values are valid JSON that loses nothing."""
    sql = (
        "SELECT 'nan'::DOUBLE, '-inf'::DOUBLE, 1.50::DECIMAL(10,2), 9007199254740993, DATE '2024-01-02',"
        " TIMESTAMP '2024-01-02 03:04:05.678', arrow_cast(x'00ff', 'Binary'), NULL, true, ['a', NULL], {'k': 1.5},"
        " INTERVAL '1 day', 'a|b' || chr(10) || 'ü\\'"
    )
    told = as_user().call("query", sql=sql)
    [row] = told.data["rows"]
    assert row[:5] == ["NaN", "-Infinity", "1.50", "9007199254740993", "2024-01-02"]
    assert row[5].startswith("2024-01-02 03:04:05.678")
    assert row[6:11] == ["<2 bytes>", None, True, ["a", None], {"k": 1.5}]
    assert row[12] == "a|b\nü\\"
    assert "a\\|b<br>ü\\\\" in told.text
    json.dumps(told.data, allow_nan=False)


def test_errors_are_for_the_agent(as_user: Agents) -> None:
    """An error is the answer of its tool, with the server's message and advice, and without a traceback."""

    async def work(client: McpClient) -> None:
        for tool, arguments, said in MISTAKES:
            told = await call(client, tool, arguments)
            assert told.failed, arguments
            assert said in told.text
            assert "Traceback" not in told.text

    as_user().ask(work)


@pytest.mark.slow
def test_names_are_found(as_user: Agents, database: Database) -> None:
    """The name in the list works in `describe` and in SQL, whatever characters it has; a plain name works too."""
    names = ('a "b', "two.parts", "select", "日本")
    admin = database.session()
    for name in names:
        quoted = name.replace('"', '""')
        admin.update(f'CREATE OR REPLACE TABLE "{quoted}" AS SELECT 1 AS "x|y"')

    async def work(client: McpClient) -> None:
        tables = (await call(client, "list_tables", {})).data["tables"]
        listed = {one["name"]: one["sql"] for one in tables}
        for name in names:
            for text in (name, listed[name]):
                assert (await call(client, "describe", {"table": text})).data["name"] == name
            found = await call(client, "query", {"sql": f"SELECT * FROM {listed[name]}"})
            assert found.data["rows"] == [[1]]
            admin.update(f"DROP TABLE {listed[name]}")

    as_user().ask(work)


def test_describe_asks_no_model(as_user: Agents) -> None:
    """The rows of a view with an AI function would cost calls, so they are left out, with a note."""
    root = as_user(changes=True)
    view = "CREATE OR REPLACE VIEW told AS SELECT a, ai_gen('View {b}', b) AS t FROM open_t"
    assert not root.call("query", sql=view).failed
    found = root.call("describe", table="told")
    assert [one["name"] for one in found.data["columns"]] == ["a", "t"]
    assert found.data["sample"] is None
    assert found.data["cost"]["calls"] == 0
    assert found.data["notes"]
    for sql in ("DESCRIBE told", "SHOW COLUMNS FROM told"):
        ann = as_user("ann").call("query", sql=sql)
        assert ann.failed, ann  # a view that is not granted
    assert not root.call("query", sql="DROP VIEW told").failed


@pytest.mark.parametrize("name", ["table", "lateral", "unnest", "select", "Mixed Case", "a.b", 'a"b'])
def test_names_can_be_read(as_user: Agents, name: str) -> None:
    """An agent can put the listed name of a table into a query, and describe the table by it."""
    root = as_user(changes=True)
    assert not root.call("query", sql=f"CREATE TABLE {quoted(name)} AS SELECT 1 AS n").failed
    [listed] = [one["sql"] for one in root.call("list_tables").data["tables"] if one["name"] == name]
    assert root.call("query", sql=f"SELECT n FROM {listed}").data["rows"] == [[1]]
    assert root.call("describe", table=listed).data["row_count"] == 1
    assert not root.call("query", sql=f"DROP TABLE {listed}").failed


def test_resources_and_prompt(as_user: Agents) -> None:
    """Each table is a resource with its columns and first rows; the prompt and the instructions name the functions."""
    ann = as_user("ann")
    [resource] = ann.ask(lambda client: client.list_resources()).resources
    assert resource.uri == "flightllm://tables/public/open_t"
    [contents] = ann.ask(lambda client: client.read_resource(resource.uri)).contents
    assert "| 1 | text 1 |" in contents.text

    async def refused(client: McpClient) -> str:
        with pytest.raises(MCPError) as caught:
            await client.read_resource("flightllm://tables/public/shut_t")
        return str(caught.value)

    assert "shut_t" in ann.ask(refused)
    prompt = ann.ask(lambda client: client.get_prompt("ai_functions", {"question": "Who is angry?"}))
    assert "ai_filter(" in prompt.messages[0].content.text
    assert "Who is angry?" in prompt.messages[0].content.text


@contextmanager
def served(folder: Path, *statements: str, tables: Mapping[str, Path] = MappingProxyType({})) -> Iterator[Agent]:
    """Serve a database with some tables, which begins with some statements, to an agent."""
    engine, embedding = EngineConfig("fake"), EmbeddingConfig("fake")
    config = Config(engine=engine, embedding=embedding, tables=tables, data_folder=folder)
    with closing(Database.open(config)) as database:
        session = database.session()
        for sql in statements:
            session.update(sql)
        server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"))
        yield agent(server.uri, "")
        server.drain(0)


@pytest.mark.slow
def test_search(tmp_path: Path) -> None:
    """The only index is found by itself; each mode, the filter and the number of rows reach the server."""
    pytest.importorskip("faiss", reason="the extra 'vector' is not installed")
    pytest.importorskip("tantivy", reason="the extra 'vector' is not installed")
    with served(tmp_path, FRUIT, "CREATE VECTOR INDEX names ON fruit(name)") as someone:
        for mode in ("vector", "text", "hybrid"):
            found = someone.call("search", query="apple", mode=mode, top_k=2)
            assert found.data["row_count"] == 2, mode
            assert "apple" in found.data["rows"][0][1]
        kept = someone.call("search", query="apple", index="names", filter="name <> 'apple pie'", top_k=1)
        assert kept.data["rows"][0][1] == "a red apple"
        assert someone.call("describe", table="fruit").data["indexes"] == ["names"]
        assert "nope" in someone.call("search", query="apple", index="nope").text
        assert someone.call("search", query='it\'s "x"').data["row_count"] == 5


def test_an_empty_database(tmp_path: Path) -> None:
    """Without tables the list is empty and says so; a model without prices needs no limit of the cost."""
    with served(tmp_path) as someone:
        assert someone.call("list_tables").data["total"] == 0
        assert someone.ask(lambda client: client.list_resources()).resources == []
        found = someone.call("query", sql="SELECT ai_gen('Say hello') AS a")
        assert found.data["cost"]["price"] is None
        assert found.data["cost"]["calls"] == 1
        assert someone.call("query", sql="SELECT ai_gen('Say hello') AS a", max_cost=1).failed


@pytest.mark.slow
def test_two_thousand_tables(tmp_path: Path) -> None:
    """Long lists come in parts: the tool says how many are left, and resources have pages."""
    tables = {f"v{number:04}": SAMPLES["products"] for number in range(2_000)}
    with served(tmp_path, tables=tables) as someone:
        first = someone.call("list_tables")
        assert (len(first.data["tables"]), first.data["total"], first.data["left"]) == (200, 2_000, 1_800)
        assert "offset=200" in first.text
        last = someone.call("list_tables", offset=1_900, limit=1_000)
        assert (last.data["tables"][-1]["name"], last.data["left"]) == ("v1999", 0)
        assert someone.call("list_tables", contains="V012").data["total"] == 10

        async def pages(client: McpClient) -> list[str]:
            names, cursor = list[str](), None
            while True:
                page = await client.list_resources(cursor=cursor)
                names += [one.name for one in page.resources]
                cursor = page.next_cursor
                if cursor is None:
                    return names

        assert len(someone.ask(pages)) == 2_000


def test_daily_limits_hold(as_user: Agents, database: Database) -> None:
    """A user's own daily limit ends the calls of an agent, and the answer says why rows are NULL."""
    database.access.store.add_user(User("bob", "user", allowance=Allowance(calls=2)))
    database.session().update("GRANT SELECT ON open_t TO bob")
    sql = "SELECT a, ai_gen('Daily {b}', b) AS told FROM open_t WHERE a <= 5"
    found = as_user("bob").call("query", sql=sql)
    assert found.failed or found.data["cost"]["calls"] <= 2
    assert "`flightllm user set`" in found.text
