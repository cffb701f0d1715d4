"""Draw figures with matplotlib, which the extra `bench` installs."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from flightllm.errors import MissingExtraError

_COLOURS: Final = ("#4477aa", "#66ccee", "#ccbb44", "#aa3377", "#228833", "#ee6677", "#777777")


def plot_steps(
    topics: Mapping[str, Mapping[str, Mapping[str, Mapping[str, Any]]]], path: Path, measure: str = "cpu_seconds"
) -> None:
    """Draw one panel per topic: a bar for each step, with its `cpu_seconds` or `seconds` stacked by query.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    figure, axes = _figure(len(topics), 5.2, 3.4)
    for axis, (topic, steps) in zip(axes, topics.items(), strict=True):
        names = list(steps)[::-1]
        left = [0.0] * len(names)
        for colour, query in zip(_COLOURS, next(iter(steps.values())), strict=False):
            seconds = [steps[name][query][measure] for name in names]
            axis.barh(names, seconds, left=left, color=colour, label=query.upper())
            left = [a + b for a, b in zip(left, seconds, strict=True)]
        axis.bar_label(axis.containers[-1], labels=[f" {total:.0f}" for total in left])
        axis.set(title=topic.capitalize(), xlabel=measure.replace("_", " ").replace("cpu", "CPU"))
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=120)


Curve = Sequence[tuple[float, float]]


def plot_curves(
    panels: Mapping[str, Mapping[str, Curve]], path: Path, across: str, *, logarithmic: bool = False
) -> None:
    """Draw the panels side by side, each with its title and a line for each curve of (x, y).

    A panel whose curves have other names than those of the first panel has a legend of its own.
    `across` is the label of the x axis.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    figure, axes = _figure(len(panels), 4.6, 3.6)
    for axis, (name, curves) in zip(axes, panels.items(), strict=True):
        for colour, (label, points) in zip(cycle(_COLOURS), curves.items(), strict=False):
            axis.plot(*zip(*points, strict=True), color=colour, label=label, marker="o", markersize=4)
        axis.set(title=name, xlabel=across, xscale="log" if logarithmic else "linear")
        axis.spines[["top", "right"]].set_visible(False)
    first, *_ = panels.values()
    for place, (axis, curves) in enumerate(zip(axes, panels.values(), strict=True)):
        if place == 0 or list(curves) != list(first):
            axis.legend(frameon=False)
    figure.savefig(path, dpi=120)


def _figure(count: int, width: float, height: float) -> tuple[Any, Any]:
    """Return a figure and its axes side by side, each `width` × `height` inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("--plot", "bench") from error
    figure = Figure(figsize=(width * count, height), layout="constrained")
    return figure, figure.subplots(1, count, squeeze=False)[0]
