"""GGUF files as models: converted once, found again, refused with what to write instead."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from flightllm.config import EngineConfig
from flightllm.engines import check_engine, create_engine
from flightllm.engines.prompt_format import format_of
from flightllm.errors import ConfigError, EngineUnavailableError, MissingExtraError
from flightllm.llm.engine import Choice, Parameters, Request
from flightllm.llm.files import check_model, model_folder
from flightllm.llm.gguf_files import converted_folder, has_chat_template
from flightllm.llm.prompt_formats import INSTRUCT

WIDTH, LAYERS, HEADS, INNER = 32, 2, 2, 64
TEMPLATE = "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}assistant:"


@pytest.fixture
def gguf_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a small Llama as a GGUF file: random weights, a token for each byte, a chat template."""
    gguf = pytest.importorskip("gguf", reason="the extra 'local' is not installed")
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "home"))
    path = tmp_path / "small llama.Q8.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    tokens = ["<unk>", "<s>", "</s>", *_bytes(), "es"]
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.NORMAL] * (len(tokens) - 3))
    writer.add_token_merges(["e s"])
    writer.add_eos_token_id(2)
    writer.add_bos_token_id(1)
    writer.add_chat_template(TEMPLATE)
    random = np.random.default_rng(1)
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd": (len(tokens), WIDTH),
        "output": (len(tokens), WIDTH),
        "output_norm": (WIDTH,),
    }
    for layer in range(LAYERS):
        block: dict[str, tuple[int, ...]] = {
            "ffn_gate": (INNER, WIDTH),
            "ffn_up": (INNER, WIDTH),
            "ffn_down": (WIDTH, INNER),
        }
        block |= dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (WIDTH, WIDTH))
        block |= dict.fromkeys(("attn_norm", "ffn_norm"), (WIDTH,))
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in block.items()}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", random.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _bytes() -> list[str]:
    """Return the characters that stand for the 256 bytes in GPT-2's vocabularies."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return [chr(byte) for byte in shown] + [chr(256 + place) for place in range(len(hidden))]


def test_answers(gguf_file: Path) -> None:
    """A GGUF file is a model of the engine `local`, with its tokenizer, chat template and number type."""
    engine = create_engine(EngineConfig("local", str(gguf_file), 2, {"device": "cpu"}))
    asked = Request(1, "Is it so?", Parameters(4, constraint=Choice(("Yes", "No"))), "ai_filter", "", ())
    [completion] = engine.generate(iter([asked]), lambda: False)
    assert completion.text in {"Yes", "No"}
    assert completion.prompt_tokens == len("user: Is it so?\nassistant:")
    assert "float32" in engine.revision
    engine.close()


def test_converted_once(gguf_file: Path) -> None:
    """The folder is found again, another file of that name is another model, and no half-made folder is left."""
    folder = model_folder(str(gguf_file))
    made = (folder / "config.json").stat().st_mtime_ns
    assert converted_folder(gguf_file) == folder
    assert (folder / "config.json").stat().st_mtime_ns == made
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    gguf_file.write_bytes(gguf_file.read_bytes() + b"\0")
    assert converted_folder(gguf_file) != folder


def test_a_check_converts_nothing(gguf_file: Path, tmp_path: Path) -> None:
    """Checking a configuration takes no time: the file only has to be there."""
    check_engine(EngineConfig("local", str(gguf_file)))
    assert format_of(EngineConfig("local", str(gguf_file))) is INSTRUCT
    bare = gguf_file.with_name("bare.gguf")
    bare.write_bytes(gguf_file.read_bytes().replace(b"tokenizer.chat_template", b"tokenizer.chat_tumblate"))
    assert format_of(EngineConfig("local", str(bare))).name == "cued"
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("m.gguf", None, r"there is no file '.*m\.gguf'"),
        ("m-00001-of-00002.gguf", b"GGUF", "one of several parts of a GGUF file; join them"),
        ("m.gguf", b"<html>Not found</html>", r"m\.gguf' is not a GGUF file: it does not begin with 'GGUF'"),
        ("M.GGUF", b"", "is not a GGUF file"),
    ],
)
def test_refused_at_once(tmp_path: Path, name: str, content: bytes | None, error: str) -> None:
    """A missing file, a part of a file and a file of another kind are errors of the configuration."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=error):
        check_model(str(tmp_path / name))


def test_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is none is named, and leaves nothing behind."""
    pytest.importorskip("gguf", reason="the extra 'local' is not installed")
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "home"))
    (tmp_path / "m.gguf").write_bytes(b"GGUF and nothing else")
    with pytest.raises((ConfigError, EngineUnavailableError), match=r"m\.gguf' cannot be converted from GGUF"):
        create_engine(EngineConfig("local", str(tmp_path / "m.gguf")))
    assert list((tmp_path / "home" / "models").iterdir()) == []


def test_a_folder_of_one(tmp_path: Path) -> None:
    """A folder with a GGUF file is refused with the line to write."""
    (tmp_path / "model.Q4.gguf").write_bytes(b"GGUF")
    with pytest.raises(ConfigError, match=r"it holds a GGUF file; write model = '.*model\.Q4\.gguf'"):
        model_folder(str(tmp_path))


def test_without_the_package(gguf_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the package is missing, the error names the extra."""
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MissingExtraError, match=r"\(missing: gguf\) needs the extra 'local'"):
        converted_folder(gguf_file)


def test_the_head_is_read_once(tmp_path: Path) -> None:
    """Whether a file has a chat template is read again when the file changed, and not before."""
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF tokenizer.chat_template")
    assert has_chat_template(file)
    state = file.stat()
    file.write_bytes(b"GGUF tokenizer.chat_tumblate")
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert has_chat_template(file), "it looks unchanged"
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    assert not has_chat_template(file)
