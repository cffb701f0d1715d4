"""How coarsely numbers are quantised: a level for all layers, and bins that grow with depth."""

from dataclasses import dataclass
from typing import Final

GROUP_TOKENS: Final = 10
"""Tokens of a group: the anchor, and those coded by their difference to it (CacheGen, section 5.2)."""
ANCHOR_LARGEST: Final = 127
"""Anchors are quantised to 8 bits, the largest number of a vector to this."""
BINS: Final = (0.5, 1.0, 1.5)
"""Width of a bin in the first, second and last third of the layers, in root mean squares of a group's differences."""
LEVELS: Final = (0.25, 0.5, 1.0, 1.5, 2.0)
"""What each level multiplies bins by: level 0 is the largest and nearest to the original."""
DEFAULT_LEVEL: Final = 2
_PREFIX = "cachegen-"


@dataclass(frozen=True, slots=True)
class Bins:
    """The widths of the three thirds, before a level multiplies them."""

    thirds: tuple[float, float, float] = BINS

    def widths(self, layers: int, level: int) -> list[float]:
        """Return the width of each layer's bins at a level."""
        return [self.thirds[3 * layer // layers] * LEVELS[level] for layer in range(layers)]


def level_name(level: int) -> str:
    """Return the name of the codec at a level."""
    return f"{_PREFIX}{level}"


def needs_profile(name: str) -> bool:
    """Tell whether a codec is one of the levels, which need the model's profile."""
    return name.startswith(_PREFIX)


def read_level(name: str) -> int:
    """Return the level that a codec's name says."""
    return int(name.removeprefix(_PREFIX))
