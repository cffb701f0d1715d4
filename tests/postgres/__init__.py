"""A PostgreSQL server of a test's own, where one is installed."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_CELL, _ROW, _NULL = "\x1f", "\x1e", "\x02"
"""What psql writes between cells, between rows, and for NULL: no value contains them."""
_SETTINGS = "SET timezone = 'UTC'; SET statement_timeout = '10s'; SET client_min_messages = 'error'; SET jit = off;"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a statement did: whether it failed, how many rows it changed, what it returned, and the table after it."""

    failed: bool
    count: int
    returned: list[str]
    rows: list[str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a statement gave: rows affected or returned, columns as (name, type), cells as text, or an error."""

    count: int
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str | None, ...], ...]
    error: str = ""
    """SQLSTATE and message."""


def binaries() -> Path | None:
    """Return where initdb and psql are, None where PostgreSQL is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    here = shutil.which("initdb")
    return found[-1].parent if found else Path(here).parent if here else None


@contextmanager
def cluster(port: int | None = None) -> Iterator["Postgres"]:
    """Run a server that listens on a socket in a folder of its own, and on a port of this machine if one is given."""
    bin_folder = binaries()
    assert bin_folder is not None
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, user)
        data, log = folder / "data", folder / "log"

        def run(*command: str | Path) -> None:
            account = user if os.geteuid() == 0 else None
            subprocess.run(command, user=account, check=True, capture_output=True, cwd=folder)

        listen = "''" if port is None else f"127.0.0.1 -p {port}"
        start = ["-o", f"-k {folder} -c fsync=off -c listen_addresses={listen}", "-l", str(log), "-w"]
        locale = ("-E", "UTF8", "--locale", "C.UTF-8")  # texts are ordered by their code points, as here
        run(bin_folder / "initdb", "-D", data, "-A", "trust", "-U", user, *locale)
        run(bin_folder / "pg_ctl", "-D", data, *start, "start")
        try:
            yield Postgres(bin_folder / "psql", folder, user)
        finally:
            run(bin_folder / "pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Postgres:
    """A running server."""

    psql: Path
    folder: Path
    user: str

    @property
    def version(self) -> int:
        """Return the major version."""
        return int(self._ask("SHOW server_version_num").strip()) // 10_000

    def outcomes(self, once: str, setup: str, statements: Sequence[str], table: str) -> list[Outcome]:
        """Run each statement after `setup`, and `once` before all; return what each one did."""
        parts = [once]
        for statement in statements:
            parts += [setup, "\\echo ==returned", f"{statement};", "\\echo ==count :ERROR :ROW_COUNT"]
            parts += [f"SELECT * FROM {table};", "\\echo ==end"]
        found = []
        for text in self._ask("\n".join(parts)).split("==end\n")[:-1]:
            returned, _, rest = text.partition("==returned\n")[2].partition("==count ")
            head, _, rows = rest.partition("\n")
            error, count = head.split()
            found.append(Outcome(error == "true", int(count), sorted(_lines(returned)), sorted(_lines(rows))))
        return found

    def answers(self, setup: Sequence[str], steps: Sequence[Sequence[str]]) -> list[list[Answer]]:
        """Run `setup`, then each list of statements in a transaction of its own; return what each statement gave.

        The transactions are rolled back, so that all of them see the tables of `setup`.
        """
        parts = ["\\set ON_ERROR_ROLLBACK on", f"{_SETTINGS} {''.join(f'{one};' for one in setup)}"]
        for statements in steps:
            parts += ["BEGIN;"]
            for statement in statements:
                parts += ["\\echo ==text", f"{statement} \\gdesc", "\\echo ==rows", f"{statement};"]
                parts += ["\\echo ==end :SQLSTATE :ROW_COUNT :LAST_ERROR_MESSAGE"]
            parts += ["ROLLBACK;"]
        separators = ("-F", _CELL, "-R", _ROW, "-P", f"null={_NULL}")
        found = iter(self._ask("\n".join(parts), *separators).split("==text\n")[1:])
        return [[_answer(next(found)) for _ in statements] for statements in steps]

    def _ask(self, script: str, *options: str) -> str:
        where = ("-h", str(self.folder), "-U", self.user)
        command = (str(self.psql), *where, "-X", "-q", "-A", "-t", "-P", "null=NULL", *options, "postgres")
        done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


def _answer(text: str) -> Answer:
    described, _, rest = text.partition("==rows\n")
    rows, _, end = rest.rpartition("==end ")
    state, count, message = end.removesuffix("\n").split(" ", 2)
    if state != "00000":
        return Answer(0, (), (), f"{state} {message}")
    columns = [line.split(_CELL) for line in _split(described) if _CELL in line]  # else psql says that it has none
    cells = [tuple(None if cell == _NULL else cell for cell in line.split(_CELL)) for line in _split(rows)]
    return Answer(int(count), tuple((name, kind) for name, kind in columns), tuple(cells) if columns else ())


def _split(text: str) -> list[str]:
    """Return the rows of a result; psql ends the last one with a line feed."""
    return text.removesuffix("\n").split(_ROW) if text else []


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]
