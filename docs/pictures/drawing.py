"""The parts of pictures: boxes with lines of text, bars, arrows, and the colours of light and dark pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

EDGE: Final = 12
"""Empty pixels around a picture."""
WIDTH: Final = 480
"""Pixels that keep text readable on a phone."""
_TITLE_TO_TEXT, _LINE, _BASELINE, _TIP = 25, 20, 5, 9
"""Pixels from a title to the text below, between lines of text, from a middle to a text's foot, of an arrow's head."""
_COLOURS: Final = {"box": "title", "asked": "on", "shared": "on", "own": "dark", "kept": "off", "gone": "off"}
"""The text on each kind of shape."""
STYLE: Final = (
    "svg{font-family:system-ui,sans-serif}"
    ".box{fill:#eef3fb;stroke:#4477aa}.title{fill:#112233;font-weight:600;font-size:17px}"
    ".text{fill:#334455;font-size:15px}.arrow{stroke:#4477aa;stroke-width:2;fill:none}.head{fill:#4477aa}"
    ".asked{fill:#4477aa}.shared{fill:#227733}.own{fill:#ccbb44}"
    ".kept{fill:none;stroke:#4477aa;stroke-dasharray:4 3}.gone{fill:none;stroke:#aa3344;stroke-dasharray:4 3}"
    ".on{fill:#ffffff;font-size:14px}.off{fill:#335588;font-size:14px}.dark{fill:#222222;font-size:14px}"
    "@media(prefers-color-scheme:dark){.box{fill:#1c2733;stroke:#7aa7d9}.title{fill:#eeeeff}.text{fill:#bbccdd}"
    ".arrow{stroke:#7aa7d9}.head{fill:#7aa7d9}.kept{stroke:#7aa7d9}.gone{stroke:#ee8899}.off{fill:#bbccdd}}"
)


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle of a picture, in pixels from its upper left corner."""

    left: int
    top: int
    width: int
    height: int

    @property
    def right(self) -> int:
        """Return the right edge."""
        return self.left + self.width

    @property
    def bottom(self) -> int:
        """Return the lower edge."""
        return self.top + self.height

    @property
    def centre(self) -> int:
        """Return the x coordinate of the centre."""
        return self.left + self.width // 2

    @property
    def middle(self) -> int:
        """Return the y coordinate of the centre."""
        return self.top + self.height // 2

    def titled(self, title: str, lines: Sequence[str] = ()) -> list[str]:
        """Draw the box with a title and lines of text below it, all centred."""
        first = self.middle + _BASELINE + 1 - (_TITLE_TO_TEXT + _LINE * (len(lines) - 1)) // 2 * bool(lines)
        below = (first + _TITLE_TO_TEXT + _LINE * number for number in range(len(lines)))
        texts = [text(self.centre, foot, line) for foot, line in zip(below, lines, strict=True)]
        return [self._rectangle("box", 8), text(self.centre, first, title, "title"), *texts]

    def lines(self, lines: Sequence[str], kind: str = "box") -> list[str]:
        """Draw the box with lines of text, all centred, and no title."""
        first = self.middle + _BASELINE - _LINE * (len(lines) - 1) // 2
        texts = (text(self.centre, first + _LINE * number, line) for number, line in enumerate(lines))
        return [self._rectangle(kind, 8), *texts]

    def bar(self, kind: str, said: str) -> list[str]:
        """Draw the box filled in the colour of a kind, with one line of text."""
        return [self._rectangle(kind, 4), text(self.centre, self.middle + _BASELINE, said, _COLOURS[kind])]

    def _rectangle(self, kind: str, radius: int) -> str:
        place = f'x="{self.left}" y="{self.top}" width="{self.width}" height="{self.height}"'
        return f'<rect class="{kind}" {place} rx="{radius}"/>'


def text(x: int, foot: int, said: str, kind: str = "text", anchor: str = "middle") -> str:
    """Draw a line of text; `anchor` says which part of it is at `x`: `start`, `middle` or `end`."""
    return f'<text class="{kind}" x="{x}" y="{foot}" text-anchor="{anchor}">{escape(said)}</text>'


def arrow(*points: tuple[int, int]) -> list[str]:
    """Draw an arrow through points. Each point is above, below or beside the point before it."""
    (before_x, before_y), (x, y) = points[-2:]
    right, down = _sign(x - before_x), _sign(y - before_y)
    end = x - right * _TIP, y - down * _TIP
    line = "L".join(f"{a} {b}" for a, b in (*points[:-1], end))
    wings = [(end[0] + side * 6 * down, end[1] + side * 6 * right) for side in (1, -1)]
    head = "L".join(f"{a} {b}" for a, b in ((x, y), *wings))
    return [f'<path class="arrow" d="M{line}"/>', f'<path class="head" d="M{head}z"/>']


def picture(title: str, width: int, height: int, parts: Iterable[str]) -> str:
    """Return a picture as SVG; screen readers read its `title` aloud."""
    start = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">'
    return "\n".join([start, f"<title>{escape(title)}</title><style>{STYLE}</style>", *parts, "</svg>", ""])


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
