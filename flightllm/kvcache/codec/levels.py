"""The coarseness of quantisation: a level for all layers, and bin widths that grow with depth."""

from dataclasses import dataclass
from typing import Final

GROUP_TOKENS: Final = 10
"""The tokens of a group: the anchor, and the tokens coded by their difference to it (CacheGen, section 5.2)."""
ANCHOR_LARGEST: Final = 127
"""The quantised value of a vector's largest number in anchors, which have 8 bits."""
BINS: Final = (0.5, 1.0, 1.5)
"""Width of a bin in the first, second and last third of the layers, in root mean squares of a group's differences."""
LEVELS: Final = (0.25, 0.5, 1.0, 1.5, 2.0)
"""The factor of bin widths at each level: level 0 has the largest bitstreams and the smallest error."""
DEFAULT_LEVEL: Final = 2
FAST: Final = "fast"
"""The name of the codec for speed, which has the error of the default level."""
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
    """Return whether a codec is a CacheGen level, which needs the model's profile."""
    return name.startswith(_PREFIX)


def read_level(name: str) -> int:
    """Return the level in a codec's name."""
    return int(name.removeprefix(_PREFIX))
