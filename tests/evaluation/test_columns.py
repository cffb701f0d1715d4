"""The columns of an evaluation's tables."""

from flightllm.evaluation.columns import FIGURES, PARTS, VARIED, schema_of
from flightllm.execution.evaluation_variants import VARIED as OPTIONS


def test_each_option_that_makes_variants_has_a_column() -> None:
    """The tables have the columns of the options, in the order of the options."""
    assert [option.column for option in OPTIONS] == list(VARIED)
    for part in PARTS[:2]:
        assert schema_of(part, FIGURES).names[1 : 1 + len(VARIED)] == list(VARIED)


def test_each_figure_has_its_interval() -> None:
    """A table has each figure once, with both ends of its interval, and no figure of another kind of question."""
    names = schema_of("variants", ["mae"]).names
    assert names[names.index("mae") :][:3] == ["mae", "mae_low", "mae_high"]
    assert "ece" not in names
    assert len(set(names)) == len(names)
