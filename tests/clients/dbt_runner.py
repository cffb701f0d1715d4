"""Run dbt's commands one after another in one process: dbt takes some seconds to start.

Each line of standard input is a JSON object with the project's folder, the server's port, and the arguments of dbt.
The answer is a line with the log, as a JSON text.
"""

import io
import json
import os
import sys
from contextlib import redirect_stdout

from dbt.cli.main import dbtRunner

_ALWAYS = ("--no-use-colors", "--no-send-anonymous-usage-stats", "--no-version-check")


def main() -> None:
    """Answer each line."""
    for line in sys.stdin:
        command = json.loads(line)
        os.chdir(command["folder"])
        os.environ["SHOP_PORT"] = str(command["port"])
        log = io.StringIO()
        with redirect_stdout(log):
            found = dbtRunner().invoke([*_ALWAYS, *command["arguments"], "--profiles-dir", "."])
            if found.exception is not None:
                log.write(f"{found.exception}\n")
        sys.stdout.write(json.dumps(log.getvalue()) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
