"""The path of a model's profile: beside the model."""

from pathlib import Path
from typing import Final

PROFILE_NAME: Final = "kv_profile.npz"


def profile_path(folder: Path) -> Path:
    """Return the path of the profile for the model in `folder`; the file does not need to exist."""
    return folder / PROFILE_NAME
