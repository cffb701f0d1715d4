"""Running statements so that Ctrl-C ends them within a second, whatever the client waits for."""

from collections.abc import Callable
from concurrent.futures import wait as await_futures
from typing import TypeVar

import click

from flightllm.client import Client
from flightllm.common.amounts import counted, money
from flightllm.connection.waiting import LOOK_SECONDS, STOP_SECONDS, in_thread
from flightllm.errors import FlightLLMError

T = TypeVar("T")


class Interrupted(click.ClickException):
    """Ctrl-C ended a statement; exit code 130, as in other programs that Ctrl-C ends."""

    exit_code = 130

    def show(self, file: object = None) -> None:
        """Print the message on standard error."""
        del file
        click.echo(self.format_message(), err=True)


def interruptible(client: Client, work: Callable[[], T]) -> T:
    """Run statements of a client, and return the result of `work`.

    The statements run in a separate thread. gRPC does not handle signals while it waits, so this thread handles them.

    Raises:
        Interrupted: the user pressed Ctrl-C, and the server was told to stop; the error says what the statement used.
    """
    done = in_thread(work)
    try:
        while not done.done():
            await_futures([done], timeout=LOOK_SECONDS)
    except KeyboardInterrupt:
        pass
    else:
        return done.result()
    stopped = in_thread(lambda: _stopped(client))
    try:
        text = stopped.result(timeout=STOP_SECONDS)
    except (TimeoutError, FlightLLMError):
        text = "the server did not report the cost; see `flightllm queries`"
    await_futures([done], timeout=STOP_SECONDS)  # it removes what it shows
    raise Interrupted(f"cancelled: {text}")


def _stopped(client: Client) -> str:
    spent = client.stop()
    if spent is None:
        return "nothing was running"
    text = f"{counted(spent.asked, 'model call')}, {counted(spent.tokens, 'token')}"
    return text if spent.cost is None else f"{text}, {money(spent.cost)}"
