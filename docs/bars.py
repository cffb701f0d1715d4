"""Draw bars as SVG, in colours for light and for dark pages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from xml.sax.saxutils import escape

from docs.pictures.drawing import STYLE

_WIDTH, _EDGE, _BAR, _BETWEEN, _LETTER = 680, 12, 20, 14, 8.4
_VALUE_WIDTH: Final = 74
_COLOURS: Final = (("#9aa5b1", "#6b7785"), ("#4477aa", "#7aa7d9"), ("#ccbb44", "#ccbb44"), ("#228833", "#55aa66"))
"""The colours of the kinds of bars, in order: on a light page, and on a dark page."""


@dataclass(frozen=True, slots=True)
class Bars:
    """Rows of bars: each row has a name, and a value for each of `kinds`. `values` has the text of each value.

    A bar begins at `start`. So readers can see small differences between rows; the picture says where bars begin.
    """

    title: str
    kinds: tuple[str, ...]
    rows: Mapping[str, tuple[float, ...]]
    form: str = "{:,.0f}"
    start: float = 0.0
    highlighted: tuple[str, ...] = field(default=())
    """The rows whose bar has the second colour, if there is only one kind."""


def draw(bars: Bars) -> str:
    """Return the picture."""
    left = _EDGE + round(_LETTER * max(map(len, bars.rows))) + 8
    several = len(bars.kinds) > 1
    top = 66 if several else 40
    each = _BAR * len(bars.kinds) + _BETWEEN
    height = top + each * len(bars.rows)
    longest = max(value for row in bars.rows.values() for value in row) - bars.start
    scale = (_WIDTH - left - _EDGE - _VALUE_WIDTH) / (longest or 1.0)
    light = "".join(f".bar{n}{{fill:{one}}}" for n, (one, _) in enumerate(_COLOURS))
    dark = "".join(f".bar{n}{{fill:{one}}}" for n, (_, one) in enumerate(_COLOURS))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" role="img">',
        f"<title>{escape(bars.title)}</title>",
        f"<style>{STYLE}{light}@media(prefers-color-scheme:dark){{{dark}}}</style>",
        _text(_EDGE, 24, "title", bars.title + (f" (bars begin at {bars.start:g})" if bars.start else "")),
    ]
    if several:
        parts.extend(_legend(bars.kinds))
    for number, (name, values) in enumerate(bars.rows.items()):
        middle = top + each * number + _BAR * len(values) // 2
        parts.append(_text(_EDGE, middle + 5, "text", name))
        for kind, value in enumerate(values):
            colour = kind if several else int(name in bars.highlighted or not bars.highlighted)
            y, width = top + each * number + _BAR * kind, max(1.0, scale * (value - bars.start))
            box = f'x="{left}" y="{y}" width="{width:.1f}" height="{_BAR - 3}" rx="3"'
            parts.append(f'<rect class="bar{colour}" {box}/>')
            parts.append(_text(round(left + width + 6), y + 14, "text", bars.form.format(value)))
    return "\n".join([*parts, "</svg>", ""])


def _legend(kinds: tuple[str, ...]) -> list[str]:
    parts, left = [], _EDGE
    for number, kind in enumerate(kinds):
        parts.append(f'<rect class="bar{number}" x="{left}" y="38" width="14" height="14" rx="3"/>')
        parts.append(_text(left + 20, 50, "text", kind))
        left += 44 + round(_LETTER * len(kind))
    return parts


def _text(left: int, bottom: int, kind: str, text: str) -> str:
    return f'<text class="{kind}" x="{left}" y="{bottom}">{escape(text)}</text>'
