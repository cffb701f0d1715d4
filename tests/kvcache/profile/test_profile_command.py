"""`python -m flightllm.kvcache.profile`, as a user runs it."""

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from flightllm.kvcache.codec import open_codec
from flightllm.kvcache.codec.base import decode
from flightllm.kvcache.profile.__main__ import main
from tests.kvcaches import random_model

LEVELS = 5


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a small model of random weights, with the demo model's tokenizer."""
    from transformers import AutoTokenizer

    from flightllm.common.package_data import demo_model

    folder = tmp_path_factory.mktemp("model")
    made = random_model("Llama", 4, 2)
    made.resize_token_embeddings(4_096)
    made.save_pretrained(folder)
    AutoTokenizer.from_pretrained(demo_model()).save_pretrained(folder)  # type: ignore[no-untyped-call,unused-ignore]
    return folder


def test_beside_the_model(model: Path) -> None:
    """A profile is put beside its model, from where the codecs take it; the report tells of every level and layer."""
    arguments = [str(model), "--contexts", "4", "--context", "60"]
    shown = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert shown.exit_code == 0
    assert "entropy" in shown.output
    codec = open_codec("cachegen-0", model / "kv_profile.npz")
    cache = torch.randn(4, 2, 30, 2, 16)
    assert decode(codec, codec.encode(cache)).shape == cache.shape
    told = CliRunner().invoke(main, [*arguments, "--json"], catch_exceptions=False)
    levels = json.loads(told.stdout.splitlines()[-1])["levels"]
    assert [one["level"] for one in levels] == list(range(LEVELS))
    assert all(len(one["errors"]) == 4 for one in levels)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["/no/model"], "no folder"),
        (["--texts", "short.txt"], "too short: they give 0 contexts"),
        (["--texts", "missing.parquet"], r"missing\.parquet"),
        (["--contexts", "2"], "2 is not in the range"),
    ],
)
def test_wrong(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: str) -> None:
    """What is wrong is told in a line, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    Path("short.txt").write_text("Too short.")
    given = arguments if arguments[0].startswith("/") else [str(model), *arguments]
    said = CliRunner().invoke(main, [*given, "--output", str(tmp_path / "profile.npz")])
    assert said.exit_code
    assert told.replace("\\", "") in " ".join(said.output.split())
    assert "Traceback" not in said.output
    assert not (tmp_path / "profile.npz").exists()
