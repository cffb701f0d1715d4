"""The pictures in `docs/img/`, each drawn by a module here; `python -m docs.pictures` writes them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from docs.pictures import eviction, kv_store, layout, order, plan, quality, recovery, reuse, routing

FOLDER: Final = Path(__file__).parents[1] / "img"
_DRAWN: Final[Mapping[str, Callable[[], str]]] = {
    "plan.svg": plan.draw,
    "order.svg": order.draw,
    "reuse.svg": reuse.draw,
    "eviction.svg": eviction.draw,
    "kv-store.svg": kv_store.draw,
    "routing.svg": routing.draw,
    "recovery.svg": recovery.draw,
    "quality.svg": quality.draw,
    "layout.svg": layout.draw,
}


def pictures() -> Mapping[str, str]:
    """Return each picture as SVG, by its file's name; in colours for light and for dark pages."""
    return {name: draw() for name, draw in _DRAWN.items()}
