"""The demo model's files; README.md beside this file says what it can do, `train.py` makes it."""

from pathlib import Path

CONTEXT_TOKENS = 2048
"""How long a prompt may be, its answer included."""


def demo_model() -> Path:
    """Return the folder of the model that the package carries, in transformers' format."""
    return Path(__file__).with_name("weights")
