"""Approximate aggregates in deferred statements: each wave is a round, and no prompt is bought twice."""

from pathlib import Path

from tests.batch_endpoint import batch_provider
from tests.deferred.test_deferral import deferred, ended, opened, rows_of

COUNT = "approx_ai_count('Good? {x}', x, within => 0.15, bounds => true)"


def test_rounds_give_what_an_immediate_query_gives(tmp_path: Path) -> None:
    """The deferred interval is that of the immediate query, which then finds all answers in the cache."""
    sql = f"SELECT {COUNT} AS n FROM big"
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        session = database.session()
        session.update("CREATE TABLE big AS SELECT 'row ' || value AS x FROM generate_series(1, 500)")
        batch_id = deferred(session, sql)
        row = ended(database, batch_id)
        assert row["state"] == "done", row
        assert set(provider.asked.values()) == {1}
        [found] = database.deferred.result(batch_id, session.principal).to_pylist()
        assert found["n"]["asked"] == len(provider.asked) < 500
        assert found["n"]["high"] - found["n"]["low"] <= 0.3 * 500
        assert rows_of(session, sql) == [found]
        assert not provider.chats
        batch_id = deferred(session, sql.replace("bounds =>", "stream =>"))
        assert ended(database, batch_id)["state"] == "done"
        assert database.deferred.result(batch_id, session.principal).to_pylist() == [
            {"n": {**found["n"], "final": True}}
        ]
