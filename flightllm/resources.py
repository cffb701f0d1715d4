"""Where the files shipped beside the code are: in the package once installed, at the top of a checkout otherwise."""

from pathlib import Path


def packaged_folder(name: str) -> Path:
    """Return the shipped folder `name`, `udfs` or `config`.

    A wheel carries it as `flightllm/_<name>`; a checkout, editable installs included, has it beside the package.
    """
    package = Path(__file__).parent
    installed = package / f"_{name}"
    return installed if installed.is_dir() else package.parent / name


def demo_model() -> Path:
    """Return the folder of the demo model, in transformers' format; `flightllm/demo/README.md` says what it can do."""
    return Path(__file__).parent / "demo" / "weights"


def sample_folder() -> Path:
    """Return the folder of the sample tables, one Parquet file each."""
    return Path(__file__).parent / "demo" / "data"
