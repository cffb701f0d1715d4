"""A new server process answers plain queries while its engine is still being opened."""

import sys
from pathlib import Path

import pytest

from flightllm.errors import FlightLLMError
from tests.servers import SupervisedServer, await_true

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.mark.slow
def test_plain_queries_do_not_wait_for_the_engine(tmp_path: Path) -> None:
    """After a death plain queries work though the engine cannot be opened; AI queries fail as configured, and say why.

    The model's folder is moved away meanwhile; once it is back, so is the engine.
    """
    pytest.importorskip("torch", reason="the extra 'local' is not installed")
    from flightllm.common.package_data import demo_model

    (tmp_path / "model").symlink_to(demo_model())
    settings = f'[engine]\nkind = "local"\nmodel = "{tmp_path / "model"}"\n[recovery]\non_engine_down = "fail"'
    sql = "SELECT ai_filter('Is it?', 'x') IS NOT NULL"
    with SupervisedServer(tmp_path, settings) as server:
        assert server.query(sql) == [(True,)]
        (tmp_path / "model").unlink()
        server.kill_worker()
        assert server.query_again("SELECT 1 AS a") == [(1,)]
        with pytest.raises(FlightLLMError, match="is down"):
            server.query(sql)
        (tmp_path / "model").symlink_to(demo_model())
        await_true(lambda: "engine open" in server.log.read_text())
        assert server.query("SELECT ai_filter('Is it?', 'y') IS NOT NULL") == [(True,)]
