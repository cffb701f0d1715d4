"""Statements that Ctrl-C ends within a second, whatever the client waits for."""

from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as await_futures
from threading import Thread
from typing import TypeVar

import click

from flightllm.client import Client
from flightllm.errors import FlightLLMError

_LOOK_SECONDS = 0.1
_STOP_SECONDS = 0.8
"""How long telling the server, and asking what was spent, can take before the command ends anyway."""
T = TypeVar("T")


class Interrupted(click.ClickException):
    """Ctrl-C ended a statement; exit code 130, as of other programs that it ends."""

    exit_code = 130

    def show(self, file: object = None) -> None:
        """Print the message on standard error."""
        del file
        click.echo(self.format_message(), err=True)


def interruptible(client: Client, work: Callable[[], T]) -> T:
    """Run statements of a client, and return what `work` returns.

    They run in a thread of their own: gRPC waits without looking at signals, so that this thread has to.

    Raises:
        Interrupted: Ctrl-C was pressed; says what the statement spent, and the server has been told to stop it.
    """
    done = _in_thread(work)
    try:
        while not done.done():
            await_futures([done], timeout=_LOOK_SECONDS)
    except KeyboardInterrupt:
        pass
    else:
        return done.result()
    stopped = _in_thread(lambda: _stopped(client))
    try:
        text = stopped.result(timeout=_STOP_SECONDS)
    except (TimeoutError, FlightLLMError):
        text = "the server did not say what was spent; see `flightllm queries`"
    raise Interrupted(f"cancelled: {text}")


def _in_thread(work: Callable[[], T]) -> "Future[T]":
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the waiting thread raises it
            done.set_exception(error)

    Thread(target=run, daemon=True).start()
    return done


def _stopped(client: Client) -> str:
    spent = client.stop()
    if spent is None:
        return "nothing was running"
    tokens = spent.prompt_tokens + spent.completion_tokens
    text = f"{spent.calls:,} model call{'' if spent.calls == 1 else 's'}, {tokens:,} tokens"
    return text if spent.cost is None else f"{text}, ${spent.cost:,.4f}"
