"""JSON objects are read and changed as in Snowflake: sorted names, and null as a value."""

import pyarrow as pa
import pytest

from flightllm.errors import SqlError
from flightllm.functions.text_parts import nth_replaced
from flightllm.functions.variant_objects import compact, deleted, inserted, kinds, object_names, objects, values_got

TEXTS = pa.list_(pa.string())


def _one(value: object, type_: pa.DataType | None = None) -> pa.Array:
    return pa.array([value], type_ or pa.string())


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1", "INTEGER"),
        ("-1.50", "DECIMAL"),
        ("1e3", "DOUBLE"),
        ('"x"', "VARCHAR"),
        ("true", "BOOLEAN"),
        ("tea", "VARCHAR"),
        ("null", "NULL_VALUE"),
        ("{}", "OBJECT"),
        ("[1]", "ARRAY"),
        (None, None),
    ],
)
def test_kinds(text: str | None, kind: str | None) -> None:
    """TYPEOF names the kind of a JSON text; a text that is not JSON is a text."""
    assert kinds(_one(text), _one("")).to_pylist() == [kind]


def test_leaves_out_null() -> None:
    """A pair with a NULL is left out, the others are sorted by name, and `keeps` has null."""
    names, values = _one(["b", "a", None], TEXTS), _one([None, "1", "2"], TEXTS)
    assert objects(names, values, _one(False, pa.bool_())).to_pylist() == ['{"a":1}']
    assert objects(names, values, _one(True, pa.bool_())).to_pylist() == ['{"a":1,"b":null}']


def test_refuses_a_name_twice() -> None:
    """An object with the same name twice is an error."""
    with pytest.raises(SqlError, match="write each name once"):
        objects(_one(["a", "a"], TEXTS), _one(["1", "2"], TEXTS), _one(False, pa.bool_()))


def test_inserts_and_updates() -> None:
    """A name that the object has needs the flag for updates, and a NULL value removes it."""
    given, flag = _one('{"a":1}'), pa.bool_()
    assert inserted(given, _one("b"), _one("2"), _one(False, flag)).to_pylist() == ['{"a":1,"b":2}']
    assert inserted(given, _one("a"), _one("2"), _one(True, flag)).to_pylist() == ['{"a":2}']
    assert inserted(given, _one("a"), _one(None), _one(True, flag)).to_pylist() == ["{}"]
    with pytest.raises(SqlError, match="write OBJECT_INSERT"):
        inserted(given, _one("a"), _one("2"), _one(False, flag))


def test_other_values_have_no_names() -> None:
    """A value that is no object has no names, no fields, and stays without spaces to leave out."""
    assert object_names(_one("[1]")).to_pylist() == [None]
    assert deleted(_one("1"), _one(["a"], TEXTS)).to_pylist() == [None]
    assert values_got(_one("[1, 2]"), _one("x")).to_pylist() == [None]
    assert compact(_one("not JSON")).to_pylist() == ["not JSON"]


def test_replaces_one_match() -> None:
    """Only the match with the number is replaced, and matches count from the start."""
    numbers = [_one(2, pa.int64()), _one(1, pa.int64())]
    assert nth_replaced(_one("aaba"), _one("(a)"), _one(r"<\1>"), *numbers).to_pylist() == ["a<a>ba"]
    assert nth_replaced(_one("aaba"), _one("a"), _one("x"), numbers[1], _one(0, pa.int64())).to_pylist() == ["xxbx"]


def test_refuses_a_pattern() -> None:
    """A pattern that cannot be read, and a text with the signs that mark matches, are errors."""
    numbers = [_one(1, pa.int64()), _one(1, pa.int64())]
    with pytest.raises(SqlError, match="cannot be used"):
        nth_replaced(_one("a"), _one("("), _one("x"), *numbers)
    with pytest.raises(SqlError, match="replace them first"):
        nth_replaced(_one("\ue000"), _one("a"), _one("x"), *numbers)
