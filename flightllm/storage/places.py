"""Where external tables may lie: folders and object stores that the configuration lists."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from flightllm.config.storage import StorageConfig
from flightllm.errors import InvalidInputError, PermissionDeniedError
from flightllm.storage.objects import ObjectStores, is_address


class Places:
    """The places outside the data folder of one server."""

    def __init__(self, config: StorageConfig) -> None:
        """Read the object stores' keys.

        Raises:
            ConfigError: what a key refers to is not there.
        """
        self.stores = ObjectStores(config)
        self._folders = config.external_folders

    def checked(self, location: str) -> Path | str:
        """Return a location as a path without links in it, or as an address in an object store.

        Raises:
            InvalidInputError: it is no path.
            PermissionDeniedError: it is in no place that the configuration lists, or leads out of it by a link.
        """
        if is_address(location):
            if self.stores.has(location):
                return location
            if location.lower().startswith(("http://", "https://")):
                raise PermissionDeniedError(
                    "the server reads no web address: start it by `flightllm serve URL`, which downloads the file"
                    " first; or download the file into a folder that [storage] external_folders lists, and write its"
                    " path here"
                )
            raise PermissionDeniedError(
                "the address is in no object store that [storage.object_stores] in the server's configuration lists"
            )
        path = Path(unquote(urlsplit(location).path) if location.startswith("file://") else location)
        if "\0" in str(path):
            raise InvalidInputError("the location has a character NUL, which no path has: leave it out")
        allowed = [folder.resolve() for folder in self._folders]
        real = path.resolve()
        inside = path.is_absolute() and any(real.is_relative_to(folder) for folder in allowed)
        parts = real.rglob("*") if inside and real.is_dir() else ()
        if not inside or any(part.is_symlink() and not _stays(part, allowed) for part in parts):
            raise PermissionDeniedError(
                "the location is in no folder that [storage] external_folders in the server's configuration lists:"
                " write the absolute path of a file or folder there"
            )
        return real


def _stays(link: Path, folders: list[Path]) -> bool:
    return any(link.resolve().is_relative_to(folder) for folder in folders)
