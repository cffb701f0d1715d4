"""The pictures of the documentation: they follow from their modules, and show what the code does."""

import re
from itertools import count
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from docs.pictures import FOLDER, pictures
from docs.pictures.drawing import Box, arrow
from docs.pictures.kv_store import CHUNKS, SHARED
from docs.pictures.routing import RUNS
from flightllm.kvcache.chunks import CHUNK_TOKENS
from flightllm.kvcache.eviction.base import Use
from flightllm.kvcache.eviction.planned import PlannedPolicy
from flightllm.kvcache.prefixes import Cutting
from flightllm.router.base import create_router
from tests.docs.pages import DOCS, links
from tests.routing import fleet, prompt

_SVG = "{http://www.w3.org/2000/svg}"
_EXPLANATIONS = sorted((DOCS / "explanation").glob("*.md"))
_LETTER = 0.56
"""The mean width of a letter, in heights of a wide typeface."""


def test_pictures_follow_from_their_modules() -> None:
    """`python -m docs.pictures` would change no picture, and makes all."""
    made = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.svg")}
    assert made == pictures()


@pytest.mark.parametrize("page", _EXPLANATIONS, ids=lambda page: page.name)
def test_each_explanation_has_a_picture(page: Path) -> None:
    """A page that explains something shows it."""
    assert [one for one in links(page) if one.endswith(".svg")]


@pytest.mark.parametrize("name", pictures())
def test_texts_stay_inside(name: str) -> None:
    """No text leaves its picture, or the box in which it begins, in a wide typeface too."""
    drawn = ET.fromstring(pictures()[name])  # noqa: S314 - made here
    sizes = {kind: int(size) for kind, size in re.findall(r"\.(\w+)\{[^}]*font-size:(\d+)px", pictures()[name])}
    whole = Box(0, 0, int(drawn.attrib["width"]), int(drawn.attrib["viewBox"].split()[-1]))
    boxes = [Box(*(int(one.attrib[key]) for key in ("x", "y", "width", "height"))) for one in drawn.iter(f"{_SVG}rect")]
    texts = list(drawn.iter(f"{_SVG}text"))
    assert boxes
    assert texts
    for text in texts:
        x, foot = int(text.attrib["x"]), int(text.attrib["y"])
        wide = len(text.text or "") * sizes[text.attrib["class"]] * _LETTER
        left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[text.attrib["text-anchor"]]
        around = [box for box in boxes if box.left <= x <= box.right and box.top <= foot <= box.bottom]
        for box in (whole, *around):
            assert (box.left <= left, left + wide <= box.right, foot < box.bottom) == (True, True, True), text.text


def test_arrow_points_along_its_last_line() -> None:
    """An arrow's line ends where its head begins, and the head's tip is the last point."""
    assert arrow((0, 0), (0, 30))[1] == '<path class="head" d="M0 30L6 21L-6 21z"/>'
    assert arrow((40, 0), (0, 0))[0] == '<path class="arrow" d="M40 0L9 0"/>'


def test_box_centres_its_texts() -> None:
    """A title alone is in the middle of its box; with a line below, the two are."""
    box = Box(0, 0, 100, 80)
    assert 'y="46"' in box.titled("alone")[1]
    assert ['y="34"' in box.titled("title", ["line"])[1], 'y="59"' in box.titled("title", ["line"])[2]] == [True, True]


def test_routing_is_what_the_policy_does() -> None:
    """`e2_batch` cuts fifteen prompts with three prefixes into the runs of the picture."""
    replicas, keys = fleet(len(RUNS)), count()
    prefixes = "".join(RUNS)
    prompts = [prompt(next(keys), [ord(prefix)] * 200 + [1000 + next(keys)] * 60) for prefix in prefixes]
    chosen = create_router("e2_batch", replicas).route(prompts, 0.0)
    assert chosen == [number for number, run in enumerate(RUNS) for _ in run]


def test_kv_store_is_cut_as_the_code_cuts() -> None:
    """The chunks of the picture are those that are kept of such a start."""
    cutting = Cutting("", CHUNK_TOKENS, 64)
    kept = cutting.worth(cutting.chunks(range(SHARED + 200), ""), SHARED)
    assert tuple(chunk.tokens for chunk in kept) == CHUNKS


def test_eviction_order_is_that_of_the_policy() -> None:
    """`planned` evicts blocks without a plan first, then what later prompts share, then what waiting prompts need."""
    policy: PlannedPolicy[str] = PlannedPolicy(8)
    policy.use(Use(["shared", "own"], "call", ahead=1, query=1), 0.0)
    policy.queue(Use(["needed"], "call", query=2), 0.0)
    for key in ("needed", "shared", "own"):
        policy.free(key, 1.0)
    assert [policy.evict(2.0) for _ in range(3)] == ["own", "shared", "needed"]
