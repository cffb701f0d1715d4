"""The demo model's tokenizer: byte-level BPE whose tokens of words do not depend on what stands before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

VOCABULARY = 4096
SPECIAL_TOKENS = ("<|pad|>", "<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
CHAT_TEMPLATE = (
    "{{ '<|begin|>' }}{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)
_FUNCTION_WORDS = (
    "the|of|and|a|in|to|is|it|for|that|was|with|on|at|by|as|are|be|from|an|has|have|this|or|not|but|who|which|what|when"
    "|its|they|he|she|we|you|were|had|than|so|if|there|their|about|after|before|my|our|his|her|me|i|do|does|did|can"
    "|will|would|could|been|into|out|over|only|even|very"
)
_PIECES = (
    rf" (?:{_FUNCTION_WORDS})(?!\p{{L}}) ?|\p{{Ll}}+|\p{{Lu}}+(?!\p{{Ll}})|\p{{Lu}}\p{{Ll}}*|\p{{L}}+|\d|\n+"
    r"|[^\s\p{L}\d]+ ?|\s"
)
"""What BPE never merges across. A word is a piece without its spaces and a digit is one by itself, so that a label,
name or number has the same tokens in a sentence, a list, between quotes and at the start of an answer: copying it is
copying tokens. Function words and punctuation, which nobody asks for, take the spaces in: else there were a third more.
"""


def train_tokenizer(texts: Iterable[str], context_tokens: int) -> PreTrainedTokenizerFast:
    """Train on `texts`; a small corpus is filled up with placeholder tokens to the full vocabulary."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
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
        model_max_length=context_tokens,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
