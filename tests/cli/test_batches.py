"""`flightllm batches` against a server whose engine asks a stand-in for a batch endpoint."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flightllm.cli import main
from flightllm.config import ServerConfig
from flightllm.flight.server import FlightSqlServer
from tests.batch_endpoint import batch_provider
from tests.deferred.test_deferral import ROWS, opened


@pytest.mark.slow
def test_list_wait_result_and_cancel(tmp_path: Path) -> None:
    """A query is deferred, awaited and read from the command line; an unknown id is an error."""
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), database.config.limits)
        try:

            def run(*arguments: str) -> Result:
                return CliRunner().invoke(main, list(arguments), env={"FLIGHTLLM_URI": server.uri})

            sql = "SELECT id, ai_gen('Say', x) AS a FROM t"
            handle = run("query", "--set", "delivery=batch", "--format", "csv", sql)
            assert handle.exit_code == 0, handle.output
            found = re.search(r'^"([0-9a-f]{12})","collecting",', handle.stdout, re.MULTILINE)
            assert found is not None, handle.stdout
            batch_id = found[1]
            waited = run("batches", "wait", batch_id)
            assert waited.exit_code == 0, waited.output
            assert f"{batch_id} is done: {ROWS} rows, {ROWS} prompts\n" in waited.output
            assert batch_id in run("batches", "list").output
            rows = run("batches", "result", "--format", "csv", batch_id)
            assert len(re.findall(r'^\d+,"text \d+"$', rows.stdout, re.MULTILINE)) == ROWS, rows.output
            assert f"{batch_id} is done\n" in run("batches", "cancel", batch_id).output
            assert f"{batch_id} is removed\n" in run("batches", "remove", batch_id).output
            assert run("batches", "remove", batch_id).exit_code == 1
            unknown = run("batches", "wait", "nothing")
            assert unknown.exit_code == 1
            assert "there is no deferred statement" in unknown.output
            assert run("batches", "cancel", "nothing").exit_code == 1
        finally:
            server.drain(0)
