"""The load of the engine."""

from flightllm.engines.extras import extras_of
from flightllm.session.database import Database


def prompts_in_flight(database: Database) -> int:
    """Return the number of prompts in flight; from the queries' counts if the engine does not count them."""
    counted = extras_of(database.engine).in_flight
    if counted is not None:
        return counted
    return sum(row["calls"] - row["answered"] for row in (record.row() for record in database.queries.running()))
