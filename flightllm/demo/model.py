"""The embedded default model: a small random-weight Llama, built on first use into a cache folder.

It exists so that the whole product runs on a machine that has nothing but the package: its tokenizer is trained on the
sample tables, its answers are well-formed and mean nothing.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import structlog
from platformdirs import user_cache_path

from flightllm.errors import MissingExtraError
from flightllm.resources import sample_folder

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

CONTEXT_TOKENS = 8192
VOCABULARY = 4096
SPECIAL_TOKENS = ("<|pad|>", "<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
CHAT_TEMPLATE = (
    "{{ '<|begin|>' }}{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)
_RECIPE = 2  # raise when anything below changes what is built
_MAX_CORPUS_CHARS = 4_000_000
_BUILDING = threading.Lock()  # PyTorch's random state is one per process: two builds at once would disturb each other

log = structlog.get_logger(__name__)


def demo_model(folder: Path | None = None, seed: int = 0) -> Path:
    """Return the folder of the embedded model, building it there on first use (seconds).

    The folder's name carries a digest of the recipe, the training text and the seed: equal names hold equal models.
    Several processes may build at once; the first to finish wins.

    Raises:
        MissingExtraError: the extra `local` is not installed.
    """
    texts = corpus()
    digest = sha256(f"{_RECIPE}\0{seed}\0".encode())
    for text in texts:
        digest.update(text.encode() + b"\0")
    target = (folder or cache_folder()) / f"demo-{digest.hexdigest()[:12]}"
    with _BUILDING:
        if not (target / "config.json").is_file():
            _build_beside(target, texts, seed)
    return target


def cache_folder() -> Path:
    """Return where built models are kept: `FLIGHTLLM_HOME/models`, or else in the user's cache folder."""
    home = os.environ.get("FLIGHTLLM_HOME")
    base = Path(home).expanduser().absolute() if home else user_cache_path("flightllm", appauthor=False)
    return base / "models"


def corpus() -> list[str]:
    """Return the text the tokenizer is trained on: the sample tables' text, else the package's own source."""
    texts = _limited(_table_texts(sample_folder()))
    if not texts:
        package = Path(__file__).parents[1]
        texts = _limited(path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py")))
    return texts


def _limited(texts: Iterable[str]) -> list[str]:
    """Take texts, each once, up to the corpus limit."""
    kept: dict[str, None] = {}
    chars = 0
    for text in texts:
        if text in kept:
            continue
        chars += len(text)
        if chars > _MAX_CORPUS_CHARS:
            break
        kept[text] = None
    return list(kept)


def _table_texts(folder: Path) -> Iterator[str]:
    """Yield the text of every string column of the tables in `folder`, table by table in name order."""
    formats = {".parquet": "parquet", ".csv": "csv", ".jsonl": "json"}
    for path in sorted(folder.glob("*")):
        if path.suffix not in formats:
            continue
        table = ds.dataset(path, format=formats[path.suffix]).to_table()
        for name in table.column_names:
            column = table.column(name)
            if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
                yield from (text for text in column.unique().to_pylist() if text)


def _build_beside(target: Path, texts: list[str], seed: int) -> None:
    """Build in a temporary folder and rename, so that `target` is complete whenever it exists."""
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".building-", dir=target.parent))
    try:
        log.info("building_demo_model", folder=str(target))
        _build(work, texts, seed)
        try:
            work.rename(target)
        except OSError:
            if not (target / "config.json").is_file():  # not merely another process that was faster
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _build(folder: Path, texts: list[str], seed: int) -> None:
    try:
        import torch
        import transformers
    except ImportError as exc:
        raise MissingExtraError("the embedded model", "local") from exc
    library: Any = transformers
    library.utils.logging.disable_progress_bar()
    tokenizer = _train_tokenizer(texts)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = library.LlamaForCausalLM(_model_config(tokenizer))
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)


def _model_config(tokenizer: PreTrainedTokenizerFast) -> Any:
    """Return the shape: five million parameters, grouped-query attention, 64-wide heads (what vLLM runs on CPU)."""
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=5,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=CONTEXT_TOKENS,
        initializer_range=0.06,  # wide enough that the random model's answers depend on the prompt
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )


def _train_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer; a small corpus is filled up with placeholder tokens to the full vocabulary."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator(texts, trainer)
    missing = VOCABULARY - raw.get_vocab_size()
    raw.add_special_tokens([f"<|unused{number}|>" for number in range(missing)])
    fast: Any = PreTrainedTokenizerFast
    tokenizer: PreTrainedTokenizerFast = fast(
        tokenizer_object=raw,
        pad_token="<|pad|>",  # noqa: S106 - a token of the vocabulary, no password
        bos_token="<|begin|>",  # noqa: S106
        eos_token="<|end|>",  # noqa: S106
        additional_special_tokens=["<|system|>", "<|user|>", "<|assistant|>"],
        model_max_length=CONTEXT_TOKENS,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
