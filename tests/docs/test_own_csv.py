"""The tutorial of one's own CSV with Ollama: its commands run as the page has them, against a real model.

vLLM's server stands in for Ollama. It speaks the same protocol, on Ollama's port, and calls its model as the page does.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from socket import create_server
from typing import Final

import pytest

from flightllm.engines.providers import PROVIDERS
from flightllm.llm.gguf_files import converted_folder
from tests.docs.pages import DOCS, blocks, commands
from tests.engines.conftest import serving
from tests.packages import NEEDS_VLLM, needs
from tests.real_models import smollm2

pytestmark = [NEEDS_VLLM, needs("openai", extra="openai"), pytest.mark.vllm, pytest.mark.slow]

PAGE: Final = DOCS / "tutorials" / "own-csv.md"
SERVER_PORT: Final = 31337
"""The port of `flightllm serve` where nobody names one, which the page relies on."""
MODEL: Final = "qwen3:4b"
"""The model of the page's reader; vLLM serves another one under this name."""
ROWS: Final = 4
"""Of the file that the page has its reader make."""
_VLLM: Final = ("--kv-cache-memory-bytes", str(256 << 20), "--max-model-len", "2048")


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Return what each command of the page prints, by the command."""
    file, folder = smollm2(), tmp_path_factory.mktemp("reader")
    [rows] = (block.text for block in blocks(PAGE, "csv"))
    (folder / "tickets.csv").write_text(rows)
    [ollama] = (port for provider in PROVIDERS if provider.name == "ollama" for port in provider.ports)
    _need_free(ollama, SERVER_PORT)
    with ExitStack() as stack:
        environment = stack.enter_context(pytest.MonkeyPatch.context())
        environment.setenv("FLIGHTLLM_HOME", str(folder / "home"))
        environment.delenv("FLIGHTLLM_URI", raising=False)
        log = tmp_path_factory.mktemp("vllm") / "log"
        stack.enter_context(serving(converted_folder(file), log, *_VLLM, name=MODEL, wanted_port=ollama))
        return _run_page(folder, stack)


def _need_free(*ports: int) -> None:
    """Skip the test where something listens on a port of the page."""
    for port in ports:
        try:
            create_server(("127.0.0.1", port)).close()
        except OSError as error:
            pytest.skip(f"port {port}, which the page names, is taken: {error}")


def _run_page(folder: Path, stack: ExitStack) -> dict[str, str]:
    """Run the page's commands in their order; the server runs until the page has its reader stop it, for `doctor`."""
    printed: dict[str, str] = {}
    running = stack.enter_context(ExitStack())
    for arguments in (one for block in blocks(PAGE, "sh") for one in commands(block.text)):
        if arguments == ["init"] or "openai" in arguments or "fake" in arguments:
            continue  # the page's other ways: with questions, by an API key, and with made-up answers
        command = [sys.executable, "-m", "flightllm", *arguments]
        if arguments[0] == "serve":
            printed[" ".join(arguments)] = running.enter_context(_server(command, folder))
            continue
        if arguments[0] == "doctor":
            running.close()
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, f"{arguments}: {ended.stderr}{ended.stdout}"
        printed[" ".join(arguments)] = ended.stdout
    return printed


@contextmanager
def _server(command: list[str], folder: Path) -> Iterator[str]:
    """Run the page's server; yield its lines up to the one that it listens."""
    log = folder / "serve.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True) as server,
    ):
        assert server.stdout
        try:
            lines: list[str] = []
            while not any("listening grpc://" in line for line in lines):
                line = server.stdout.readline()
                assert line, f"the server ended: {''.join(lines)}{log.read_text()}"
                lines.append(line)
            yield "".join(lines)
        finally:
            server.terminate()


def test_server_listens_where_the_page_says(outputs: Mapping[str, str]) -> None:
    """The server finds the endpoint usable, and listens."""
    assert f"listening grpc://127.0.0.1:{SERVER_PORT}" in outputs["serve tickets.csv"]


def test_file_and_forecast_ask_no_model(outputs: Mapping[str, str]) -> None:
    """The file is a table with and without a server, and EXPLAIN predicts calls."""
    assert "(3 rows)" in _of(outputs, "query --open")
    assert "tickets" in outputs["tables"]
    assert "predicted" in _of(outputs, "query EXPLAIN")


def test_each_row_gets_an_answer(outputs: Mapping[str, str]) -> None:
    """The model classifies each row by a label of the page, finds fields in each, and tells each one's mood."""
    rows = _rows(_of(outputs, "query SELECT subject, ai_classify"))
    assert [row[-1] in {"refund", "delivery", "account", "praise"} for row in rows] == [True] * ROWS
    rows = _rows(_of(outputs, "query SELECT id, ai_extract"))
    assert ["order number" in row[-1] for row in rows] == [True] * ROWS
    rows = _rows(_of(outputs, "query --set max_calls=100"))
    assert [row[-1] in {"positive", "negative", "neutral", "mixed"} for row in rows] == [True] * ROWS


def test_filter_answers_for_each_row(outputs: Mapping[str, str]) -> None:
    """The filter keeps rows of the file only, and the list of queries counts a call for each row."""
    kept = {row[0] for row in _rows(_of(outputs, "query SELECT subject FROM"))}
    assert kept <= {"Refund", "Late parcel", "Login", "Thanks"}
    spent = [row for row in _rows(_of(outputs, "query SELECT sql, prompt_tokens")) if "ai_" in row[0]]
    assert len(spent) == 3
    assert [int(row[1]) > 0 and int(row[2]) > 0 for row in spent] == [True] * 3


def test_doctor_finds_the_endpoint(outputs: Mapping[str, str]) -> None:
    """`doctor` takes the same file, and names the model that answers."""
    assert MODEL in outputs["doctor"]


def _of(outputs: Mapping[str, str], start: str) -> str:
    """Return what the one command that begins so printed."""
    [printed] = (text for command, text in outputs.items() if command.startswith(start))
    return printed


def _rows(table: str) -> list[list[str]]:
    """Return the cells of a printed table, without its header."""
    lines = table.splitlines()
    [rule] = (number for number, line in enumerate(lines) if line.startswith("━"))
    return [[cell.strip() for cell in line.split("│")] for line in lines[rule + 1 : -1]]
