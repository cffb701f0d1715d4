"""The predicted cost of a statement, and the question before a costly statement runs."""

import re

import click

from flightllm.cli.running import interruptible
from flightllm.client import BOOKKEEPING, Client
from flightllm.connection.cost import Cost, may_call, read_prediction
from flightllm.errors import FlightLLMError

_QUERY = re.compile(
    r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(?:select|with|insert|create|update|delete|merge|values|from)\b",
    re.IGNORECASE | re.DOTALL,
)
"""Matches the start of a statement that can ask a model, after comments and parentheses."""


def forecast(client: Client, sql: str) -> Cost | None:
    """Return EXPLAIN's prediction for a statement; None if it calls no model or has no price.

    The prediction calls no model, but it can read the statement's rows. So the server is asked for a prediction only if
    a model has a price. The savings of each rule are left out, because each takes a further prediction.
    """
    if not (_QUERY.match(sql) and may_call(sql)):
        return None
    try:
        if not client.has_prices():
            return None
        _, batches = client.query(f"{BOOKKEEPING}EXPLAIN (FORMAT JSON, SAVINGS off) {sql}")
        [plan] = [row["plan"] for batch in batches for row in batch.to_pylist()]
        found = read_prediction(plan)
    except (FlightLLMError, KeyError, ValueError, TypeError):  # running the statement reports the error
        return None
    return None if found is None or found.price is None else found


def confirmed(client: Client, sql: str, above: float | None) -> bool:
    """Return whether to run a statement; ask the user if its predicted cost is more than `above` dollars.

    If `above` is None, it does not ask. Ctrl-C at the question means no.

    Raises:
        Interrupted: the user pressed Ctrl-C during the prediction.
    """
    if above is None:
        return True
    found = interruptible(client, lambda: forecast(client, sql))
    if found is None or (found.price or 0.0) <= above:
        return True
    try:
        return click.confirm(f"{found}. Run it?", err=True)
    except click.Abort:
        click.echo(err=True)
        return False
