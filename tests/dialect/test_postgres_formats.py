"""`to_char` writes numbers and times as PostgreSQL does."""

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask

_T = "timestamp '2024-03-15 13:45:30'"
_TEXTS = [
    (f"to_char({_T}, 'Day, DD Month YYYY') || '|'", "Friday   , 15 March     2024|"),
    (f"to_char({_T}, 'FMDay, FMDD FMMonth')", "Friday, 15 March"),
    (f"to_char({_T}, 'HH12:MI am')", "01:45 pm"),
    (f"to_char({_T}, 'Q WW IW D ID DDD J W CC')", "1 11 11 6 5 075 2460385 3 21"),
    (f"""to_char({_T}, 'DDth "of" Mon')""", "15th of Mar"),
    (f"to_char({_T}, 'DY dy Dy MON mon')", "FRI fri Fri MAR mar"),
    (f"to_char({_T}, 'SSSS FMHH12 MS a.m.')", "49530 1 000 p.m."),
    (f"to_char({_T}, 'YY Y,YYY')", "24 2,024"),
    ("to_char(date '2024-03-05', 'FMMM/FMDD/YYYY')", "3/5/2024"),
    ("to_char(7, '999')", "   7"),
    ("to_char(-3, '999')", "  -3"),
    ("to_char(7, '000')", " 007"),
    ("to_char(12345.678, 'FM99,999.00')", "12,345.68"),
    ("to_char(-1234.5, '999,999.99')", "  -1,234.50"),
    ("to_char(0.1, '9.9')", "  .1"),
    ("to_char(-0.04, '9.9')", "  .0"),
    ("to_char(0, '999')", "   0"),
    ("to_char(12, 'S0999')", "+0012"),
    ("to_char(-12, '999S')", " 12-"),
    ("to_char(12, '9990MI') || '|'", "  12 |"),
    ("to_char(-12, '999PR')", " <12>"),
    ("to_char(1234.5, '99.9')", " ##.#"),
    ("to_char(1, 'FM99.99')", "1."),
    ("to_char(1234567.891, 'FM$9,999,990.00')", "$1,234,567.89"),
    ("to_char(15, '99%')", " 15%"),
    ("to_char(NULL::int, '99')", None),
]


@pytest.mark.parametrize("dialect", ["default", "postgres"])
def test_texts(session: Session, dialect: str) -> None:
    """Each text is the one of PostgreSQL 17."""
    items = ", ".join(f"{sql} AS c{place}" for place, (sql, _) in enumerate(_TEXTS))
    (row,) = ask(session, f"SELECT {items}", dialect=dialect).rows
    assert [(sql, row[f"c{place}"]) for place, (sql, _) in enumerate(_TEXTS)] == _TEXTS


@pytest.mark.parametrize(
    ("sql", "advice"),
    [
        ("to_char(7, '9V9')", "write 9, 0, a point"),
        (f"to_char({_T}, 'TMMonth')", "put texts in double quotes"),
        (f"to_char({_T} - {_T}, 'HH24')", "write extract"),
        ("to_char('a', '999')", "takes numbers"),
    ],
)
def test_refused(session: Session, sql: str, advice: str) -> None:
    """A format that has no right text here names the text to write."""
    with pytest.raises(FlightLLMError, match=advice):
        ask(session, f"SELECT {sql} AS r", dialect="postgres")
