"""Paths of the files shipped with the code: inside an installed package, or at the top of a checkout."""

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]


def packaged_folder(name: str) -> Path:
    """Return the shipped folder `name`, `udfs` or `config`.

    A wheel carries it as `flightllm/_<name>`; a checkout, editable installs included, has it beside the package.
    """
    installed = _PACKAGE / f"_{name}"
    return installed if installed.is_dir() else _PACKAGE.parent / name


def demo_model() -> Path:
    """Return the folder of the demo model, in transformers' format; `training/README.md` says what it can do."""
    return _PACKAGE / "demo" / "weights"


def sample_folder() -> Path:
    """Return the folder of the sample tables, one Parquet file each."""
    return _PACKAGE / "demo" / "data"
