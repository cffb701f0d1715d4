"""The places of external tables: folders and object stores that the configuration lists."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from flightllm.config.storage import StorageConfig
from flightllm.errors import InvalidInputError, PermissionDeniedError
from flightllm.storage.objects import ObjectStores, is_address


class Places:
    """The places outside the data folder that one server can read."""

    def __init__(self, config: StorageConfig) -> None:
        """Read the object stores' access keys.

        Raises:
            ConfigError: the file or variable that a key refers to is missing.
        """
        self.stores = ObjectStores(config)
        self._folders = config.external_folders

    def checked(self, location: str) -> Path | str:
        """Return a location as a path with all links resolved, or as an address in an object store.

        Raises:
            InvalidInputError: the location is not a path.
            PermissionDeniedError: no configured place has the location, or a link leads out of the place.
        """
        if is_address(location):
            if self.stores.has(location):
                return location
            if location.lower().startswith(("http://", "https://")):
                raise PermissionDeniedError(
                    "the server does not read web addresses: start it by `flightllm serve URL`, which downloads the"
                    " file first; or download it into a folder that [storage] external_folders lists, and write its"
                    " path here"
                )
            raise PermissionDeniedError(
                "no object store in [storage.object_stores] of the server's configuration has this address: write an"
                " address that begins with the URL of one of them"
            )
        path = Path(unquote(urlsplit(location).path) if location.startswith("file://") else location)
        if "\0" in str(path):
            raise InvalidInputError("the location has a NUL character: leave it out")
        allowed = [folder.resolve() for folder in self._folders]
        if any(folder == folder.parent for folder in allowed):  # each file: a relative path has only one meaning
            path = path.expanduser().absolute()
        real = path.resolve()
        if any(mark in path.name for mark in "*?[") and not path.exists():
            parent = self.checked(str(path.parent))  # the files of a pattern in one folder
            return parent / path.name if isinstance(parent, Path) else parent
        inside = path.is_absolute() and any(real.is_relative_to(folder) for folder in allowed)
        parts = real.rglob("*") if inside and real.is_dir() else ()
        if not inside or any(part.is_symlink() and not _stays(part, allowed) for part in parts):
            raise PermissionDeniedError(
                "the location is in no folder of [storage] external_folders in the server's configuration: write the"
                " absolute path of a file or folder inside one of these folders"
            )
        return real


def _stays(link: Path, folders: list[Path]) -> bool:
    return any(link.resolve().is_relative_to(folder) for folder in folders)
