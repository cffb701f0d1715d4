"""FlightLLM as a system of SemBench.

SemBench imports this file as `scenario.movie.runner.flightllm_runner.flightllm_runner`. Without further settings, the
database is in this process, and asks `model_name` at Google's API with the key in `GEMINI_API_KEY`.
`FLIGHTLLM_SEMBENCH_CONFIG` names a TOML file with another engine. `FLIGHTLLM_SEMBENCH_SERVER` is the address of a
server, which has its own engine. Its user and password are in `FLIGHTLLM_USER` and `FLIGHTLLM_PASSWORD`.
"""

import os
import time
from typing import Any, Final

from runner.generic_runner import GenericQueryMetric, GenericRunner  # type: ignore[import-not-found] # SemBench's own

import flightllm
from flightllm.config import Config, EngineConfig

_TABLES: Final = ("Movies", "Reviews")
_HIDDEN: Final = ("scoreSentiment", "originalScore", "reviewState")
"""Columns with the right answers, which no query must read."""


class FlightLLMRunner(GenericRunner):
    """Run each question's SQL file, and count what the statement spent."""

    def __init__(
        self,
        use_case: str,
        scale_factor: int,
        model_name: str = "gemini-2.5-flash",
        concurrent_llm_worker: int = 20,
        skip_setup: bool = False,  # noqa: FBT001, FBT002 - SemBench's signature
    ) -> None:
        """Prepare the tables, and open the database."""
        super().__init__(use_case, scale_factor, model_name, concurrent_llm_worker, skip_setup=True)
        if not skip_setup and self.scenario_handler is not None:
            self.scenario_handler.setup_scenario([])  # makes the files; this system loads them by itself
        self._connection = self._connected()

    def get_system_name(self) -> str:
        """Return the name of the folders for queries and results."""
        return "flightllm"

    def execute_query(self, query_id: int) -> Any:
        """Return the rows of a question with its time, tokens and price, or the error."""
        sql = self._discover_query_text(query_id).rstrip().rstrip(";")
        began = time.perf_counter()
        try:
            result = self._connection.sql(sql)
            rows = result.df()
        except flightllm.FlightLLMError as error:
            seconds = time.perf_counter() - began
            return GenericQueryMetric(query_id=query_id, status="failed", execution_time=seconds, error=str(error))
        seconds, cost = time.perf_counter() - began, result.cost()
        return GenericQueryMetric(
            query_id=query_id,
            status="success",
            execution_time=seconds,
            results=rows,
            token_usage=cost.tokens,
            money_cost=cost.price,
        )

    def _connected(self) -> flightllm.Connection:
        """Open the database with the tables. Answers are not kept, so that each question pays for its own."""
        settings = {"cache": "off"}
        frames = {name: self.load_data(f"{name}.csv").drop(columns=list(_HIDDEN), errors="ignore") for name in _TABLES}
        server = os.environ.get("FLIGHTLLM_SEMBENCH_SERVER")
        if server is None:
            return flightllm.connect(frames, config=self._configuration(), settings=settings)
        connection = flightllm.connect(server, settings=settings)
        for name, frame in frames.items():
            connection.register(name, frame)
        return connection

    def _configuration(self) -> Config | str:
        """Return the given configuration, or one for Google's API."""
        given = os.environ.get("FLIGHTLLM_SEMBENCH_CONFIG")
        options = {"provider": "gemini", "api_key_env": "GEMINI_API_KEY"}
        return given or Config(engine=EngineConfig("openai", self.model_name, self.concurrent_llm_worker, options))
