"""The figures by which each benchmark compares two versions of the project, and its quick and smallest forms.

`bench.regress` also reads the table of the earlier commit, so the names `SCRIPTS` and `quick` must stay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Script:
    """One benchmark: how to run it quickly, and which of its figures are better when higher or lower.

    `figures` are patterns over the names of its JSON figures. Names in inner objects and lists are joined by " / ".
    `quick` and `smallest` are its arguments. Without `smallest`, the quick form is also the smallest.
    """

    figures: Mapping[str, Literal["higher", "lower"]]
    quick: Sequence[str] = ("--quick",)
    smallest: Sequence[str] | None = None
    formerly: Sequence[str] = ()
    """The script and arguments of the same measurement in a commit whose own table does not list this script.

    The commit runs its own form, which can take the median of fewer runs.
    """
    sizes: Sequence[str] = ()
    """The figures that say how much was measured. Two versions are compared only where these figures are equal."""
    needs: Sequence[str] = ()
    """The packages that it needs in addition to those of every benchmark."""
    data: bool = False
    """Whether it reads the tables in `FLIGHTLLM_DATA`, in this version or in an earlier one."""


SCRIPTS: Final[Mapping[str, Script]] = {
    "estimates": Script({"*_error": "lower"}),
    "start": Script({"*_flightllm_cpu_seconds": "lower"}, sizes=("bytes",)),
    "planning": Script({"six_way_join_cpu_ms, all phases": "lower", "*_ms": "lower"}),
    "operator": Script(
        {
            "cache_persistent_prompts_per_second": "higher",
            "cache_off_prompts_per_second": "higher",
            "cache_*_peak_mib": "lower",
        },
        smallest=("--quick", "--repeats", "1"),
        sizes=("rows", "distinct_prompts", "text_characters"),
    ),
    "streaming": Script(
        {
            "flightllm_mib_per_second": "higher",
            "ratio": "higher",
            "memory_ratio": "higher",
            "first_memory_ratio": "higher",
        },
        smallest=("--quick", "--repeats", "1"),
        sizes=("bytes",),
    ),
    "recovery": Script({"seconds": "lower"}),
    "dedup": Script({"errors / * / calls": "lower", "errors / * / recall": "higher"}, sizes=("rows", "seeds")),
    "cascades": Script({"sources / * / flightllm / share": "lower"}, sizes=("rows", "seeds")),
    "approximate": Script(
        {"sources / * / proxy / asked": "lower", "sources / * / proxy / missed": "lower"}, sizes=("rows", "seeds")
    ),
    "endpoints": Script(
        {"kinds / * / requests_a_row": "lower", "kinds / * / seconds": "lower", "kinds / * / answered": "higher"},
        smallest=("--rows", "2", "--only", "tenth"),
        sizes=("rows",),
    ),
    "bill": Script(
        {"providers / * / bill": "lower", "small / * / bill": "lower"},
        smallest=("--quick", "--only", "groq", "--queries", "sentiment", "--rows", "2"),
        sizes=("rows",),
        data=True,
    ),
    "optimizer": Script(
        {"* / on / calls": "lower", "* / on / computed_tokens": "lower", "* / on / seconds": "lower"},
        smallest=("--quick", "--repeats", "1"),
    ),
    "similar_join": Script(
        {"questions": "lower", "recall": "higher", "peak_mib": "lower"}, sizes=("rows", "matches", "dimensions")
    ),
    "attached_join": Script({"share": "lower", "ratio": "lower"}, sizes=("rows", "keys", "index")),
    "rank": Script({"errors / * / * / calls": "lower", "errors / * / * / recall": "higher"}, sizes=("items", "seeds")),
    "fewest_calls": Script({"window *, * / on": "lower"}, smallest=("--quick", "--repeats", "1")),
    "llm_queries": Script(
        {"totals / * / calls": "lower", "totals / * / computed_tokens": "lower", "totals / * / cpu_seconds": "lower"}
    ),
    "ablations": Script({"* / calls": "lower", "* / computed_tokens": "lower"}),
    "real_tables": Script({"* / calls": "lower", "* / seconds": "lower"}, ("--quick", "--engine", "fake")),
    "rag": Script(
        {"queries / * / computed_tokens": "lower", "queries / * / cpu_seconds": "lower"},
        needs=("faiss",),
        data=True,
    ),
    "ordering": Script(
        {"*_percent": "higher", "cpu_seconds": "lower"},
        smallest=("--generate", "500"),
        formerly=("ordering", "--generate", "20000"),
        sizes=("rows", "columns"),
    ),
    "choice": Script(
        {"tables / * / auto / cpu_seconds": "lower", "tables / * / auto / hit_rate": "higher"},
        ("{data}/products.parquet", "--engine", "fake"),
        ("{data}/products.parquet", "--engine", "fake", "--rows", "50", "--repeats", "1"),
    ),
    "vector": Script(
        {
            "types / * / seconds": "lower",
            "types / * / build_seconds": "lower",
            "types / * / ours_recall": "higher",
        },
        smallest=("--quick", "--repeats", "1"),
        sizes=("vectors", "queries"),
        needs=("faiss",),
    ),
    "promises": Script({"queries / * / calls": "lower", "queries / * / misses": "lower"}, sizes=("seeds", "reviews")),
    "sembench": Script(
        {
            "errors / 0 / cold / * / calls": "lower",
            "errors / 0 / cold / * / tokens": "lower",
            "errors / 0 / cold / * / score": "higher",
            "errors / 0 / kept / calls": "lower",
        },
        sizes=("labels / rows",),
        needs=("duckdb",),
        data=True,
    ),
    "messy": Script(
        {"families / * / flightllm / right": "higher", "families / * / flightllm / wrong": "lower"}, ("--quick",)
    ),
    "priorities": Script({"* / median": "lower"}),
    "load": Script({"MiB per second": "higher", "* / p50_ms": "lower"}),
    "router_sim": Script(
        {"* / e2* / hit_ratio": "higher", "* / e2* / mean": "lower", "* / e2* / decisions_per_second": "higher"}
    ),
    "router_speed": Script(
        {
            "e2, * open, decisions per second": "higher",
            "*, * open, decisions per second": "higher",
            "e2, MiB of the tree and the fleet": "lower",
        },
        ("--quick", "--repeats", "3"),
        smallest=("--quick", "--repeats", "1"),
        formerly=("router_sim", "--speed", "--quick"),
        sizes=("e2, edges in the tree", "e2, tokens in the tree"),
    ),
    "router_batch": Script({"* / e2_batch / makespan": "lower", "* / e2_batch / decisions_per_second": "higher"}),
    "router_live": Script({"policies / * / computed_tokens": "lower", "policies / * / cpu_seconds": "lower"}),
    "eviction_sim": Script(
        {
            "hits / * / planned": "higher",
            "hits / * / workload_aware": "higher",
            "microseconds / planned": "lower",
            "microseconds / workload_aware": "lower",
        },
        data=True,
    ),
    "kv_codec": Script(
        {
            "*, by int8": "higher",
            "*, fast, bits": "lower",
            **{f"*, {codec} / {place}": "higher" for codec in ("cachegen-*", "fast") for place in (0, 1)},
        },
        ("--quick", "--repeats", "2"),
        smallest=("--quick", "--repeats", "1"),
    ),
    "interactive": Script({"p50": "lower", "p99": "lower", "bulk_seconds": "lower"}),
    "kv_adaptation": Script({"* / adaptive / mean": "lower"}),
    "kv_quality": Script(
        {"outcomes / cachegen-* / bits": "lower", "outcomes / cachegen-* / perplexity": "lower"},
        smallest=("--repeats", "1", "--texts", "1"),
    ),
    "kv_ttft": Script(
        {"* / adaptive": "lower"},
        smallest=("--gbps", "10", "--tokens", "200", "--chunk", "100", "--repeats", "1", "--model", "demo"),
    ),
    "network": Script({"inf Gbit/s: median Gbit/s": "higher"}),
    "engine_steps": Script({"*": "lower"}, needs=("vllm",)),
    "frontend": Script({"* / flightllm_ms": "lower"}, smallest=("--quick", "--repeats", "1"), needs=("vllm",)),
    "kv_vllm": Script({"* / computed": "lower"}, needs=("vllm",)),
    "eviction_vllm": Script({"* / planned / hits": "higher"}, needs=("vllm",), data=True),
    "eviction_speed": Script({"* / microseconds": "lower", "* / throughput": "higher"}, needs=("vllm",)),
}
"""Every script that prints figures as JSON."""
HOT: Final = ("streaming", "operator", "planning", "ordering", "vector", "kv_codec", "router_speed")
"""The scripts that measure the hot paths: what each row, prompt or query of a user passes through."""
APART: Final[Mapping[str, str]] = {
    "hostile": "attacks a server, and fails by its own limits",
    "misbehaving": "is the endpoint that another one measures",
    "vectors_endpoint": "is the endpoint that another one uses",
    "regress": "compares the others",
    "record": "runs the others, and keeps what they print",
    "prompts": "measures how good answers are, with a model of one's own",
    "examples": "measures how good answers are, with a model of one's own",
    "rows_per_request": "measures how good answers are, with a model of one's own",
    "questions_per_request": "measures how good answers are, with a model of one's own",
    "finite_cache": "compares orders with those of other projects, and takes minutes",
    "gpu": "runs others on a GPU",
    "sembench_runner": "puts files into a copy of SemBench",
    "peers": "runs other projects' code, in environments of their own",
}
"""Modules that can run but are not compared, with the reason."""
