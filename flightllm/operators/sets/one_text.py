"""The text of each value of a set: a column's text, or the columns of a row together."""

from flightllm.operators.sets.base import SetValues


def texts_of(values: SetValues) -> list[str]:
    """Return one text for each value; the columns of `t.*` have commas between them, and NULL is left out."""
    return [", ".join(part for part in parts if part is not None) for parts in values.tuples]
