"""What do a few labelled examples, or a sample of the rows, do to a model's answers?

    python -m bench.examples --model FOLDER [FOLDER …] [--tasks opinions questions gadgets] [--rows 48] [--examples 8]
        [--widest 1500] [--out FILE.json] [--json]

Each task of `bench.labelled` is asked in four ways. The tasks of `JUDGING` chose nothing: no format of prompts, no rule
about examples, and no setting of the product. Other tasks did: headlines, insults and emotions influenced the rules.

The ways:

- `raw`: the question without examples
- `examples`: with `--examples` labelled rows beside the measured ones. As in a query, each example is asked by
  itself, and with the others before it. These answers decide whether the examples stay in the prompts, and how the cut
  moves.
- `batch`: `raw`, with offsets by which the measured rows have all options equally often; no label is used
- `plain`: the question as a person puts it to a chat, after the data

The figures are the accuracy, the area under the ROC curve (for two labels), and the expected calibration error. This
error is that of the chosen option's probability. Intervals cover 95 %. Wilson's method gives that of the accuracy. The
others come from the bootstrap over rows, also that of the gain in accuracy over `raw`.

The model's probabilities are written to a JSON file at once. A new run continues where the last one stopped. The
figures come from these probabilities by the rules of the product. So after a change of the rules, a run with the same
arguments has the new figures. It needs no model and no table: `--model` then takes a folder's name without its path.
"""

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.common import machine
from bench.labelled import TASKS, Row, Task, task
from bench.prompts import area_under_curve, choice_call, plain_prompt
from flightllm.config import EngineConfig
from flightllm.engines import Engine, create_engine
from flightllm.functions.base import Entries
from flightllm.functions.bind import Argument, Constant
from flightllm.functions.calibration import decided
from flightllm.functions.call import AICall, LabelledExample, Wording
from flightllm.functions.shift_fit import Shift, fitted_to_rows
from flightllm.llm.engine import Choice, Request
from flightllm.llm.prompt_formats import INSTRUCT

JUDGING: Final = ("opinions", "questions", "gadgets")
"""The tasks that judge the rules. If their figures change a rule, other tasks must replace them."""
WAYS: Final = ("raw", "examples", "batch", "plain")
_BINS: Final = 5
"""Groups of equally many rows, by confidence, for the calibration error."""
_DRAWS: Final = 2_000
_SEED: Final = 11
_Numbers = NDArray[np.float64]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(description="What examples do to a model's answers.")
    parser.add_argument("--model", nargs="+", required=True, help="the models' folders")
    parser.add_argument("--tasks", nargs="+", default=JUDGING, choices=tuple(TASKS))
    parser.add_argument("--rows", type=int, default=48, help="measured rows of each task (default %(default)s)")
    parser.add_argument("--examples", type=int, default=8, help="labelled examples (default %(default)s)")
    parser.add_argument("--widest", type=int, default=1_500, help="characters of a field (default %(default)s)")
    parser.add_argument("--out", type=Path, default=None, help="a JSON file that is read first and then written")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    given = parser.parse_args(arguments)
    known: dict[str, dict[str, Any]] = {}
    if given.out is not None and given.out.is_file():
        known = json.loads(given.out.read_text("utf-8"))
    found = []
    for folder in given.model:
        with ExitStack() as stack:
            engine: Engine | None = None
            for name in given.tasks:
                key = f"{Path(folder).name} {name} {given.rows} {given.examples} {given.widest}"
                if key not in known:
                    if engine is None:
                        engine = stack.enter_context(closing(create_engine(EngineConfig("local", folder, 16))))
                    asked = task(name, given.rows + given.examples, widest=given.widest)
                    known[key] = _measure(engine, asked, given.rows)
                    if given.out is not None:
                        given.out.write_text(json.dumps(known) + "\n", "utf-8")
                found.append({"model": Path(folder).name, "task": name, **figures(known[key])})
                print(_table(found[-1]), flush=True)
    if given.json:
        counts = {"rows": given.rows, "examples": given.examples}
        print(json.dumps({"bench": "examples", **counts, "results": found, "machine": machine()}))


def _measure(engine: Engine, asked: Task, rows: int) -> dict[str, Any]:
    """Return the model's probabilities of the options for the first `rows` rows; the other rows are the examples."""
    measured, examples = asked.rows[:rows], asked.rows[rows:]
    call = choice_call(asked, [Argument((), "examples", Constant(tuple(_example(asked, row) for row in examples)))])
    bare = choice_call(asked)
    if (labelled := call.labelled) is None:
        raise SystemExit(f"{asked.name} has examples of only one label: take more of them")
    return {
        "wanted": [row.label for row in measured],
        "raw": _probabilities(engine, bare, measured),
        "aided": _probabilities(engine, call, measured),
        "plain": _ask(engine, bare, [plain_prompt(asked, row) for row in measured]),
        "examples": [one.wanted for one in labelled.examples],
        "examples_alone": [_ask(engine, call, [_prompt(call, labelled.without, one)])[0] for one in labelled.examples],
        "examples_aided": [_ask(engine, call, [_prompt(call, one.wording, one)])[0] for one in labelled.examples],
    }


def _prompt(call: AICall, wording: Wording, example: LabelledExample) -> str:
    """Return the prompt about an example in these words, without or with the other examples."""
    named = [(name, value) for name, value in zip(call.fields, example.values, strict=True) if value is not None]
    return call.worded(wording).prompt(named, prompt_format=INSTRUCT)


def answers(measured: Mapping[str, Any]) -> tuple[dict[str, _Numbers], str]:
    """Return the probabilities of the options in each way, and in words what the examples did."""
    decision = decided(measured["examples"], measured["examples_alone"], measured["examples_aided"])
    shift = decision.change if isinstance(decision.change, Shift) else None
    own = measured["aided" if decision.in_prompts else "raw"]
    by_rows = fitted_to_rows(measured["raw"])
    found = {
        "raw": measured["raw"],
        "examples": own if shift is None else [shift.of(one) for one in own],
        "batch": measured["raw"] if by_rows is None else [by_rows.of(one) for one in measured["raw"]],
        "plain": measured["plain"],
    }
    change = "nothing changed" if shift is None else "cut moved" if any(shift.offsets) else "certainty changed"
    how = f"examples {'in' if decision.in_prompts else 'not in'} the prompts, {change}"
    return {way: np.array(given) for way, given in found.items()}, how


def figures(measured: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of all ways from the model's probabilities, each as [figure, low, high]."""
    wanted = np.array(measured["wanted"])
    random = np.random.default_rng(_SEED)
    draws = random.integers(0, len(wanted), (_DRAWS, len(wanted)))
    probabilities, how = answers(measured)
    raw = _right(probabilities["raw"], wanted)
    found: dict[str, Any] = {"how": how}
    for way, given in probabilities.items():
        right = _right(given, wanted)
        gains = (right - raw)[draws].mean(1)
        found[way] = {
            "accuracy": [round(float(right.mean()), 3), *wilson(int(right.sum()), len(right))],
            "gain": [round(float((right - raw).mean()), 3), *_middle(gains)],
            "area": _interval(_area, given, wanted, draws) if given.shape[1] == 2 else None,
            "error": _interval(calibration_error, given, wanted, draws),
        }
    return found


def wilson(right: int, rows: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share."""
    share, squared = right / rows, 1.96**2
    middle = (share + squared / (2 * rows)) / (1 + squared / rows)
    half = 1.96 / (1 + squared / rows) * math.sqrt(share * (1 - share) / rows + squared / (4 * rows**2))
    return round(middle - half, 3), round(middle + half, 3)


def calibration_error(probabilities: _Numbers, wanted: NDArray[np.int64]) -> float:
    """Return the expected calibration error: the mean gap between confidence and accuracy in groups of equal size.

    Rows are grouped by the probability of the chosen option.
    """
    confidence, right = probabilities.max(1), _right(probabilities, wanted)
    order = np.argsort(confidence, kind="stable")
    groups = np.array_split(order, _BINS)
    return float(sum(abs(confidence[one].mean() - right[one].mean()) * len(one) for one in groups) / len(order))


def _right(probabilities: _Numbers, wanted: NDArray[np.int64]) -> _Numbers:
    found: _Numbers = (probabilities.argmax(1) == wanted).astype(np.float64)
    return found


def _area(probabilities: _Numbers, wanted: NDArray[np.int64]) -> float:
    return area_under_curve(probabilities[:, 0], wanted == 0)


def _interval(
    figure: Callable[[_Numbers, NDArray[np.int64]], float],
    probabilities: _Numbers,
    wanted: NDArray[np.int64],
    draws: NDArray[np.int64],
) -> list[float]:
    drawn = [figure(probabilities[one], wanted[one]) for one in draws if len(set(wanted[one].tolist())) > 1]
    return [round(figure(probabilities, wanted), 3), *_middle(np.array(drawn))]


def _middle(drawn: _Numbers) -> tuple[float, float]:
    low, high = np.quantile(drawn, [0.025, 0.975])
    return round(float(low), 3), round(float(high), 3)


def _example(asked: Task, row: Row) -> tuple[Entries, str]:
    answer = ("Yes", "No")[row.label] if asked.question else asked.labels[row.label]
    return Entries(row.fields), answer


def _probabilities(engine: Engine, call: AICall, rows: Sequence[Row]) -> list[list[float]]:
    return _ask(engine, call, [call.prompt(row.fields, prompt_format=INSTRUCT) for row in rows])


def _ask(engine: Engine, call: AICall, prompts: Sequence[str]) -> list[list[float]]:
    """Return the probabilities of the call's options after each prompt.

    Raises:
        SystemExit: the engine gives no probabilities.
    """
    requests = (Request(n, text, call.parameters, call.function, "", ()) for n, text in enumerate(prompts))
    found: dict[int, list[float]] = {}
    for completion in engine.generate(requests, lambda: False):
        found[completion.id] = list(completion.probabilities or ())
    constraint = call.parameters.constraint
    if not isinstance(constraint, Choice) or any(len(one) != len(constraint.options) for one in found.values()):
        raise SystemExit(f"{engine.name} gives no probabilities of the options")
    return [found[n] for n in range(len(prompts))]


def _table(one: Mapping[str, Any]) -> str:
    """Return the figures of one task as lines of Markdown."""
    lines = [f"{one['model']} {one['task']}: {one['how']}"]
    for way in WAYS:
        values = [f"{name} {_shown(figure)}" for name, figure in one[way].items() if figure is not None]
        lines.append(f"  {way:9}" + ", ".join(values))
    return "\n".join(lines)


def _shown(figure: Sequence[float]) -> str:
    value, low, high = figure
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    main()
