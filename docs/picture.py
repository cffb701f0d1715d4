"""Draw `docs/img/plan.svg`, the way of a query: `python docs/picture.py`."""

import sys
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

PATH: Final = Path(__file__).parent / "img" / "plan.svg"
_STEPS: Final = (
    ("SQL", ("any Flight SQL client",)),
    ("Plain conditions", ("run first: fewer", "rows reach the model")),
    ("Equal prompts", ("are sent once, across", "queries and clients")),
    ("Shared starts", ("go one after the other:", "the cache serves them")),
    ("Model", ("your GPU, or any", "hosted endpoint")),
    ("Answers", ("are checked, kept,", "streamed as Arrow")),
)
_WIDTH, _HEIGHT, _GAP, _TOP = 148, 84, 24, 16
_STYLE: Final = (
    "svg{font-family:system-ui,sans-serif;color-scheme:light dark}"
    ".box{fill:#eef3fb;stroke:#4477aa}.title{fill:#123;font-weight:600;font-size:14px}"
    ".text{fill:#345;font-size:12px}.arrow{stroke:#4477aa;stroke-width:2;fill:none}.head{fill:#4477aa}"
    "@media(prefers-color-scheme:dark){.box{fill:#1c2733;stroke:#7aa7d9}.title{fill:#eef}.text{fill:#bcd}"
    ".arrow{stroke:#7aa7d9}.head{fill:#7aa7d9}}"
)


def picture() -> str:
    """Return the picture as SVG; six boxes from left to right, in colours for light and dark pages."""
    width = len(_STEPS) * (_WIDTH + _GAP) - _GAP + 2 * _TOP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_HEIGHT + 2 * _TOP}" role="img">',
        f"<title>The way of a query</title><style>{_STYLE}</style>",
    ]
    for number, (title, lines) in enumerate(_STEPS):
        left = _TOP + number * (_WIDTH + _GAP)
        middle, centre = left + _WIDTH / 2, _TOP + _HEIGHT / 2
        if number:
            parts.append(f'<path class="arrow" d="M{left - _GAP + 1} {centre}H{left - 7}"/>')
            parts.append(f'<path class="head" d="M{left - 1} {centre}l-8 -5v10z"/>')
        parts.append(f'<rect class="box" x="{left}" y="{_TOP}" width="{_WIDTH}" height="{_HEIGHT}" rx="8"/>')
        parts.append(_line(middle, _TOP + 28, "title", title))
        parts.extend(_line(middle, _TOP + 50 + 18 * row, "text", line) for row, line in enumerate(lines))
    return "\n".join([*parts, "</svg>", ""])


def _line(middle: float, bottom: float, kind: str, text: str) -> str:
    return f'<text class="{kind}" x="{middle}" y="{bottom}" text-anchor="middle">{escape(text)}</text>'


if __name__ == "__main__":
    PATH.write_text(picture(), encoding="utf-8")
    sys.stdout.write(f"wrote {PATH}\n")
