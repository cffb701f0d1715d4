"""Run the paper's queries and their ablations on a GPU, with a model of the shape of seven billion parameters.

    python -m bench.gpu [--model 7b|FOLDER] [--rows 2000] [--cache-blocks 1875] [--in-flight 128]

This runs `bench.llm_queries --suite paper` and `bench.ablations` in vLLM, and prints their JSON objects. The weights of
`7b` are random; time, tokens and cache hits are those of a trained model. The default cache holds 60,000 tokens, about
as many as fit beside such a model into 24 GB. Without a GPU the script says so, and its exit code is 1.
"""

import argparse
import sys
from collections.abc import Sequence

from bench import ablations, llm_queries


def missing() -> str:
    """Return why vLLM cannot run on a GPU here, or an empty text."""
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed: install the extra `gpu`"
    return "" if torch.cuda.is_available() else "PyTorch finds no CUDA device: run this on a machine with a GPU"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="7b", help="7b (random weights), or a model's folder (default %(default)s)")
    parser.add_argument("--rows", default="2000", help="rows of each table (default %(default)s)")
    parser.add_argument("--cache-blocks", default="1875", help="cache blocks of 32 tokens (default %(default)s)")
    parser.add_argument("--in-flight", default="128", help="prompts at once (default %(default)s)")
    given = parser.parse_args(arguments)
    if reason := missing():
        sys.exit(f"bench.gpu: no GPU. {reason}. `python -m bench.llm_queries --suite paper` runs on a CPU.")
    chosen = ["--engine", "vllm", "--json"]
    for name, value in vars(given).items():
        chosen += [f"--{name.replace('_', '-')}", value]
    llm_queries.main(["--suite", "paper", *chosen])
    ablations.main(chosen)


if __name__ == "__main__":
    main()
