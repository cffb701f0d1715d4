"""Published figures of four systems with gemini-2.5-flash over the same 2,000 reviews; they are not measured here.

Source: github SemBench/SemBench, commit cf081396, the files
`files/movie/metrics/across_system_2.5flash_sf2000_repeat{1..5}/{system}.json`. Each figure is the mean of the five
repeats; tokens and dollars leave out repeats that recorded none. Tokens are the sum of prompts and answers by the
model's own tokenizer. The score of Q3, Q4 and Q8 is 1 minus the relative error. Q9 and Q10 have
Spearman's correlation, and the others F1. The commit has no ThalamusDB queries for Q9 and Q10.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

MODEL: Final = "gemini-2.5-flash"


@dataclass(frozen=True, slots=True)
class Published:
    """The figures of one question at one system."""

    tokens: int
    dollars: float
    score: float
    seconds: float


PUBLISHED: Final[Mapping[str, Mapping[str, Published]]] = {
    "LOTUS": {
        "Q1": Published(245933, 0.08698, 1.000, 33.7),
        "Q2": Published(14204, 0.00505, 1.000, 2.3),
        "Q3": Published(13844, 0.00495, 0.500, 2.4),
        "Q4": Published(13964, 0.00498, 0.429, 2.3),
        "Q5": Published(6868025, 2.27736, 0.667, 797.3),
        "Q6": Published(5806280, 1.92816, 0.507, 741.8),
        "Q7": Published(5797275, 1.92506, 0.200, 725.1),
        "Q8": Published(12524, 0.00402, 1.000, 2.5),
        "Q9": Published(57370, 0.01777, 0.763, 4.6),
        "Q10": Published(419933, 0.13038, 0.419, 32.7),
    },
    "Palimpzest": {
        "Q1": Published(3602, 0.00118, 1.000, 2.1),
        "Q2": Published(20854, 0.00685, 1.000, 47.2),
        "Q3": Published(27990, 0.00919, 0.429, 6.5),
        "Q4": Published(46830, 0.01880, 0.643, 10.6),
        "Q5": Published(37940, 0.01204, 0.333, 4.6),
        "Q6": Published(37840, 0.01201, 0.858, 3.6),
        "Q7": Published(24582144, 7.80718, 0.569, 1569.7),
        "Q8": Published(46230, 0.01862, 0.838, 9.3),
        "Q9": Published(131852, 0.04969, 0.786, 7.9),
        "Q10": Published(1000211, 0.37926, 0.419, 44.3),
    },
    "ThalamusDB": {
        "Q1": Published(1248, 0.00042, 1.000, 2.3),
        "Q2": Published(3348, 0.00114, 0.600, 2.5),
        "Q3": Published(6714, 0.00228, 0.857, 3.8),
        "Q4": Published(6714, 0.00228, 0.857, 4.4),
        "Q5": Published(2546, 0.00131, 1.000, 2.6),
        "Q6": Published(1246, 0.00054, 0.900, 1.2),
        "Q7": Published(413981, 0.31340, 0.563, 841.3),
        "Q8": Published(13428, 0.00455, 0.919, 9.6),
    },
    "BigQuery": {
        "Q1": Published(95070, 0.04756, 1.000, 27.0),
        "Q2": Published(5761, 0.00299, 1.000, 10.2),
        "Q3": Published(6032, 0.00313, 0.429, 13.1),
        "Q4": Published(6032, 0.00313, 0.429, 11.5),
        "Q5": Published(2630142, 1.00881, 0.980, 57.3),
        "Q6": Published(2610974, 1.00597, 0.608, 59.6),
        "Q7": Published(6871741, 2.64565, 0.718, 215.6),
        "Q8": Published(6032, 0.00313, 0.677, 11.9),
        "Q9": Published(110248, 0.03681, 0.748, 18.8),
        "Q10": Published(666860, 0.22423, 0.421, 33.4),
    },
}


def as_figures() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    """Return the figures as plain objects, by system and question."""
    return {system: {question: asdict(one) for question, one in some.items()} for system, some in PUBLISHED.items()}
