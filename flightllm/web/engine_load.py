"""The load of the engine."""

from flightllm.session.database import Database


def prompts_in_flight(database: Database) -> int:
    """Return the number of prompts in flight; from the queries' counts if the engine does not count them."""
    counted = getattr(database.engine, "in_flight", None)
    if counted is not None:
        return int(counted)
    return sum(row["calls"] - row["answered"] for row in (record.row() for record in database.queries.running()))
