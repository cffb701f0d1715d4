"""Print what a build of some extras needs, one requirement a line: `python requirements.py local,web`.

An image installs these before it copies the sources, so that a changed source causes no new installation.
"""

import sys
import tomllib
from pathlib import Path


def requirements(extras: str, file: Path = Path("pyproject.toml")) -> list[str]:
    """Return the requirements of the project and of the extras, whose names are separated by commas.

    Raises:
        SystemExit: the project has no such extra; the message lists the extras.
    """
    project = tomllib.loads(file.read_text("utf-8"))["project"]
    known, found = project["optional-dependencies"], list(project["dependencies"])
    for extra in filter(None, map(str.strip, extras.split(","))):
        if extra not in known:
            sys.exit(f"there is no extra {extra!r}: choose from {', '.join(sorted(known))}")
        found += known[extra]
    return sorted(set(found))


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1])))
