"""The option `WITH (delivery = …)` of one statement."""

import pytest

from flightllm.errors import SqlError
from flightllm.sql.delivery_option import without_delivery


@pytest.mark.parametrize(
    ("sql", "left", "value"),
    [
        ("INSERT INTO t SELECT 1 WITH (delivery = 'batch')", "INSERT INTO t SELECT 1", "batch"),
        ("select 1 with ( DELIVERY = Batch ) ;", "select 1  ;", "Batch"),
        ('SELECT 1 WITH (delivery = "immediate")', "SELECT 1", "immediate"),
        ("CREATE TABLE t WITH (delivery = 'batch') AS SELECT 1", "CREATE TABLE t  AS SELECT 1", "batch"),
        ("WITH a AS (SELECT 1) SELECT * FROM a WITH (delivery = 'x')", "WITH a AS (SELECT 1) SELECT * FROM a", "x"),
        ("WITH delivery AS (SELECT 1) SELECT * FROM delivery", None, None),
        ("SELECT delivery FROM (SELECT 1 AS delivery) AS s", None, None),
        ("SELECT 'WITH (delivery = ''batch'')'", None, None),
        ("SELECT 1 -- WITH (delivery = 'batch')", None, None),
        ("SET flightllm.delivery = 'batch'", None, None),
        (r"SELECT 'it\'s', delivery FROM t", None, None),
        (r"SELECT 'it\'s with (delivery = x)'", None, None),
        (r"SELECT 'it\'s' WITH (delivery = 'batch');", r"SELECT 'it\'s' ;", "batch"),
        (r"CREATE TABLE t WITH (delivery = batch) AS SELECT 'it\'s'", r"CREATE TABLE t AS SELECT 'it\'s'", "batch"),
        ("CREATE FILTER delivery ON t WITH (precision = 0.9)", None, None),
        ("EXPLAIN CREATE FILTER f ON t WITH (recall = 0.9)", None, None),
        ("EXPLAIN ALTER FILTER f WITH (recall = 0.9)", None, None),
        ("explain analyze CREATE FUNCTION f(t TEXT) AS ai_filter('?', t) WITH (precision = 0.9)", None, None),
        (
            "EXPLAIN (ANALYZE, FORMAT JSON) (SELECT 1) WITH (delivery = 'batch')",
            "EXPLAIN (ANALYZE, FORMAT JSON) (SELECT 1)",
            "batch",
        ),
        ("SELECT * FROM t WITH (NOLOCK)", None, None),
        ("SELECT * FROM t WITH (INDEX = x)", None, None),
        ("SELECT 1 FROM (SELECT 2) AS with_x (delivery)", None, None),
        ("CREATE TABLE view WITH (fillfactor = 70) AS SELECT 1", None, None),
        (
            "CREATE TABLE v AS SELECT view FROM t WITH (delivery = 'batch')",
            "CREATE TABLE v AS SELECT view FROM t",
            "batch",
        ),
    ],
)
def test_option(sql: str, left: str | None, value: str | None) -> None:
    """The option is found at the end or before AS, and nowhere else; spaces take its place.

    Texts with the quotes of other dialects are read too.
    """
    text, found = without_delivery(sql)
    assert found == value
    assert text.split() == (sql if left is None else left).split()
    assert len(text) == len(sql)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("INSERT INTO t WITH (delivery = 'batch') SELECT 1", r"at 1:15: text follows it: write WITH"),
        ("SELECT 1 WITH (delivery = 'batch', max_cost = 1)", "the only option"),
        ("SELECT 1 WITH (delivery = 3)", "'batch' or 'immediate'"),
        ("SELECT 1 WITH (delivery =", "'batch' or 'immediate'"),
        ("SELECT x FROM t WITH (delivry = 'batch')", "no option 'delivry', at 1:23: write WITH"),
        ("INSERT INTO t SELECT x FROM t WITH (mode = 'batch')", "no option 'mode'"),
        ("UPDATE t SET x = 1 WITH (delivery = 'batch')", "UPDATE cannot wait: keep the answers by CREATE TABLE"),
        ("EXPLAIN SELECT x FROM t WITH (delivry = 'batch')", "no option 'delivry'"),
        ("EXPLAIN UPDATE t SET x = 1 WITH (delivery = 'batch')", "UPDATE cannot wait"),
        ("delete from t with (delivery = 'batch')", "DELETE cannot wait"),
        ("CREATE VIEW v AS SELECT 1 FROM t WITH (delivery = 'batch')", "a view keeps no delivery"),
        ("CREATE OR REPLACE VIEW v (a) AS SELECT 1 FROM t WITH (delivery = 'batch')", "a view keeps no delivery"),
    ],
)
def test_wrong_options(sql: str, said: str) -> None:
    """A wrong form is an error with its place and the right form."""
    with pytest.raises(SqlError, match=said):
        without_delivery(sql)
