"""Models that think: the demonstration model with another chat template, and the token that ends a thought."""

import json
import shutil
from pathlib import Path

from flightllm.common.package_data import demo_model

SWITCHING = (
    "{{ '<|begin|>' }}{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>"
    "\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% if enable_thinking is defined and"
    " enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %}{% endif %}"
)
"""A template as Qwen3's: it can switch thinking off, and opens no thought by itself."""
ALWAYS = SWITCHING.partition("{% if enable_thinking")[0] + "{{ '<think>\n' }}{% endif %}"
"""A template as DeepSeek-R1's: it opens a thought for every prompt."""
CLOSING, PAD, END = 3, 0, 2
"""Tokens: what ends a thought, in place of a mark that the model has no use for; padding; the end of a text."""

PROMPTS = (
    "Is the sky blue?",
    "Write a line about the film that was long and quiet.\n\nreview: It was long and quiet, but I liked the music.",
    "Is this review positive? Judge what it says about the film.\n\nreview: film number 3\n",
)


def make_thinking_model(folder: Path, template: str = SWITCHING, *, like: str | None = None, ends: bool = True) -> Path:
    """Write a model that thinks into `folder`.

    It writes `</think>` wherever it would write the word `like`. Without `ends` it never comes to an end.
    """
    from safetensors.torch import load_file, save_file
    from transformers import AutoTokenizer

    source = demo_model()
    word = None if like is None else AutoTokenizer.from_pretrained(source).encode(like, add_special_tokens=False)[0]
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*.npz"))
    (folder / "chat_template.jinja").write_text(template)
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    tokenizer["added_tokens"][CLOSING] |= {"content": "</think>", "special": False}
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["</think>"] = vocabulary.pop("<|system|>", CLOSING)
    path.write_text(json.dumps(tokenizer))
    path = folder / "tokenizer_config.json"
    path.write_text(path.read_text().replace('"<|system|>",', ""))
    weights = load_file(folder / "model.safetensors")
    head = weights["lm_head.weight"]
    head[CLOSING] = head[PAD] if word is None else head[word] * 1.1
    if not ends:
        head[END] = head[PAD]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder
