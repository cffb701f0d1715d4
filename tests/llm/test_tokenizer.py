"""From prompt to tokens: what models of several families read, whether they are to think or not."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightllm.common.package_data import demo_model
from flightllm.llm.prompt_formats import one_text
from flightllm.llm.thinking import MODES
from flightllm.llm.tokenizer import PromptEncoder
from tests.chat_templates import GOLDEN, TEMPLATES, digest, encoder_of, folder, rendered
from tests.thinking_models import ALWAYS, SWITCHING

pytest.importorskip("transformers", reason="the extra 'local' is not installed")
TEXTS = ("Is it?", " two  spaces\n", "", "naïve — 日本語 😀", "<|end|><|user|>", "word " * 900, "\x1dsystem\x1duser")
DEMO = "<|begin|><|user|>\nIs it?<|end|>\n<|assistant|>\n"


def told(encoder: PromptEncoder, mode: str | None = None) -> str:
    """Return the text that the model reads for a prompt."""
    return str(encoder.tokenizer.decode(encoder.encode(["Is it?"], mode)[0]))


def test_the_demonstration_model_reads_the_same_in_every_mode(model_path: Path) -> None:
    """A model that does not think gets the prompt of its chat template and nothing more, whatever is asked for."""
    encoder = PromptEncoder(model_path)
    assert {told(encoder, mode) for mode in (None, *MODES)} == {DEMO}
    assert (encoder.form, encoder.revision, encoder.mode("high")) == (None, "", "off")


@pytest.mark.parametrize("template", [SWITCHING, ALWAYS])
def test_a_model_does_not_think_by_default(template: str, tmp_path: Path) -> None:
    """A template that can switch thinking off does so; a thought that another one opens is closed again."""
    encoder = encoder_of(template, tmp_path / "model")
    assert told(encoder) == told(encoder, "off") == f"{DEMO}<think>\n\n</think>\n\n"
    assert told(encoder, "low") == f"{DEMO}<think>\n"
    assert encoder.revision == " reasoning=off"


def test_a_models_own_default(tmp_path: Path) -> None:
    """The model's mode counts where a prompt asks for none, and its revision tells it."""
    encoder_of(SWITCHING, tmp_path / "model")
    encoder = PromptEncoder(tmp_path / "model", reasoning="low")
    assert told(encoder) == f"{DEMO}<think>\n"
    assert told(encoder, "off") == f"{DEMO}<think>\n\n</think>\n\n"
    assert (encoder.revision, encoder.mode(None), encoder.mode("off")) == (" reasoning=low", "low", "off")


def test_a_template_that_fails_is_no_obstacle(tmp_path: Path) -> None:
    """A template that refuses all of our arguments is rendered without any."""
    refusing = (
        "{% if enable_thinking is defined %}{{ raise_exception('no') }}{% endif %}<|user|>{{ messages[0].content }}"
    )
    assert told(encoder_of(refusing, tmp_path / "model")) == "<|user|>Is it?"


_LOOP = "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}{% endfor %}"
_REFUSES = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + _LOOP
_DROPS = (
    "{% for message in messages if message.role != 'system' %}<|{{ message.role }}|>{{ message.content }}{% endfor %}"
)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (_LOOP, "<|system|>Be brief.<|user|>Is it?"),
        (_REFUSES, "<|user|>Be brief.\n\nIs it?"),
        (_DROPS, "<|user|>Be brief.\n\nIs it?"),
    ],
)
def test_a_system_message(template: str, expected: str, tmp_path: Path) -> None:
    """A template without a place for a system message gets its text at the start of the user's."""
    encoder = encoder_of(template, tmp_path / "model")
    [ids] = encoder.encode(["\x1dBe brief.\x1dIs it?"])
    assert encoder.tokenizer.decode(ids) == expected


def test_the_thought_ends_with_its_mark(tmp_path: Path) -> None:
    """What follows a thought is its closing mark and the blanks of the template, once, however the thought ended."""
    encoder = encoder_of(SWITCHING, tmp_path / "model")
    end = encoder.tokenizer.eos_token_id
    thought = encoder.continuation("so it is")
    for ending in ("", "</think>", "</think>\n"):
        ended = encoder.ended_thought([*encoder.continuation(f"so it is{ending}"), end])
        assert encoder.tokenizer.decode(ended) == "so it is</think>\n\n"
    assert encoder.ends_thought(encoder.continuation("so it is</think>"))
    assert not encoder.ends_thought(thought)
    split = encoder.answer([*encoder.continuation("Yes"), end], encoder.ended_thought(thought))
    assert (split.answer, split.reasoning, split.closed) == ("Yes", "so it is", True)


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_golden_prompts(name: str, tmp_path: Path) -> None:
    """The prompts of models that people have are byte for byte as before, in every mode."""
    golden = json.loads(GOLDEN.read_text())[name]
    place = folder()
    path = None if place is None else place / f"{name}.jinja"
    if path is None or not path.exists():
        pytest.skip(f"no template of {name}: set FLIGHTLLM_TEST_MODELS and run `python -m tests.chat_templates fetch`")
    template = path.read_text()
    assert digest(template) == golden["sha256"], f"another version than that of {golden['from']}"
    assert rendered(encoder_of(template, tmp_path / "model")) == golden["prompts"]


def test_golden_prompts_ask_for_no_thought() -> None:
    """Unless asked to think, a model that opens its thoughts in the prompt has this one closed."""
    golden = json.loads(GOLDEN.read_text())
    assert golden.keys() == TEMPLATES.keys()
    ends = {name: one["prompts"] for name, one in golden.items()}
    for name in ("qwen3", "qwen3_8", "deepseek_r1_distill", "Kimi-K2-Thinking", "NVIDIA-Nemotron-Nano-v2"):
        assert ends[name]["off"].endswith("<think>\n\n</think>\n\n"), name
        assert ends[name]["low"].endswith("<think>\n"), name
    assert ends["gptoss"]["off"].endswith("<|start|>assistant<|channel|>final<|message|>")
    assert "Reasoning: high" in ends["gptoss"]["high"]
    for name in ("gemma3", "llama3_1", "phi3_5", "meta-llama-Llama-3.3-70B-Instruct", "qwen3_instruct_2507"):
        assert len(set(ends[name].values())) == 1, name


@pytest.mark.parametrize("chat", [True, False])
def test_a_batch_is_encoded_as_one_by_one(model_path: Path, chat: bool) -> None:
    """The tokens of prompts that are encoded together are those of each prompt, and those of transformers."""
    encoder = PromptEncoder(model_path, chat=chat)
    found = encoder.encode(TEXTS)
    assert found == [ids for text in TEXTS for ids in encoder.encode([text])]
    if not chat:
        assert found == [list(encoder.tokenizer(one_text(text)).input_ids) for text in TEXTS]


def test_a_tokenizer_with_other_tokens_below_is_not_used(model_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where transformers' wrapper changes the tokens, the wrapper encodes, and answers are not decoded at once."""
    usual = PromptEncoder(model_path, chat=False)
    real = type(usual.tokenizer).__call__

    def upper(tokenizer: object, texts: list[str], **named: object) -> object:
        return real(tokenizer, [text.upper() for text in texts], **named)

    monkeypatch.setattr(type(usual.tokenizer), "__call__", upper)
    encoder = PromptEncoder(model_path, chat=False)
    assert encoder.encode(["is it"]) == usual.encode(["IS IT"])
    assert not encoder.decodes_at_once
    assert encoder.written([1, 2], []) is None


def test_the_tokenizer_is_settled_before_it_is_shared(model_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once built, an encoder leaves the wrapper alone: the wrapper's calls can change the tokenizer's settings."""
    encoder = PromptEncoder(model_path)
    expected = PromptEncoder(model_path).encode(["Is it?"])
    monkeypatch.setattr(type(encoder.tokenizer), "__call__", lambda *_, **__: pytest.fail("the wrapper was called"))
    assert encoder.encode(["Is it?"]) == expected


_SMILE = "😀".encode()


@pytest.mark.parametrize(
    ("prompt", "answer", "expected"),
    [
        (b"", _SMILE + _SMILE[1:2] + b"a" + _SMILE[:2], "😀a"),
        (b"a", _SMILE + _SMILE[1:2] + b"ab" + _SMILE, "😀ab😀"),
        (_SMILE, _SMILE[1:2] + b"a", "a"),
        (b"a", b"b" + _SMILE + b"a", "b😀a"),
        (b"a", b"b" + _SMILE[:3], "b"),
    ],
    ids=["after a character", "further characters", "after a prompt's bytes", "right", "incomplete"],
)
def test_tokens_of_single_bytes(prompt: bytes, answer: bytes, expected: str, tmp_path: Path) -> None:
    """A wrong byte among the tokens of single bytes, as Llama 2 has them, costs only its own text."""
    encoder = _byte_encoder(tmp_path)
    assert encoder.decodes_at_once
    assert encoder.written([_byte_token(one) for one in answer], [_byte_token(one) for one in prompt]) == expected


def test_a_number_without_a_token(tmp_path: Path) -> None:
    """A number that no token can have is left out of the text."""
    assert _byte_encoder(tmp_path).written([_byte_token(97), -1, 1 << 40, _byte_token(98)], []) == "ab"


def _byte_token(byte: int) -> int:
    """Return the token of a byte in the tokenizer of `_byte_encoder`; `a` and `b` have tokens of their own."""
    return {97: 257, 98: 258}.get(byte, byte + 1)


def _byte_encoder(folder: Path) -> PromptEncoder:
    """Return an encoder with a token for each byte, and with the decoder of Llama 2."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    wrapper: Any = PreTrainedTokenizerFast
    tokens = {"<unk>": 0, **{f"<0x{byte:02X}>": byte + 1 for byte in range(256)}, "a": 257, "b": 258}
    tokenizer = Tokenizer(models.BPE(tokens, [], unk_token="<unk>", byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    wrapper(tokenizer_object=tokenizer, unk_token="<unk>").save_pretrained(folder)
    return PromptEncoder(folder)


@given(st.data())
def test_an_answer_is_decoded_at_once_as_token_by_token(data: st.DataObject) -> None:
    """The text of an answer's tokens is that of a stream of tokens; an incomplete character at its end is left out."""
    from tokenizers.decoders import DecodeStream

    encoder = _demo_encoder()
    prompt = encoder.encode(["Say é"])[0]
    whole = encoder.continuation("naïve — 日本語 😀\n\n don't")
    random = st.lists(st.integers(0, len(encoder.tokenizer) - 1), max_size=12)
    cut = st.integers(0, len(whole)).map(lambda end: whole[:end])
    ids = data.draw(random | cut)
    stream = DecodeStream(ids=prompt, skip_special_tokens=True)
    steps = [stream.step(encoder.tokenizer.backend_tokenizer, one) or "" for one in ids]
    assert encoder.written(ids, prompt) == "".join(steps)


@cache
def _demo_encoder() -> PromptEncoder:
    return PromptEncoder(demo_model())
