"""`python -m flightllm.kvcache.profile`: learn a model's profile, and report its sizes and errors."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

from flightllm.common.command_line import CommandError
from flightllm.errors import ConfigError, FlightLLMError, MissingExtraError
from flightllm.kvcache.chunks import CHUNK_TOKENS
from flightllm.kvcache.profile.place import profile_path
from flightllm.kvcache.profile.texts import contexts, read_texts, sample_texts
from flightllm.llm.files import model_folder

_HELD_OUT = 4
"""One of this many contexts is kept for the report."""


@click.command()
@click.argument("model")
@click.option(
    "--texts",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Texts like those that the model will read. Repeatable.",
)
@click.option(
    "--context", type=click.IntRange(10), default=CHUNK_TOKENS, show_default=True, help="Tokens of a context."
)
@click.option("--contexts", "count", type=click.IntRange(_HELD_OUT), default=40, show_default=True, help="At most.")
@click.option("--device", default="auto", show_default=True, help="The device of the model: auto, cpu, cuda.")
@click.option("--output", type=click.Path(path_type=Path), help="The file to write; by default beside the model.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def main(
    model: str, texts: tuple[Path, ...], context: int, count: int, device: str, output: Path | None, *, as_json: bool
) -> None:
    """Learn the statistics that all KV caches of MODEL share, so that coded chunks can leave them out.

    MODEL is `demo`, a folder or a hub name. Texts are text or Parquet files; by default the sample tables. The profile
    is learned from three of four contexts. The report measures each level's size and error on the others.

    \b
    python -m flightllm.kvcache.profile demo
    python -m flightllm.kvcache.profile models/qwen3 --texts reviews.parquet --texts manual.txt
    """
    try:
        _profile(model, texts, (context, count), device, output, as_json=as_json)
    except FlightLLMError as error:
        raise CommandError(str(error)) from error


def _profile(
    model: str, texts: Sequence[Path], size: tuple[int, int], device: str, output: Path | None, *, as_json: bool
) -> None:
    try:
        from flightllm.engines.local.model import PrefixModel
        from flightllm.kvcache.profile.learn import learn
        from flightllm.kvcache.profile.report import report
        from flightllm.llm.tokenizer import PromptEncoder
    except ImportError as error:
        raise MissingExtraError("profiling a model", "local,kvcache") from error
    folder = model_folder(model)
    target = output or profile_path(folder)
    console = Console(stderr=True)
    encoder = PromptEncoder(folder, chat=False)
    tokens, count = size
    tokenized = (encoder.encode([text])[0] for text in (read_texts(texts) if texts else sample_texts()))
    prompts = list(contexts(tokenized, tokens, count))
    if len(prompts) < _HELD_OUT:
        raise ConfigError(
            f"the texts are too short: they give {len(prompts)} contexts of {tokens} tokens, at least {_HELD_OUT} are"
            " needed; give more --texts, or a smaller --context"
        )
    console.print(f"computing {len(prompts)} contexts of {tokens:,} tokens; --contexts and --context reduce them")
    computing = PrefixModel(folder, device, "auto")
    chunks = [
        computing.kv_cache(prompt).cpu() for prompt in track(prompts, "KV caches", console=console, transient=True)
    ]
    learned = [chunk for place, chunk in enumerate(chunks) if (place + 1) % _HELD_OUT]
    profile = learn(lambda: track(learned, "Learning", console=console, transient=True))
    target.parent.mkdir(parents=True, exist_ok=True)
    profile.save(target)
    found = report(profile, chunks[_HELD_OUT - 1 :: _HELD_OUT])
    if as_json:
        click.echo(json.dumps({"profile": str(target), "levels": [asdict(one) for one in found]}))
        return
    out = Console()
    table = Table("level", "bits/element", "entropy", "smaller than int8", title=f"{target}, on texts not learned from")
    for one in found:
        table.add_row(f"{one.level}", f"{one.bits:.3f}", f"{one.entropy_bits:.3f}", f"{one.by_int8:.2f}×")
    out.print(table)
    errors = Table(
        "layer", *(f"level {one.level}" for one in found), title="Error of keys and values, of their own size"
    )
    for layer in range(profile.layers):
        errors.add_row(f"{layer}", *(" and ".join(f"{part:.1%}" for part in one.errors[layer]) for one in found))
    out.print(errors)


if __name__ == "__main__":
    main(prog_name="python -m flightllm.kvcache.profile")
