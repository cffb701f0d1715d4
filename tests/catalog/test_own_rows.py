"""The system tables in the hands of users: what they tell of rows, paths and addresses that are kept from them."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from flightllm.access.store import User
from flightllm.common.principal import Principal
from tests.databases import open_database, rows
from tests.indexes import FRUIT
from tests.indexes import open_database as open_embedding


def test_what_figures_tell_of_hidden_rows(tmp_path: Path) -> None:
    """Whoever sees a part of a table is not told how many rows its index has, by way of a view neither."""
    pytest.importorskip("faiss", reason="the extra 'vector' is not installed")
    with closing(open_embedding(tmp_path)) as database:
        store, admin = database.access.store, database.session()
        admin.update(FRUIT)
        admin.update("CREATE VECTOR INDEX names ON fruit(name)")
        for name in ("ann", "bob"):
            store.add_user(User(name, "readonly"))
        admin.update("GRANT SELECT ON TABLE fruit TO readonly")
        admin.update("CREATE ROW FILTER ON fruit TO ann AS id < 3")
        figures = "SELECT rows, nulls, failed, bytes IS NULL AS hidden, column, status FROM system.vector_indexes"
        own = {"column": "name", "status": "ready"}
        ann, bob = (database.session(store.user(name).principal) for name in ("ann", "bob"))
        assert rows(ann, figures) == [{"rows": None, "nulls": None, "failed": None, "hidden": True, **own}]
        assert rows(bob, figures) == [{"rows": 5, "nulls": 1, "failed": 0, "hidden": False, **own}]


def test_no_paths_of_models(tmp_path: Path) -> None:
    """Users who may use a model see no path or address of it; an admin, and for its own who made it, see all."""
    log = tmp_path / "secret" / "prompts.jsonl"
    log.parent.mkdir()
    with closing(open_database(tmp_path / "data", {"log_path": str(log), "latency_ms": 2})) as database:
        admin = database.session()
        admin.update(
            "CREATE MODEL remote OPTIONS (engine 'openai', model '/srv/models/llama', base_url 'http://10.0.0.5:1/v1')"
        )
        admin.update("GRANT USAGE ON MODEL remote TO readonly")
        database.access.store.add_user(User("ann", "readonly"))
        shown = rows(database.session(Principal("ann", "readonly")), "SELECT * FROM system.models ORDER BY name")
        assert [row["name"] for row in shown] == ["default", "remote"]
        text = json.dumps(shown, default=str)
        assert not any(part in text for part in ("secret", "10.0.0.5", "/srv/", str(tmp_path)))
        assert json.loads(shown[0]["options"])["latency_ms"] == 2
        assert "10.0.0.5" in json.dumps(rows(admin, "SELECT * FROM system.models"), default=str)
