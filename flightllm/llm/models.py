"""Find a model's folder and say which model it is."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from flightllm.errors import ConfigError, MissingExtraError
from flightllm.resources import demo_model

_EDGE_BYTES = 1 << 20
_SAMPLES, _SAMPLE_BYTES = 1_024, 4_096
"""Of a weight file, spread evenly: models that were tuned further may have the same beginning and end."""
_OWN = {"engine": "demo", "embedding": "minilm"}
"""The models that need no download."""


def model_folder(model: str, section: str = "engine") -> Path:
    """Return the local folder of `model`: `demo`, a folder in transformers' format, or a hub name, which is downloaded.

    `section` of the configuration is what errors name.

    Raises:
        ConfigError: there is no such model.
        MissingExtraError: the extra `local` is not installed.
    """
    return local_folder(model, section) or _download(model, section)


def local_folder(model: str, section: str = "engine") -> Path | None:
    """Return the folder of a model without downloading one; None for a hub name.

    Raises:
        ConfigError: there is no such model.
    """
    if model == "demo" and section == "engine":
        return demo_model()
    folder = Path(model).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ConfigError(f"[{section}] model: {model!r} is no transformers model: it has no config.json")
        return folder
    if folder.is_absolute() or model.count("/") != 1:
        raise ConfigError(
            f"[{section}] model: no folder {model!r}; write {_OWN[section]!r}, a model's folder or a hub name"
            " 'owner/name'"
        )
    return None


def model_digest(folder: Path) -> str:
    """Return a short digest of a model, a folder or a file: of each file the size, both ends and samples between."""
    digest = sha256()
    for path in [folder] if folder.is_file() else sorted(folder.iterdir()):
        if path.suffix not in {".json", ".jinja", ".safetensors", ".bin", ".model", ".gguf"}:
            continue
        size = path.stat().st_size
        digest.update(f"{path.name}\0{size}\0".encode())
        with path.open("rb") as file:
            digest.update(file.read(_EDGE_BYTES))
            for place in range(_EDGE_BYTES, size - _EDGE_BYTES, max(_SAMPLE_BYTES, size // _SAMPLES)):
                file.seek(place)
                digest.update(file.read(_SAMPLE_BYTES))
            file.seek(max(_EDGE_BYTES, size - _EDGE_BYTES))
            digest.update(file.read(_EDGE_BYTES))
    return digest.hexdigest()[:16]


def _download(model: str, section: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError as exc:
        raise MissingExtraError(f"the model {model!r}", "local") from exc
    try:
        return Path(snapshot_download(model))
    except Exception as exc:  # the hub client raises many kinds: offline, no such name, no access
        raise ConfigError(f"[{section}] model: cannot get {model!r} from the hub: {exc}") from exc
