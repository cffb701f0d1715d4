"""A statement becomes a tree and a text again, and its parts keep their places in the client's text."""

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from flightllm.sql.complexity import measure
from flightllm.sql.nodes import Json, Node, body, kind, name_of, new_identifier, rebuilt, text_of_literal, walk
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tree import DEEPEST, LONGEST, Tree, depth, parse, parse_query, text_of
from tests.sql.test_guard import SHAPES

DEEP: dict[str, Callable[[int], str]] = {
    **{name: build for name, (build, _) in SHAPES.items()},
    "calls": lambda n: "SELECT " + "f(" * n + "a" + ")" * n,
    "casts": lambda n: "SELECT " + "CAST(" * n + "a" + " AS int)" * n,
    "cases": lambda n: "SELECT " + "CASE a WHEN 1 THEN " * n + "a" + " END" * n,
    "a chain in calls": lambda n: "SELECT " + "f(" * 40 + "+".join(["a"] * n) + ")" * 40,
    "distinct": lambda n: "SELECT a FROM t WHERE " + " OR ".join(["a IS DISTINCT FROM b"] * n),
    "except all": lambda n: " EXCEPT ALL ".join(["SELECT a FROM t"] * n),
}
_RUN = """
import sys, threading
import pyarrow.flight as flight
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tree import parse

def run(text):
    for sql in text.split(";"):
        parse(ParsedText(sql)).printed()

class Server(flight.FlightServerBase):
    def do_action(self, context, action):
        run(action.body.to_pybytes().decode())
        return []

text = sys.stdin.read()
threading.stack_size(2 << 20)
thread = threading.Thread(target=run, args=(text,))
thread.start()
thread.join()
threading.stack_size(0)
thread = threading.Thread(target=run, args=(text,))
thread.start()
thread.join()
with Server("grpc://127.0.0.1:0") as server, flight.connect(f"grpc://127.0.0.1:{server.port}") as client:
    list(client.do_action(flight.Action("parse", text.encode())))
print("survived")
"""


def tree(sql: str) -> Tree:
    """Return the tree of a text that the parser reads."""
    found = parse(ParsedText(sql))
    assert found is not None
    return found


def deepest(build: Callable[[int], str], most: float) -> str:
    """Return the longest text of a shape that is at most so deep and has no more nesting than the guard allows."""
    low, high = 1, 2_000
    while low < high:
        middle = (low + high + 1) // 2
        complexity = measure(ParsedText(build(middle)).tokens)
        fits = depth(complexity) <= most and complexity.nested_parentheses <= 45
        low, high = (middle, high) if fits else (low, middle - 1)
    return build(low)


def test_deepest_texts_are_parsed_on_the_threads_of_a_server() -> None:
    """Threads of 2 MiB and of the default size and those of gRPC parse and print the deepest texts of each shape."""
    sql = ";".join(deepest(build, DEEPEST) for build in DEEP.values())
    done = subprocess.run([sys.executable, "-c", _RUN], input=sql, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "survived", (done.returncode, done.stderr[-500:])


@pytest.mark.parametrize("shape", [name for name in DEEP if name not in {"calls", "casts", "cases"}])
def test_deeper_texts_are_parsed(shape: str) -> None:
    """The deepest texts that the guard lets through become a tree and a text again, on a stack of 2 MiB."""
    sql = deepest(DEEP[shape], DEEPEST * 3)
    assert depth(measure(ParsedText(sql).tokens)) > DEEPEST
    found = list[str]()

    def run() -> None:
        found.append(tree(sql).printed())

    before = threading.stack_size(2 << 20)
    thread = threading.Thread(target=run)
    thread.start()
    threading.stack_size(before)
    thread.join()
    assert found[0].count("a") >= sql.count("a")


def test_long_texts_are_not_parsed() -> None:
    """The parser holds the interpreter, so a text of a megabyte stays as it is."""
    assert parse(ParsedText("SELECT a FROM t WHERE a IN (" + "1, " * (LONGEST // 3) + "1)")) is None


@pytest.mark.parametrize("sql", ["SELECT", "DROP MODEL m", "CREATE MODEL m FROM 'x'", "SELECT 1; SELECT 2", ""])
def test_other_texts_are_not_parsed(sql: str) -> None:
    """A text that the parser does not read is no error here."""
    assert parse(ParsedText(sql)) is None


@pytest.mark.parametrize(
    ("sql", "printed"),
    [
        ("select a -- one\n from t", "SELECT a FROM t"),
        ("SELECT f(a, b => {x: 1}), x['a'], $1, ?, E'a\\n'", "SELECT f(a, b => {x: 1}), x['a'], $1, ?, E'a\\n'"),
        ("DELETE FROM t WHERE a = 1 RETURNING a", "DELETE FROM t WHERE a = 1 RETURNING a"),
        ("CREATE VIEW v AS SELECT 1 x", "CREATE VIEW v AS SELECT 1 AS x"),
    ],
)
def test_printed(sql: str, printed: str) -> None:
    """A text without its comments comes back."""
    assert tree(sql).printed() == printed


def test_places() -> None:
    """Names and literals have places in the text, over lines, signs of several bytes and masked predicates."""
    sql = "SELECT 'ä😀', b\nFROM \"T t\" WHERE b IS NOT\n  DISTINCT FROM 'c''d' AND e = 7"
    found = tree(sql)
    assert sorted(sql[start:end] for start, end in found.spans(found.root)) == sorted(
        ["'ä😀'", "b", '"T t"', "b", "'c''d'", "e", "7"]
    )
    (seven,) = (node for node in walk(found.root) if kind(node) == "Value" and "7" in str(body(node)["value"]))
    assert found.position(seven) == "3:32"


def test_walk_and_rebuild() -> None:
    """Nodes are replaced from the leaves on; the tree before stays, and so does a tree without a change."""
    found = tree("SELECT a + b FROM t WHERE a = 1")

    def change(node: Node) -> Json:
        if kind(node) == "Identifier" and name_of(body(node)) == "a":
            return {"Identifier": new_identifier("A b")}
        return node

    assert found.rebuilt(change).printed() == 'SELECT "A b" + b FROM t WHERE "A b" = 1'
    assert found.printed() == "SELECT a + b FROM t WHERE a = 1"
    assert found.rebuilt(lambda node: node) is found
    assert [kind(node) for node in walk(found.root)][:3] == ["Query", "Select", "UnnamedExpr"]


def test_rebuilds_deep_trees() -> None:
    """A chain is deeper than Python's recursion limit."""
    found = tree(deepest(DEEP["plus"], DEEPEST))
    assert rebuilt(found.root, lambda node: node) is found.root


def test_written_queries() -> None:
    """A query that a pass writes has no places, and an expression is text."""
    select = parse_query("SELECT a + 1 FROM t")
    assert list(Tree("", select).spans(select)) == []
    assert text_of(body(body(select)["projection"][0])) == "a + 1"
    with pytest.raises(ValueError, match="not a query"):
        parse_query("SELECT")


def test_all_operators_in_use() -> None:
    """A text that has all operators itself is not parsed: none is left to stand for the predicate."""
    assert parse(ParsedText("SELECT a <=> b, a ~~ b, a ~~* b, a !~~ b, a !~~* b, a IS DISTINCT FROM b")) is None


def test_the_text_of_a_literal() -> None:
    """A text literal has a text, also an empty one; numbers, columns and NULL have none."""
    values = [node for node in walk(parse_query("SELECT 'It''s', '', 1, NULL, a")) if kind(node) == "Value"]
    assert [text_of_literal(one) for one in values] == ["It's", "", None, None]
    assert text_of_literal({"Identifier": new_identifier("a")}) is None
