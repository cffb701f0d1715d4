"""The demo model's tokenizer: byte-level BPE in which the tokens of a word do not depend on the text before it."""

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
"""The pieces of a text; BPE never merges tokens across pieces.

A word is a piece without its spaces, and each digit is a piece. So a label, name or number has the same tokens in a
sentence, in a list, between quotes and at the start of an answer. The model can then copy it token by token. Function
words and punctuation, which no question asks for, include their spaces: otherwise there would be a third more tokens.
"""


def train_tokenizer(texts: Iterable[str], context_tokens: int) -> PreTrainedTokenizerFast:
    """Return a tokenizer trained on `texts`. For a small corpus, placeholder tokens fill the vocabulary."""
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
