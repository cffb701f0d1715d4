"""How busy the engine is."""

from flightllm.session.database import Database


def prompts_in_flight(database: Database) -> int:
    """Return how many prompts the server's own engine is answering; from queries' counts where it counts none."""
    counted = getattr(database.engine, "in_flight", None)
    if counted is not None:
        return int(counted)
    return sum(row["calls"] - row["answered"] for row in (record.row() for record in database.queries.running()))
