"""Which files of a model's repository are downloaded, by the lists of files that repositories have."""

import pytest

from flightllm.llm.hub_files import wanted_files

SMALL = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"]
BESIDE = [".gitattributes", "README.md", "LICENSE", "USE_POLICY.md", "demo.png"]
SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"]
OLD_SHARDS = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin", "pytorch_model.bin.index.json"]
PARTS = [
    *("model.safetensors", "modules.json", "1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors"),
    *("3_Dense/config.json", "3_Dense/pytorch_model.bin"),
]


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        pytest.param(
            ["original/consolidated.00.pth", "original/params.json", "original/tokenizer.model", *SHARDS],
            SHARDS,
            id="Llama, with Meta's own format beside it",
        ),
        pytest.param(
            ["pytorch_model.bin", "model.safetensors", "flax_model.msgpack", "tf_model.h5", "onnx/model.onnx"],
            ["model.safetensors"],
            id="several formats",
        ),
        pytest.param(
            [*OLD_SHARDS, "training_args.bin", "optimizer.bin", "rust_model.ot"],
            OLD_SHARDS,
            id="an older one, in .bin alone",
        ),
        pytest.param(
            ["pytorch_model.bin", "fp16/model.safetensors", "openvino/openvino_model.bin", "onnx/config.json"],
            ["pytorch_model.bin"],
            id="safetensors in folders that nothing loads",
        ),
        pytest.param(
            ["consolidated.safetensors", "params.json", "tekken.json", *SHARDS],
            ["params.json", "tekken.json", *SHARDS],
            id="Mistral, with all weights twice",
        ),
        pytest.param(
            [*PARTS, "pytorch_model.bin", "2_Dense/pytorch_model.bin", "onnx/model.onnx"],
            PARTS,
            id="sentence-transformers, with weights of its parts",
        ),
        pytest.param(
            ["qwen.tiktoken", "modeling_qwen.py", "chat_template.jinja", "merges.txt", "model.safetensors", "q4.gguf"],
            ["qwen.tiktoken", "modeling_qwen.py", "chat_template.jinja", "merges.txt", "model.safetensors"],
            id="code and a tokenizer of its own",
        ),
        pytest.param(
            ["metal/model.bin", "original/model.safetensors", "original/config.json", *SHARDS],
            SHARDS,
            id="gpt-oss, with three folders",
        ),
    ],
)
def test_one_format(files: list[str], wanted: list[str]) -> None:
    """The weights come once, with configuration and tokenizer, and nothing for other programs."""
    assert wanted_files([*BESIDE, *SMALL, *files]) == sorted([*SMALL, *wanted])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["q4.gguf", "README.md"], "no config.json at its top; download one of its GGUF files and write"),
        (["config.json", "q4.gguf"], "no weights, as safetensors or pytorch_model.bin, at its top; download one"),
        (
            ["config.json", "original/consolidated.00.pth"],
            "no weights, as safetensors or pytorch_model.bin, at its top",
        ),
    ],
)
def test_no_model(files: list[str], message: str) -> None:
    """A repository without a model in transformers' format is told from its list, before anything is downloaded."""
    found = wanted_files(files)
    assert isinstance(found, str)
    assert message in found
