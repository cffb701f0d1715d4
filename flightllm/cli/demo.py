"""`flightllm demo`: the main job on sample tables, start to end."""

import contextlib
import subprocess
import time
from concurrent.futures import Future
from threading import Thread

import adbc_driver_manager
import click
from rich.console import Console

from flightllm.config import ENGINES
from flightllm.demo.process import ending_on_signals, holding_signals, running_server
from flightllm.errors import EngineError

_END_SECONDS = 5.0
_LOOK_SECONDS = 0.1
_MODEL = (
    "A demonstration model of 6 million parameters answers: well on text like the samples', badly on other text. "
    "The costs are real."
)


@click.command()
@click.option("--engine", type=click.Choice(ENGINES), default="local", show_default=True, help="Inference engine.")
@click.option("--model", help="Model of that engine; the demo model by default.")
@click.option("--keep", is_flag=True, help="Leave the server running until Ctrl-C.")
def demo(engine: str, model: str | None, keep: bool) -> None:  # noqa: FBT001 -- click passes it by name
    """See it work: AI queries on sample tables.

    It starts a separate server and queries it through the ADBC client. It shows SQL, rows, how many answers are right,
    and the cost of each query.

    \b
    flightllm demo
    flightllm demo --keep      connect your own client afterwards
    """
    from flightllm.cli.demo_tour import connecting, own_model

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 140  # readable in a file or a log
    started = time.monotonic()
    arguments = ["--engine", engine, *(["--model", model] if model else [])]
    console.print(f"Starting a server with the {engine} engine and the sample tables …")
    with ending_on_signals(), contextlib.ExitStack() as afterwards, running_server(arguments) as server:
        console.print(f"Ready at {server.uri} after {time.monotonic() - started:.1f} s.")
        if engine in {"local", "vllm"} and model in {None, "demo"}:
            console.print(_MODEL, style="yellow", soft_wrap=True)
        _tour(server.uri, console, afterwards)
        console.print(f"\n{connecting(server.uri)}\n\n{own_model()}", markup=False, soft_wrap=True)
        if keep:
            console.print("\nThe server keeps running; Ctrl-C stops it.")
            _wait(server.process)
        else:
            console.print("\nThe server stops now; `flightllm demo --keep` leaves it running to connect to.")


def _tour(uri: str, console: Console, afterwards: contextlib.ExitStack) -> None:
    """Run the tour in a separate thread, which gets some seconds to end after the server has ended.

    The driver blocks signals while it waits; the main thread sees them at once.
    """
    done: Future[None] = Future()
    thread = Thread(target=_run, args=(uri, console, done), daemon=True)
    with holding_signals():
        thread.start()
        afterwards.callback(thread.join, _END_SECONDS)
    while not done.done():
        time.sleep(_LOOK_SECONDS)
    done.result()


def _run(uri: str, console: Console, done: Future[None]) -> None:
    """Run the tour and turn the driver's errors into ours."""
    from flightllm.cli.demo_tour import run_tour

    try:
        run_tour(uri, console)
    except adbc_driver_manager.Error as error:
        done.set_exception(EngineError(f"a query of the tour failed: {error}"))
    except BaseException as error:  # noqa: BLE001 -- the waiting thread raises the error
        done.set_exception(error)
    else:
        done.set_result(None)


def _wait(process: subprocess.Popen[str]) -> None:
    """Wait for the server to end; if another thread takes a signal, this thread sees it at the next poll."""
    with contextlib.suppress(KeyboardInterrupt):
        while process.poll() is None:
            time.sleep(_LOOK_SECONDS)
