"""Where a model's profile is kept: beside the model."""

from pathlib import Path
from typing import Final

PROFILE_NAME: Final = "kv_profile.npz"


def profile_path(folder: Path) -> Path:
    """Return where the profile of the model in a folder is, or would be."""
    return folder / PROFILE_NAME
