"""Running one statement of the command line: the question about its cost, COPY, and its result."""

from functools import partial

import click

from flightllm.cli.copying import CopyFrom, copy_from, read_copy
from flightllm.cli.price import confirmed
from flightllm.cli.results import Output, run_text
from flightllm.cli.running import interruptible
from flightllm.client import Client
from flightllm.common.amounts import counted


def run_statement(client: Client, text: str, output: Output, ask_above: float | None) -> bool:
    """Run a statement, and return whether it ran: the user is asked first if its predicted cost is above `ask_above`.

    Raises:
        FlightLLMError: it failed.
        Interrupted: the user pressed Ctrl-C.
    """
    copy = read_copy(text)
    if isinstance(copy, CopyFrom):
        rows = interruptible(client, partial(copy_from, client, copy))
        click.echo(f"{counted(rows, 'row')} affected")
        return True
    sql, place = (text, output) if copy is None else copy
    if not confirmed(client, sql, ask_above):
        return False
    interruptible(client, partial(run_text, client, sql, place))
    return True
