"""The cascades of other projects, for `bench.cascades`. They follow the papers and the documentation.

Each method gets the cheap model's scores, the oracle's answers, and the wanted rates. It returns the rows that it
accepts and the rows whose answer it asked. Its own defaults stay as they are.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from bench.peers.cascades.bargain import bargain, bargain_accuracy
from bench.peers.cascades.lotus import lotus
from bench.peers.cascades.peel import peel
from bench.peers.cascades.supg_it import supg_it

Method = Callable[[Any, Any, float, float, float, Any], tuple[Any, Any]]

PEERS: Final[Mapping[str, Method]] = {"LOTUS": lotus, "SUPG-IT": supg_it, "BARGAIN": bargain, "peel": peel}
"""The methods with a recall and a precision, by the names of the figures."""
ACCURACY_PEERS: Final[Mapping[str, Callable[[Any, Any, float, float, Any], tuple[Any, Any]]]] = {
    "BARGAIN": bargain_accuracy
}
"""The methods with an accuracy."""
