"""Make a data folder and KV chunks by a version's own code: `python -m tests.compatibility.make NAME [CHECKOUT]`.

Later versions must read what this one writes: `test_earlier.py` opens each folder of `data/`. Add a folder when a
version is released that writes what no folder here has, such as a new kind of file, column or field. First say in
`statements.py` or `values.py` how to make that, then run this command at the top of the repository. `NAME` is the
version, or its commit where it has none; `CHECKOUT` is where its code is, if that is not here:

    git worktree add ../earlier COMMIT && python -m tests.compatibility.make COMMIT ../earlier

A folder that is there never changes: its bytes are what the version wrote. `answers/` has what that version answered,
so look it through before you commit. Only the command line and Flight SQL are used, but for the tokens of a prompt, so
that this runs with any version.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa

from tests.compatibility.statements import ASKED, GRANTED, MADE, QUESTIONS
from tests.compatibility.values import kinds, odd

HERE: Final = Path(__file__).resolve().parent
PASSWORDS: Final = {"root": "fixture-root", "ann": "fixture-ann", "bob": "fixture-bob"}
"""Of users that no server but a test's has."""
FAKE: Final = '[engine]\nkind = "fake"\n[embedding]\nkind = "fake"\ndimensions = 8\n'
MODEL_FILES: Final = ("model.safetensors", "kv_profile.npz")
"""What the numbers of a KV chunk follow from, and how CacheGen's codecs read it."""
CODECS: Final = ("raw", "int8", "cachegen-2")


class Maker:
    """A version's command line and servers; settings and logs are in the folder `beside`, none in the data folder."""

    def __init__(self, folder: Path, beside: Path, pythonpath: str) -> None:
        self.folder, self.beside = folder, beside
        self.environment = {**os.environ, "PYTHONPATH": pythonpath, "FLIGHTLLM_HOME": str(folder)}

    def run(self, *arguments: str, password: str = "") -> str:
        """Run a command to its end, and return what it prints."""
        command = [sys.executable, "-m", "flightllm", *arguments]
        environment = {**self.environment, "FLIGHTLLM_PASSWORD": password}
        ran = subprocess.run(command, env=environment, cwd=self.beside, check=True, capture_output=True, text=True)
        return ran.stdout.strip()

    @contextmanager
    def serving(self, *arguments: str, settings: str = "") -> Iterator[str]:
        """Run a server until the block ends, then let it end by itself; give its address."""
        config = self.beside / f"{arguments[0]}.toml"
        config.write_text(settings, encoding="utf-8")
        command = [sys.executable, "-m", "flightllm", *arguments, "--config", str(config), "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(
            command, env=self.environment, cwd=self.beside, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            told = next(line for line in process.stdout or () if line.startswith("listening "))
            yield told.removeprefix("listening ").strip()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def table_of(uri: str, sql: str, user: str = "") -> pa.Table:
    """Run a statement of a user, and return its rows."""
    login = {"username": user, "password": PASSWORDS[user]} if user else {}
    with flight_sql.connect(uri, db_kwargs=login, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetch_arrow_table()


def make_tables(maker: Maker, kept: Path) -> dict[str, Any]:
    """Make everything but the KV chunks; return what a test needs to know of it."""
    prompts = maker.beside / "prompts.jsonl"
    settings = FAKE.replace('kind = "fake"\n', f'kind = "fake"\nlog_path = "{prompts}"\n', 1)
    with maker.serving("serve", settings=settings) as uri:
        with flight_sql.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
            for name, table in (("kinds", kinds()), ("odd", odd())):
                cursor.adbc_ingest(name, table, mode="create")
        for sql in MADE:
            print(sql, flush=True)
            table_of(uri, sql)
        before = prompts.read_text().count("\n") if prompts.exists() else 0
        table_of(uri, ASKED)
        prompt = json.loads(prompts.read_text().splitlines()[before])["prompt"]
        maker.run("user", "add", "root", "--role", "admin", password=PASSWORDS["root"])
        maker.run("user", "add", "ann", "--group", "analysts", "--daily-tokens", "1000000", password=PASSWORDS["ann"])
        maker.run("user", "add", "bob", "--role", "readonly", "--daily-calls", "0", password=PASSWORDS["bob"])
        maker.run("user", "add", "service", "--role", "admin", "--tenant", "other", "--no-password")
        maker.run("user", "add", "former", "--no-password")
        maker.run("user", "drop", "former")
        token = maker.run("token", "create", "service", "--forever", "--label", "fixture")
        for sql in GRANTED:
            print(sql, flush=True)
            table_of(uri, sql, "root")
        table_of(uri, "CREATE TABLE own AS SELECT 1 AS id, 'of ann' AS text", "ann")
        for name, user, sql in QUESTIONS:
            print(f"{name}: {sql}", flush=True)
            rows = table_of(uri, sql, user)
            sent = prompts.read_text()
            table_of(uri, sql, user)
            if prompts.read_text() != sent:
                raise SystemExit(f"{name} is asked the second time")
            with pa.ipc.new_file(kept / f"{name}.arrow", rows.schema) as file:
                file.write_table(rows)
    return {
        "passwords": PASSWORDS,
        "token": {"user": "service", "text": token},
        "questions": [{"name": name, "user": user, "sql": sql} for name, user, sql in QUESTIONS],
        "prompt": prompt,
    }


def make_chunks(maker: Maker) -> str:
    """Let the demo model answer with a store beside it, wait until the start of its prompts is kept; return its key."""
    store = maker.folder / "kvstore"
    maker.environment["FLIGHTLLM_HOME"] = str(maker.beside / "home")
    options = f"codecs = {json.dumps(CODECS[1:])}, min_tokens = 64"
    with maker.serving("kvstore", "serve", "--folder", str(store)) as kept:
        engine = f'[engine]\nkind = "local"\nmodel = "demo"\nkv_store = "{kept}"\nkv_codec = "raw"\n'
        with maker.serving("serve", settings=f"{engine}kv_options = {{ {options} }}\n") as uri:
            table_of(uri, MADE[1])
            table_of(uri, ASKED)
            deadline = time.monotonic() + 60
            while not all(list(store.glob(f"chunks/*/*.{codec}.*")) for codec in CODECS):
                if time.monotonic() > deadline:
                    raise SystemExit("the engine keeps no chunk of each codec")
                time.sleep(0.1)  # noqa: TID251 -- looks again now and then
    [key] = {path.name.split(".")[0] for path in store.glob("chunks/*/*")}
    return key


def chunk_of(prompt: str) -> dict[str, Any]:
    """Return the tokens that the chunk is of, and what tells the model that computed it from others."""
    from flightllm.common.package_data import demo_model
    from flightllm.config import EngineConfig
    from flightllm.engines.local.engine import create
    from flightllm.llm.tokenizer import PromptEncoder

    engine = create(EngineConfig("local", "demo"))
    revision = engine.revision
    engine.close()
    tokens = PromptEncoder(demo_model()).encode([prompt])[0][:64]
    files = {name: sha256((demo_model() / name).read_bytes()).hexdigest() for name in MODEL_FILES}
    return {"tokens": tokens, "revision": revision, "files": files}


def main(name: str, checkout: str = "") -> None:
    """Make the folder `data/NAME`, which must not be there."""
    code = str(Path(checkout).resolve() if checkout else HERE.parent.parent)
    target = HERE / "data" / name
    (target / "answers").mkdir(parents=True)
    (target / "folder").mkdir(mode=0o700)
    sys.path.insert(0, code)
    with TemporaryDirectory() as beside:
        maker = Maker(target / "folder", Path(beside), code)
        made = make_tables(maker, target / "answers")
        key = make_chunks(maker)
    made["chunk"] = {"key": key, **chunk_of(made.pop("prompt"))}
    (target / "made.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    for path in [*target.rglob("*.lock"), target / "folder" / "tables" / "reading"]:  # every server makes them anew
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
