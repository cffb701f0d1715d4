"""Arrow columns to distinct tuples with weights and overlaps."""

import pyarrow as pa
import pytest

from flightllm.prompt_order.ordering import encode


def chunked(*values: object) -> pa.ChunkedArray:
    """Return a column in two chunks."""
    return pa.chunked_array([pa.array(values[:2]), pa.array(values[2:], pa.array(values).type)], pa.array(values).type)


def test_equal_rows_are_one_tuple() -> None:
    """Tuples are numbered by first appearance, and every row knows its own."""
    encoded, tuples = encode([chunked("b", "a", "b", "b"), chunked("x", "x", "x", "y")], ["m", "n"], [1, 2], 1.0)
    assert tuples.tolist() == [0, 1, 0, 2]
    assert encoded.codes.tolist() == [[1, 0], [0, 0], [1, 1]]
    assert encoded.readers == (1, 2)


def test_weights_are_of_the_line_as_sent() -> None:
    """A field weighs `name: value` and its line end; without a name the value alone."""
    encoded, _ = encode([chunked("abc", "d", "abc"), chunked("abc", "d", "abc")], ["film", ""], [1, 1], 2.0)
    assert encoded.weights[0].tolist() == [5.0, 4.0]
    assert encoded.weights[1].tolist() == [1.5, 0.5]


def test_a_tokenizer_counts_each_value_once() -> None:
    """A function gets the line as sent, once for each distinct value."""
    asked: list[str] = []

    def tokens(text: str) -> float:
        asked.append(text)
        return 7.0

    encoded, _ = encode([chunked("b", "a", "b", None)], ["f"], [1], tokens)
    assert asked == ["f: a\n", "f: b\n"]
    assert encoded.weights[0].tolist() == [7.0, 7.0]


def test_null_is_no_value() -> None:
    """NULL has code -1, and two NULLs agree."""
    encoded, tuples = encode([chunked(None, "a", None), chunked("x", "x", "x")], ["m", "n"], [1, 1], 1.0)
    assert encoded.codes.tolist() == [[-1, 0], [0, 0]]
    assert tuples.tolist() == [0, 1, 0]


def test_overlaps_are_with_the_value_before() -> None:
    """Dictionaries are sorted; an overlap covers the name and what the two values begin with."""
    encoded, _ = encode([chunked("heat", "zoo", "héros", "hear")], ["f"], [1], 1.0)
    assert encoded.overlaps[0].tolist() == pytest.approx([3.0, 6.0, 4.0, 3.0], abs=0.5)
    assert encoded.codes[:, 0].tolist() == [1, 3, 2, 0]


def test_columns_that_are_no_text_are_cast() -> None:
    """Numbers are weighed as they are printed."""
    encoded, _ = encode([chunked(5, 1234, 5)], [""], [1], 1.0)
    assert sorted(encoded.weights[0].tolist()) == [1.0, 4.0]


def test_many_wide_columns_do_not_mix_tuples() -> None:
    """Columns whose sizes multiply beyond 64 bits still give each distinct tuple its number."""
    columns = [pa.chunked_array([pa.array([str((i * 7919) % 1009) for i in range(2000)])]) for _ in range(9)]
    encoded, tuples = encode(columns, ["c"] * 9, [1] * 9, 4.0)
    assert len(encoded.codes) == 1009
    assert tuples[:1009].tolist() == list(range(1009))
    assert tuples[1009:].tolist() == list(range(991))


@pytest.mark.parametrize("span", [1, 3, 40])
def test_distinct_with_and_without_sorting(monkeypatch: pytest.MonkeyPatch, span: int) -> None:
    """The table of keys and sorting find the same tuples in the same order."""
    columns = [pa.chunked_array([pa.array([str(i * i % span) for i in range(50)])]) for span in (span, 7)]
    dense, dense_tuples = encode(columns, ["a", "b"], [1, 1], 4.0)
    monkeypatch.setattr("flightllm.prompt_order.ordering._DENSE", 0)
    sorted_, sorted_tuples = encode(columns, ["a", "b"], [1, 1], 4.0)
    assert dense.codes.tolist() == sorted_.codes.tolist()
    assert dense_tuples.tolist() == sorted_tuples.tolist()


def test_encoded_columns() -> None:
    """A column that is a dictionary array already is as good as its texts."""
    texts = pa.array(["b", "a", None, "b", "ab"], pa.large_string())
    plain, tuples = encode([pa.chunked_array([texts])], ["f"], [1], 4.0)
    coded, coded_tuples = encode([texts.dictionary_encode()], ["f"], [1], 4.0)
    assert plain.codes.tolist() == coded.codes.tolist()
    assert tuples.tolist() == coded_tuples.tolist()
    assert [plain.weights[0].tolist(), plain.overlaps[0].tolist()] == [
        coded.weights[0].tolist(),
        coded.overlaps[0].tolist(),
    ]
