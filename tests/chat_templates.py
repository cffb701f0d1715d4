"""Chat templates of models that people have: where each comes from, and what prompts look like in it.

The templates are other people's work and no part of this repository. This fetches them into a folder for the tests:

    FLIGHTLLM_TEST_MODELS=~/test-models python -m tests.chat_templates fetch

`write` renders the golden prompts anew; look at the difference before you commit it.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from flightllm.common.package_data import demo_model
from flightllm.llm.thinking import MODES
from flightllm.llm.tokenizer import PromptEncoder

GOLDEN = Path(__file__).with_name("golden_prompts.json")
PROMPT = "Is the sky blue?\n\nAnswer with Yes or No."
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}|\d{1,2} [A-Z][a-z]+ \d{4}|[A-Z][a-z]+ \d{1,2}, \d{4}")


@dataclass(frozen=True)
class Source:
    """A package on PyPI, and the folder of the templates in its archive."""

    package: str
    folder: str
    binary: bool


_TRL = Source("trl==1.16.0", "trl/chat_templates/", binary=True)
_LLAMA_CPP = Source("llama-cpp-python==0.3.36", "vendor/llama.cpp/models/templates/", binary=False)
TEMPLATES = {
    "qwen3": _TRL,
    "qwen3_8": _TRL,
    "qwen3_instruct_2507": _TRL,
    "gemma3": _TRL,
    "gemma4_v5": _TRL,
    "gptoss": _TRL,
    "llama3_1": _TRL,
    "llama3_2": _TRL,
    "deepseek_r1_distill": _TRL,
    "glm4moe": _TRL,
    "phi3_5": _TRL,
    "nemotron_3_nano": _TRL,
    "meta-llama-Llama-3.3-70B-Instruct": _LLAMA_CPP,
    "mistralai-Mistral-Nemo-Instruct-2407": _LLAMA_CPP,
    "mistralai-Ministral-3-14B-Reasoning-2512": _LLAMA_CPP,
    "deepseek-ai-DeepSeek-V3.1": _LLAMA_CPP,
    "ibm-granite-granite-3.3-2B-Instruct": _LLAMA_CPP,
    "ByteDance-Seed-OSS": _LLAMA_CPP,
    "HuggingFaceTB-SmolLM3-3B": _LLAMA_CPP,
    "Kimi-K2-Thinking": _LLAMA_CPP,
    "NVIDIA-Nemotron-Nano-v2": _LLAMA_CPP,
    "tencent-Hy3": _LLAMA_CPP,
}


def folder() -> Path | None:
    """Return the folder of the fetched templates; None if no folder is named."""
    named = os.environ.get("FLIGHTLLM_TEST_MODELS")
    return Path(named).expanduser() / "chat_templates" if named else None


def digest(template: str) -> str:
    """Return the SHA-256 of a template."""
    return sha256(template.encode()).hexdigest()


def encoder_of(template: str, place: Path) -> PromptEncoder:
    """Return an encoder with the demonstration model's tokenizer and this template, from a model folder at `place`."""
    shutil.copytree(demo_model(), place, ignore=shutil.ignore_patterns("*.npz", "*.safetensors"))
    (place / "chat_template.jinja").write_text(template)
    return PromptEncoder(place)


def rendered(encoder: PromptEncoder) -> dict[str, str]:
    """Return what the model reads in each mode, dates taken out."""
    ids = {mode: encoder.encode([PROMPT], mode)[0] for mode in MODES}
    return {mode: _DATE.sub("DATE", encoder.tokenizer.decode(one)) for mode, one in ids.items()}


def fetch(target: Path) -> None:
    """Download the packages and copy the templates out of them."""
    target.mkdir(parents=True, exist_ok=True)
    for source in {_TRL, _LLAMA_CPP}:
        with TemporaryDirectory() as place:
            kind = "--only-binary" if source.binary else "--no-binary"
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", kind, ":all:", "-d", place]
            subprocess.run([*command, source.package], check=True)
            [archive] = Path(place).iterdir()
            for name, template in _read(archive, source.folder).items():
                if TEMPLATES.get(name) == source:
                    (target / f"{name}.jinja").write_bytes(template)


def _read(archive: Path, inside: str) -> dict[str, bytes]:
    """Return the templates of an archive by their names."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as packed:
            return {Path(one).stem: packed.read(one) for one in packed.namelist() if _is_template(one, inside)}
    found = {}
    with tarfile.open(archive) as packed_source:
        for member in packed_source:
            content = packed_source.extractfile(member) if _is_template(member.name, inside) else None
            if content is not None:
                found[Path(member.name).stem] = content.read()
    return found


def _is_template(path: str, inside: str) -> bool:
    return path.endswith(".jinja") and str(Path(path).parent).endswith(inside.rstrip("/"))


def write(source: Path) -> None:
    """Render the golden prompts."""
    golden = {}
    for name in sorted(TEMPLATES):
        template = (source / f"{name}.jinja").read_text()
        with TemporaryDirectory() as place:
            prompts = rendered(encoder_of(template, Path(place) / "model"))
        golden[name] = {"from": TEMPLATES[name].package, "sha256": digest(template), "prompts": prompts}
    GOLDEN.write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n")


def _main() -> None:
    named = folder()
    if named is None or sys.argv[1:] not in (["fetch"], ["write"]):
        sys.exit("FLIGHTLLM_TEST_MODELS=FOLDER python -m tests.chat_templates fetch|write")
    (fetch if sys.argv[1] == "fetch" else write)(named)


if __name__ == "__main__":
    _main()
