"""Write the figures of the pages in `docs/benchmarks`, of README and of `bench/README.md`: `python -m docs.figures`.

Each figure comes from a file that `python -m bench.record` wrote. A page's own words have no figures. With `--check`
nothing is written, and the exit code is the number of files that differ.
"""

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench.models import SHAPES
from bench.record import RESULTS
from docs.answers import ANSWERS, MORE_ANSWERS, RULES, percent
from docs.bars import draw
from docs.generate import filled, table, written
from docs.measured import MEASURED
from docs.steps import DEFAULTS, SORTED, Figures, held, kinds, orders

DOCS: Final = Path(__file__).parent
FOLDER: Final = DOCS / "benchmarks"
README: Final = DOCS.parent / "README.md"
MORE: Final = DOCS.parent / "bench" / "README.md"
"""The page of the benchmarks that no page of the folder has."""
ORDER: Final = DOCS / "explanation" / "prompt-order.md"


def main(arguments: list[str]) -> int:
    """Write every file; with `--check` write nothing, and return how many differ."""
    return written(files(), arguments)


def files() -> Mapping[Path, str]:
    """Return the text of each page and picture, as it must be."""
    made: dict[Path, str] = {}
    answers = []
    for name, (source, make) in ANSWERS.items():
        whole = json.loads((RESULTS / f"{source}.json").read_text(encoding="utf-8"))
        part, path = make(whole["figures"]), FOLDER / f"{name}.md"
        lines = [f"**{part.answer}**", ""]
        if part.bars:
            made[path.with_suffix(".svg")] = draw(part.bars)
            lines += [f"![{part.bars.title}]({name}.svg)", ""]
        made |= {FOLDER / f"{name}-{key}.svg": draw(bars) for key, bars in part.more.items()}
        made[path] = filled(path, "figures", "\n".join([*lines, part.table, _origin(whole)]))
        for record, show in MORE_ANSWERS.get(name, {}).items():
            if (file := RESULTS / f"{record}.json").is_file():  # the part stays empty before the first record
                more = json.loads(file.read_text(encoding="utf-8"))
                made[path] = filled(path, record, f"{show(more['figures'])}\n{_origin(more)}", made[path])
        answers.append((f"[{title(path)}]({name}.md)", part.answer))
    made[FOLDER / "index.md"] = filled(FOLDER / "index.md", "answers", table(("question", "answer"), answers))
    made[README] = filled(README, "savings", _savings())
    made[ORDER] = filled(ORDER, "seconds", orders(_record("prompt_order")))
    text = MORE.read_text(encoding="utf-8")
    for name, show in MEASURED.items():
        whole = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        text = filled(MORE, name, f"{show(whole['figures'])}\n{_origin(whole)}", text)
    return {**made, MORE: text}


def title(path: Path) -> str:
    """Return a page's heading."""
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _record(name: str) -> Figures:
    figures: Figures = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["figures"]
    return figures


def _origin(whole: Mapping[str, Any]) -> str:
    """Return a sentence about the run: the command, the day, the machine and other work on it."""
    machine = dict(whole["figures"]["machine"])
    cpu, cores, python = (machine.pop(name) for name in ("cpu", "cores", "python"))
    versions = ", ".join(f"{name} {version}" for name, version in machine.items())
    command, has_model = whole["command"], _has_own_model(whole["command"])
    if has_model and "bench.prompts" in command:  # this script takes a path, and looks in no other folder
        command, has_model = command.replace("--model ", "--model …/"), False
    needed = {"FLIGHTLLM_DATA": whole["own_tables"], "FLIGHTLLM_TEST_MODELS": has_model}
    variables = "".join(f'{name}="…" ' for name, is_needed in needed.items() if is_needed)
    command = f"```text\n{variables}{command}\n```\n"
    return f"{command}\n{whole['date']}, {cores} cores of {cpu}, Python {python}, {versions}. {_other_work(whole)}\n"


def _other_work(whole: Mapping[str, Any]) -> str:
    """Return a sentence about other work; older records, and those without psutil, only have a load before."""
    if whole.get("others") is not None:
        return f"Other work kept {whole['others']:.1f} cores busy during the run."
    return "The machine was busy before the run." if whole["load"] >= 0.5 else "The machine was idle before the run."


def _has_own_model(command: str) -> bool:
    """Return whether `--model` names a folder, and no shape with random weights."""
    words = shlex.split(command)
    return "--model" in words and words[words.index("--model") + 1] not in SHAPES


def _savings() -> str:
    """Return README's table."""
    paper = _record("prompt_order")
    without, before, *_ = paper["whole"].values()
    after = paper["whole"][DEFAULTS]
    off, on = (_record("sql_rules")["queries"]["movies"][step] for step in (SORTED, DEFAULTS))
    queries = f"{kinds(paper)}, `{paper['model']}`"
    rows = [
        (f"{queries}, against no prefix cache: seconds", *(f"{one['seconds']:,.0f}" for one in (without, after))),
        (
            f"the same, against only a prefix cache; {held(paper)}: seconds",
            *(f"{one['seconds']:,.0f}" for one in (before, after)),
        ),
        ("the same: computed tokens", *(f"{one['computed_tokens']:,}" for one in (before, after))),
        ("the same: tokens from the prefix cache", *(percent(one["hit_rate"]) for one in (before, after))),
    ]
    rows += [(f"{words}: calls", *(f"{one[query]['calls']:,}" for one in (off, on))) for query, words in RULES.items()]
    return table(("what", "without", "with"), rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
