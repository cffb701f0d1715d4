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


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a statement did: whether it failed, how many rows it changed, what it returned, and the table after it."""

    failed: bool
    count: int
    returned: list[str]
    rows: list[str]


def binaries() -> Path | None:
    """Return where initdb and psql are, None where PostgreSQL is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    here = shutil.which("initdb")
    return found[-1].parent if found else Path(here).parent if here else None


@contextmanager
def cluster() -> Iterator["Postgres"]:
    """Run a server that listens on a socket in a folder of its own."""
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

        start = ["-o", f"-k {folder} -c listen_addresses='' -c fsync=off", "-l", str(log), "-w"]
        run(bin_folder / "initdb", "-D", data, "-A", "trust", "-U", user, "-E", "UTF8")
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

    def _ask(self, script: str) -> str:
        command = [
            str(self.psql),
            "-h",
            str(self.folder),
            "-U",
            self.user,
            "-X",
            "-q",
            "-A",
            "-t",
            "-P",
            "null=NULL",
            "postgres",
        ]
        done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]
