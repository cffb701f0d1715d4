"""Takes one file out of a zip file, to convert it."""

import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from flightllm.common.limits import over_limit
from flightllm.errors import InvalidInputError, LimitExceededError

ENDINGS = (".zip",)
_CHUNK = 1 << 20


def zip_members(path: Path, endings: tuple[str, ...], most_bytes: int | None = None) -> list[str]:
    """Return the names of the files whose names end as given, without hidden ones.

    Raises:
        InvalidInputError: the file is not a zip file.
        LimitExceededError: these files say that they have more than `most_bytes` bytes together.
    """
    try:
        with zipfile.ZipFile(path) as file:
            found = [one for one in file.infolist() if not one.is_dir()]
    except (zipfile.BadZipFile, OSError) as error:
        raise InvalidInputError(f"it cannot be read as a zip file: {error}") from error
    found = [one for one in found if one.filename.lower().endswith(endings)]
    found = [one for one in found if not _is_hidden(PurePosixPath(one.filename))]
    unpacked = sum(one.file_size for one in found)
    if most_bytes is not None and unpacked > most_bytes:
        raise _too_large(f"its files have {unpacked:,} bytes", most_bytes)
    return [one.filename for one in found]


def _too_large(found: str, most_bytes: int) -> LimitExceededError:
    return over_limit("upload_bytes", most_bytes, found, "send its files one by one, or as Parquet")


def _is_hidden(name: PurePosixPath) -> bool:
    """Return whether a member is hidden: its name or a folder's begins with a dot, or macOS wrote it."""
    return name.parts[0] == "__MACOSX" or any(part.startswith(".") for part in name.parts)


@contextmanager
def taken_out(path: Path, member: str, place: Path, most_bytes: int | None = None) -> Iterator[Path]:
    """Yield a copy of a member in the new folder `place`, under its own name; the folder is removed at the end.

    A process that is killed leaves the folder, so the process that started it must remove it too.

    Raises:
        InvalidInputError: there is no such member, or it cannot be read.
        LimitExceededError: the member has more than `most_bytes` bytes.
    """
    place.mkdir()
    try:
        target = place / PurePosixPath(member).name
        try:
            with zipfile.ZipFile(path) as file, file.open(member) as source, target.open("wb") as sink:
                _copy(source, sink, member, most_bytes)
        except KeyError as error:
            raise InvalidInputError(f"it has no file {member!r}") from error
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:  # damaged, odd, or with a password
            raise InvalidInputError(f"{member} cannot be taken out of the zip file: {error}") from error
        yield target
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _copy(source: IO[bytes], sink: IO[bytes], member: str, most_bytes: int | None) -> None:
    """Copy a member. The bytes are counted, because the size in the list of members can be a lie."""
    copied = 0
    while chunk := source.read(_CHUNK):
        copied += len(chunk)
        if most_bytes is not None and copied > most_bytes:
            raise _too_large(f"{member} has more bytes", most_bytes)
        sink.write(chunk)
