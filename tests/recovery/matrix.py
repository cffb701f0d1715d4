"""A whole data folder whose files are damaged one by one: what a start and all queries then say.

`python -m tests.recovery.matrix` prints each kind of file, the damage, and the end.
"""

import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

import structlog
from structlog.testing import capture_logs

from flightllm.access.store import AccessStore, User
from flightllm.config import Config, EmbeddingConfig, EngineConfig
from flightllm.errors import ConfigError, FlightLLMError
from flightllm.kvcache.store.disk import DiskStore
from flightllm.session.database import Database
from flightllm.session.session import Session
from flightllm.session.startable import reasons_not_to_start
from flightllm.storage.backup import back_up
from flightllm.storage.file_check import compare_all
from flightllm.vector.folder import damaged_indexes

BITS = 30
"""How many places of a file lose a bit, each in a copy of its own."""
_STATEMENTS = (
    "CREATE TABLE plain AS SELECT n, concat('row ', n) AS s FROM generate_series(1, 50) AS g(n)",
    "INSERT INTO plain VALUES (51, 'row 51')",
    "INSERT INTO plain VALUES (52, 'row 52')",
    "CREATE TABLE days AS SELECT 1 AS n, INTERVAL '3 days' AS length",
    "CREATE TABLE empty (n BIGINT)",
    "CREATE SCHEMA other",
    "CREATE TABLE other.vectors AS SELECT n, [n + 0.5, 2.5] AS v FROM generate_series(1, 9) AS g(n)",
    "CREATE VIEW twice AS SELECT 2 * n AS m FROM plain",
    "CREATE TABLE docs AS SELECT n, concat('text ', n) AS s FROM generate_series(1, 20) AS g(n)",
    "CREATE VECTOR INDEX i ON docs(s)",
    "CREATE PROMPT first AS 'Is {s} good?'",
    "CREATE PROMPT second AS 'Is {s} bad?'",
    "CREATE MODEL made OPTIONS (engine 'fake')",
    "GRANT SELECT ON plain TO bob",
    "CREATE ROW FILTER ON plain TO bob AS n < 5",
)
_QUERIES: Final[Mapping[str, str]] = {
    "plain": "SELECT * FROM plain",
    "days": "SELECT n, CAST(length AS VARCHAR) FROM days",
    "empty": "SELECT * FROM empty",
    "vectors": "SELECT * FROM other.vectors",
    "twice": "SELECT * FROM twice",
    "docs": "SELECT * FROM docs",
    "search": "SELECT n FROM vector_search('i', 'text 7', top_k => 3, mode => 'text')",
    "near": "SELECT n FROM vector_search('i', 'text 7', top_k => 3)",
    "prompts": "SELECT name, version, text FROM system.prompts",
    "models": "SELECT name, engine FROM system.models",
    "answers": "SELECT s, ai_filter('good?', s) AS good FROM docs WHERE n < 6",
}
_BOB: Final = {"bob plain": "SELECT * FROM plain", "bob docs": "SELECT * FROM docs"}
_TOGETHER: Final = (
    {"plain", "twice", "bob plain"}, {"days"}, {"vectors"}, {"docs", "answers", "search", "near"}, {"kv"},
)  # fmt: skip
"""The queries that read one table or store: others must go on."""
_FOLDER, _LOOP = _OTHERS = ("a folder in its place", "a link to itself in its place")
_CHECK_SECONDS = 60
_KEY, _CHUNK = "ab" * 20, b"FL" + bytes(range(250)) * 40


@dataclass(frozen=True, slots=True)
class Case:
    """A damaged file: its path in the folder, its kind, and how it was damaged."""

    path: Path
    kind: str
    damage: str
    seed: int = 0


@dataclass(frozen=True, slots=True)
class End:
    """What a start and all queries did; `faults` must be empty."""

    what: str
    faults: tuple[str, ...] = ()
    said: str = ""


def opened(folder: Path) -> Database:
    """Open the folder as a server does, and wait until the files of the tables were compared with their digests."""
    database = Database.open(Config(engine=EngineConfig("fake"), embedding=EmbeddingConfig("fake"), data_folder=folder))
    database.catalog.store.tidy()
    if not database.catalog.store.file_check.wait(_CHECK_SECONDS):
        database.close()
        raise TimeoutError("the check of the data files does not end")
    return database


def make(folder: Path) -> dict[str, str]:
    """Fill a data folder with each kind of file; return what each query answers on the whole folder."""
    with closing(opened(folder)):
        pass
    with closing(AccessStore(folder / "access.sqlite")) as access:
        access.add_user(User("ann", "admin"))
        access.add_user(User("bob", "readonly"))
        access.add_token("bob")
    with closing(opened(folder)) as database:
        session = _as(database, "ann")
        for sql in _STATEMENTS:
            session.update(sql)
        for sql in _QUERIES.values():
            _rows(session, sql)
    with closing(DiskStore(folder / "kvstore", 1 << 20)) as store:
        store.put(_KEY, "raw", _CHUNK)
        store.put("cd" * 20, "raw", _CHUNK[::-1])
    return {name: text for name, text in _asked(folder).items() if name != "error"}


def cases(folder: Path) -> Iterator[Case]:
    """Yield each file of a folder with each damage."""
    for name in sorted(_files(folder)):
        if name.parts[1] == "reading" if len(name.parts) > 1 else name.name == ".lock":
            continue  # links to other files of the folder, and what has no bytes
        path = folder / name
        kind = _kind(name)
        for damage in ("removed", *_OTHERS):
            yield Case(name, kind, damage)
        if path.stat().st_size:
            yield Case(name, kind, "emptied")
            yield Case(name, kind, "cut in half")
            for seed in range(BITS if name.parent.name != "words" else BITS // 6):
                yield Case(name, kind, "a bit flipped", seed)


def run(whole: Path, case: Case, wanted: Mapping[str, str], scratch: Path) -> End:
    """Damage one file in a copy of a folder, open the copy, and query everything."""
    folder = scratch / "folder"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(["/bin/cp", "-a", whole, folder], check=True)  # keeps hard links
    _damage(folder / case.path, case)
    before = {path: _digest(folder / path) for path in _files(folder)}
    checked = _checked(folder, scratch / "copy")
    with capture_logs() as log:
        answers = _asked(folder)
    faults = [f"{name}: {text}" for name, text in (answers | checked).items() if text.startswith("!")]
    if bool(checked["reasons"]) != ("error" in answers):
        faults.append(f"doctor says {checked['reasons']!r}, but the start {answers.get('error', 'succeeds')!r}")
    for name, text in wanted.items():
        if (
            "error" not in answers
            and answers.get(name) != text
            and not answers.get(name, "").startswith(("error", "!"))
        ):
            faults.append(f"{name}: wrong rows {answers.get(name)!r:.80}")
    there = Counter(_digest(folder / path) for path in _files(folder))
    said = [str(line["event"]) for line in log if line["log_level"] in {"warning", "error"}]
    gone = [path for path, digest in before.items() if path != case.path and not there[digest] and _must_stay(path)]
    told = case.kind == "kvstore/index.sqlite" and "the index of KV chunks was lost" in str(said)
    lost = [path for path in gone if not (told and "chunks" in path.parts)]  # engines can compute them again
    faults += [f"lost: {path}" for path in lost]
    if "error" in answers:
        if case.path.name not in answers["error"]:
            faults.append(f"does not name the file: {answers['error']}")
        return End("refused", tuple(faults), answers["error"])
    failed = [name for name, text in answers.items() if text.startswith("error") and text != wanted[name]]
    if failed and not any(set(failed) <= group for group in _TOGETHER):
        faults.append(f"fail together: {failed}")
    if failed:
        return End(f"error of {', '.join(failed)}", tuple(faults), answers[failed[0]])
    return End("warning" if said else "right rows", tuple(faults), "; ".join(said))


def _asked(folder: Path) -> dict[str, str]:
    answers: dict[str, str] = {}
    try:
        database = opened(folder)
    except ConfigError as error:
        return {"error": str(error)}
    except Exception as error:  # noqa: BLE001 - what a start must never do
        return {"start": f"!{type(error).__name__}: {error}"}
    with closing(database):
        for user, queries in (("ann", _QUERIES), ("bob", _BOB)):
            for name, sql in queries.items():
                answers[name] = _outcome(lambda user=user, sql=sql: _rows(_as(database, user), sql))  # type: ignore[misc]
    answers["kv"] = _outcome(lambda: _chunks(folder / "kvstore"))
    return answers


def _checked(folder: Path, copy: Path) -> dict[str, str]:
    """Return what each check says about a folder that no server uses."""
    shutil.rmtree(copy, ignore_errors=True)
    return {
        "reasons": _outcome(lambda: "; ".join(reasons_not_to_start(folder))),
        "files": _outcome(lambda: str(compare_all(folder / "tables").damaged)),
        "indexes": _outcome(lambda: str(list(damaged_indexes(folder / "vectors")))),
        "backup": _outcome(lambda: str(back_up(folder, copy))),
    }


def _outcome(ask: Callable[[], str]) -> str:
    try:
        return ask()
    except FlightLLMError as error:
        return f"{'!' if 'internal error' in str(error) else 'error'}: {error}"
    except Exception as error:  # noqa: BLE001 - a fault to report
        return f"!{type(error).__name__}: {error}"


def _as(database: Database, user: str) -> Session:
    return database.session(database.access.store.user(user).principal)


def _rows(session: Session, sql: str) -> str:
    result = session.execute(sql)
    return repr(sorted(repr(row) for batch in result.batches for row in batch.to_pylist()))


def _chunks(folder: Path) -> str:
    with closing(DiskStore(folder, 1 << 20)) as store:
        for key, whole in ((_KEY, _CHUNK), ("cd" * 20, _CHUNK[::-1])):
            with suppress(FlightLLMError):
                if b"".join(store.get(key, "raw")) != whole:
                    return "!wrong bytes"
    return "right or dropped"


def _damage(path: Path, case: Case) -> None:
    content = bytearray(path.read_bytes())
    if case.damage in {"removed", *_OTHERS}:
        path.unlink()
        if case.damage == _FOLDER:
            path.mkdir()
        elif case.damage == _LOOP:
            path.symlink_to(path.name)
        return
    if case.damage == "a bit flipped":
        chance = random.Random(f"{case.path.suffix} {case.seed}")  # noqa: S311 - not for secrets
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    elif case.damage == "emptied":
        content.clear()
    else:
        del content[len(content) // 2 :]
    path.write_bytes(content)


def _must_stay(path: Path) -> bool:
    """Return whether a file is neither a link that readers made nor what the server writes anew at each start."""
    return "reading" not in path.parts and not path.name.endswith((".lock", "-wal", "-shm", ".sqlite"))


def _kind(path: Path) -> str:
    parts = path.parts
    if parts[0] == "tables":
        return f"tables/{parts[1]}" + (f"/*{path.suffix}" if parts[1] != path.name else "")
    if parts[0] == "vectors":
        return f"vectors/{'/'.join(parts[3:]) or parts[-1]}".replace("/words/", "/words *")
    return "kvstore/chunk" if "chunks" in parts else str(path)


def _files(folder: Path) -> list[Path]:
    return [path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def table(ends: Mapping[Case, End]) -> str:
    """Return one line for each kind of file and damage, with its ends."""
    lines: dict[tuple[str, str], Counter[str]] = {}
    for case, end in ends.items():
        what = "FAULT " + "; ".join(end.faults)[:160] if end.faults else end.what
        lines.setdefault((case.kind, case.damage), Counter())[what] += 1
    return "\n".join(
        f"{kind} | {damage} | {', '.join(f'{count} x {what}' for what, count in found.items())}"
        for (kind, damage), found in lines.items()
    )


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "whole"
        wanted = make(folder)
        only = sys.argv[1:]
        structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
        some = [case for case in cases(folder) if not only or any(one in str(case.path) for one in only)]
        print(table({case: run(folder, case, wanted, Path(scratch)) for case in some}))  # noqa: T201


if __name__ == "__main__":
    main()
