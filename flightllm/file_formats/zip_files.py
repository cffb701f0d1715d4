"""Takes one file out of a zip file, to convert it."""

import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from flightllm.errors import InvalidInputError

ENDINGS = (".zip",)


def zip_members(path: Path, endings: tuple[str, ...]) -> list[str]:
    """Return the names of the files whose names end as given, without hidden ones.

    Raises:
        InvalidInputError: the file is not a zip file.
    """
    try:
        with zipfile.ZipFile(path) as file:
            names = [one.filename for one in file.infolist() if not one.is_dir()]
    except (zipfile.BadZipFile, OSError) as error:
        raise InvalidInputError(f"it cannot be read as a zip file: {error}") from error
    return [name for name in names if name.lower().endswith(endings) and not _is_hidden(PurePosixPath(name))]


def _is_hidden(name: PurePosixPath) -> bool:
    """Return whether a member is hidden: its name or a folder's begins with a dot, or macOS wrote it."""
    return name.parts[0] == "__MACOSX" or any(part.startswith(".") for part in name.parts)


@contextmanager
def taken_out(path: Path, member: str, folder: Path) -> Iterator[Path]:
    """Yield a copy of a member below `folder`, under its own name; the copy is removed at the end.

    Raises:
        InvalidInputError: there is no such member, or it cannot be read.
    """
    with TemporaryDirectory(dir=folder) as place:
        target = Path(place) / PurePosixPath(member).name
        try:
            with zipfile.ZipFile(path) as file, file.open(member) as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink)
        except KeyError as error:
            raise InvalidInputError(f"it has no file {member!r}") from error
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:  # damaged, odd, or with a password
            raise InvalidInputError(f"{member} cannot be taken out of the zip file: {error}") from error
        yield target
