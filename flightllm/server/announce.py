"""What a server says once clients can connect: a line for scripts, and how a person goes on."""

import shlex
import sys
from urllib.parse import urlsplit

from flightllm.config import Config
from flightllm.recovery.messages import Listening

_SAID_AT = frozenset({"debug", "info"})


def announce(started: Listening, config: Config) -> None:
    """Print `listening URI`, and for people on standard error how to ask; logs in JSON stay without these words."""
    print(f"listening {started.uri}", flush=True)  # noqa: T201 - what a script waits for
    if config.log.format == "console" and config.log.level in _SAID_AT:
        for line in next_steps(started):
            print(line, file=sys.stderr, flush=True)  # noqa: T201 - what a person reads


def next_steps(started: Listening) -> list[str]:
    """Return how to ask a server about its first table, and where its page is."""
    lines = []
    if started.table is not None:
        usual = urlsplit(started.uri).netloc == "127.0.0.1:31337"
        where = "" if usual else f" --uri {started.uri}"
        who = "" if started.is_open else " --user NAME"
        lines = [
            "ask it in another terminal:",
            f"  flightllm query{where}{who} {shlex.quote(f'SELECT * FROM {started.table} LIMIT 3')}",
        ]
    if started.page is not None:
        login = "" if started.is_open else ": sign in by user and password, or by a token in place of the password"
        lines.append(f"web page: {started.page}/{login}")
    return lines
