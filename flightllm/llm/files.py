"""Find a model's folder and say which model it is."""

from __future__ import annotations

from glob import escape
from hashlib import sha256
from pathlib import Path

from flightllm.common.package_data import demo_model
from flightllm.errors import ConfigError, MissingExtraError
from flightllm.llm.gguf_files import SUFFIX, check_gguf, converted_folder, is_gguf
from flightllm.llm.hub_files import wanted_files

_EDGE_BYTES = 1 << 20
_SAMPLES, _SAMPLE_BYTES = 1_024, 4_096
"""Samples of a weight file, spread evenly: a fine-tuned model can have the same beginning and end as its base model."""
_OWN = {"engine": "demo", "embedding": "minilm"}
"""The models that need no download."""


def model_folder(model: str, section: str = "engine", revision: str = "") -> Path:
    """Return the local folder of `model`.

    `model` is `demo`, a folder in transformers' format, a GGUF file or a hub name. A GGUF file is converted; a hub
    model is downloaded. Errors name `section`, a section of the configuration. `revision` is a branch, tag or commit of
    a hub model.

    Raises:
        ConfigError: there is no such model.
        MissingExtraError: the extra `local` is not installed.
    """
    return local_folder(model, section, revision) or _download(model, section, revision)


def local_folder(model: str, section: str = "engine", revision: str = "") -> Path | None:
    """Return the folder of a model without a download; None for a hub name.

    Raises:
        ConfigError: there is no such model, or `revision` is set for a model that has no revisions.
    """
    if is_gguf(model):
        _check_revision(model, section, revision)  # first, because the conversion takes long
        return _gguf_folder(model, section)
    found = _found(model, section)
    if found is not None:
        _check_revision(model, section, revision)
    return found


def check_model(model: str, revision: str = "") -> None:
    """Check that a model on this machine exists. A hub name passes, and a GGUF file is not converted.

    Raises:
        ConfigError: there is no such model, or `revision` is set for a model that has no revisions.
    """
    if is_gguf(model):
        check_gguf(Path(model).expanduser())
        _check_revision(model, "engine", revision)
    else:
        local_folder(model, revision=revision)


def _check_revision(model: str, section: str, revision: str) -> None:
    if revision:
        raise ConfigError(
            f"[{section}] revision: only hub models have revisions; {model!r} is on this machine: remove this key"
        )


def _gguf_folder(model: str, section: str) -> Path:
    if section != "engine":
        raise ConfigError(f"[{section}] model: {model!r} is a GGUF file; name the model that the file was made from")
    return converted_folder(Path(model).expanduser(), section)


def _found(model: str, section: str) -> Path | None:
    """Return the folder of a model that is not a GGUF file; None for a hub name."""
    if model == "demo" and section == "engine":
        return demo_model()
    folder = Path(model).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            files = sorted(path.name for path in folder.glob(f"*{SUFFIX}"))
            holds = (
                f"it holds a GGUF file; write model = {str(folder / files[0])!r}" if files else "it has no config.json"
            )
            raise ConfigError(f"[{section}] model: {model!r} is not a transformers model: {holds}")
        return folder
    if folder.is_absolute() or model.count("/") != 1:
        raise ConfigError(
            f"[{section}] model: no folder {model!r}; write {_OWN[section]!r}, a model's folder, a GGUF file"
            " or a hub name 'owner/name'"
        )
    return None


def model_digest(folder: Path) -> str:
    """Return a short digest of a model folder or file: the size, both ends and samples between, of each file."""
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


def _download(model: str, section: str, revision: str) -> Path:
    try:
        from huggingface_hub import list_repo_files, snapshot_download
    except ImportError as exc:
        raise MissingExtraError(f"the model {model!r}", "local") from exc
    named = f"{model!r} at revision {revision!r}" if revision else repr(model)
    pinned = revision or None
    try:
        files = list_repo_files(model, revision=pinned)
    except Exception as exc:  # noqa: BLE001 - the hub client raises many types: offline, unknown name, no access
        try:
            return Path(snapshot_download(model, revision=pinned, local_files_only=True))
        except Exception:  # noqa: BLE001 - there is no earlier download: the hub's own error says more
            raise ConfigError(f"[{section}] model: cannot get {named} from the hub: {exc}") from exc
    wanted = wanted_files(files)
    if isinstance(wanted, str):
        raise ConfigError(f"[{section}] model: {named} is not a transformers model: {wanted}")
    try:
        return Path(snapshot_download(model, revision=pinned, allow_patterns=[escape(name) for name in wanted]))
    except Exception as exc:
        raise ConfigError(f"[{section}] model: cannot get {named} from the hub: {exc}") from exc
