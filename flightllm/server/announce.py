"""The server's output once clients can connect: a line for scripts, and next steps for a person."""

import shlex
import sys
from urllib.parse import urlsplit

from flightllm.config import Config
from flightllm.recovery.messages import Listening

_SAID_AT = frozenset({"debug", "info"})


def announce(started: Listening, config: Config) -> None:
    """Print `listening URI`, and on standard error the next steps for a person, unless logs are JSON or quiet."""
    print(f"listening {started.uri}", flush=True)  # noqa: T201 - a script waits for this line
    if config.log.format == "console" and config.log.level in _SAID_AT:
        for line in next_steps(started):
            print(line, file=sys.stderr, flush=True)  # noqa: T201 - for a person


def next_steps(started: Listening) -> list[str]:
    """Return the lines that show how to query the first table, and the web page's address."""
    lines = []
    if started.table is not None:
        usual = urlsplit(started.uri).netloc == "127.0.0.1:31337"
        where = "" if usual else f" --uri {started.uri}"
        who = "" if started.is_open else " --user NAME"
        lines = [
            "ask it in another terminal:",
            f"  flightllm query{where}{who} {shlex.quote(f'SELECT * FROM {started.table} LIMIT 3')}",
        ]
    if started.postgres is not None:
        lines.append(f"clients of PostgreSQL: psql {started.postgres}{'' if started.is_open else ' -U NAME'}")
    if started.page is not None:
        login = "" if started.is_open else ": sign in by user and password, or by a token in place of the password"
        lines.append(f"web page: {started.page}/{login}")
    return lines
