"""Draw the pictures in `docs/img/`: `python docs/picture.py`."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

FOLDER: Final = Path(__file__).parent / "img"
_STEPS: Final = (
    ("SQL", ("any Flight SQL client",)),
    ("Plain conditions", ("run first: fewer", "rows reach the model")),
    ("Equal prompts", ("are sent once, across", "queries and clients")),
    ("Shared starts", ("go one after the other:", "the cache serves them")),
    ("Model", ("your GPU, or any", "hosted endpoint")),
    ("Answers", ("are checked, kept,", "streamed as Arrow")),
)
_COLUMNS, _WIDTH, _HEIGHT, _GAP, _EDGE = 3, 196, 92, 34, 12
STYLE: Final = (
    "svg{font-family:system-ui,sans-serif}"
    ".box{fill:#eef3fb;stroke:#4477aa}.title{fill:#112233;font-weight:600;font-size:17px}"
    ".text{fill:#334455;font-size:15px}.arrow{stroke:#4477aa;stroke-width:2;fill:none}.head{fill:#4477aa}"
    "@media(prefers-color-scheme:dark){.box{fill:#1c2733;stroke:#7aa7d9}.title{fill:#eeeeff}.text{fill:#bbccdd}"
    ".arrow{stroke:#7aa7d9}.head{fill:#7aa7d9}}"
    ".left{text-anchor:start}.asked{fill:#4477aa}.kept{fill:none;stroke:#4477aa;stroke-dasharray:4 3}"
    ".own{fill:#ccbb44}.on{fill:#ffffff;font-size:14px}.off{fill:#4477aa;font-size:14px}.dark{fill:#222222;font-size:14px}"
)
_ROWS: Final = {
    "as the rows come": (("A", "good"), ("B", "bad"), ("A", "fine")),
    "as FlightLLM sends them": (("A", "good"), ("A", "fine"), ("B", "bad")),
}
"""The synopsis and the review of each prompt."""


def pictures() -> Mapping[str, str]:
    """Return each picture as SVG, by its file's name; in colours for light and for dark pages."""
    return {"plan.svg": _plan(), "order.svg": _order()}


def _order() -> str:
    """Draw three prompts in two orders: a synopsis that the prompt before had too comes from the cache."""
    width, height, bar = 680, 172, 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
        f"<title>Prompts in two orders</title><style>{STYLE}</style>",
    ]
    for column, (title, rows) in enumerate(_ROWS.items()):
        left = _EDGE + column * width // 2
        parts.append(f'<text class="title left" x="{left}" y="28">{escape(title)}</text>')
        for number, (synopsis, review) in enumerate(rows):
            top = 44 + number * (bar + 10)
            known = number > 0 and rows[number - 1][0] == synopsis
            kind, colour, said = ("kept", "off", "from the cache") if known else ("asked", "on", "computed")
            parts.append(f'<rect class="{kind}" x="{left}" y="{top}" width="210" height="{bar}" rx="4"/>')
            parts.append(_said(left + 105, top + 20, colour, f"synopsis {synopsis}, {said}"))
            parts.append(f'<rect class="own" x="{left + 214}" y="{top}" width="70" height="{bar}" rx="4"/>')
            parts.append(_said(left + 249, top + 20, "dark", review))
    return "\n".join([*parts, "</svg>", ""])


def _plan() -> str:
    """Draw the way of a query: boxes in two rows."""
    rows = -(-len(_STEPS) // _COLUMNS)
    width = _COLUMNS * (_WIDTH + _GAP) - _GAP + 2 * _EDGE
    height = rows * (_HEIGHT + _GAP) - _GAP + 2 * _EDGE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
        f"<title>The way of a query</title><style>{STYLE}</style>",
    ]
    for number, (title, lines) in enumerate(_STEPS):
        left, top = _corner(number)
        if number:
            parts.extend(_arrow(number))
        parts.append(f'<rect class="box" x="{left}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" rx="8"/>')
        parts.append(_line(left, top + 32, "title", title))
        parts.extend(_line(left, top + 57 + 20 * row, "text", line) for row, line in enumerate(lines))
    return "\n".join([*parts, "</svg>", ""])


def _corner(number: int) -> tuple[int, int]:
    row, column = divmod(number, _COLUMNS)
    return _EDGE + column * (_WIDTH + _GAP), _EDGE + row * (_HEIGHT + _GAP)


def _arrow(number: int) -> list[str]:
    """Return the arrow to a box: from its left, or from the end of the row above."""
    left, top = _corner(number)
    if number % _COLUMNS:
        middle = top + _HEIGHT // 2
        line, head = f"M{left - _GAP + 2} {middle}H{left - 9}", f"M{left - 2} {middle}l-9 -6v12z"
    else:
        (last, _), centre = _corner(number - 1), left + _WIDTH // 2
        line = f"M{last + _WIDTH // 2} {top - _GAP + 2}V{top - _GAP // 2}H{centre}V{top - 9}"
        head = f"M{centre} {top - 2}l-6 -9h12z"
    return [f'<path class="arrow" d="{line}"/>', f'<path class="head" d="{head}"/>']


def _line(left: int, bottom: int, kind: str, text: str) -> str:
    return _said(left + _WIDTH // 2, bottom, kind, text)


def _said(middle: int, bottom: int, kind: str, text: str) -> str:
    return f'<text class="{kind}" x="{middle}" y="{bottom}" text-anchor="middle">{escape(text)}</text>'


if __name__ == "__main__":
    for name, text in pictures().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"wrote {FOLDER / name}\n")
