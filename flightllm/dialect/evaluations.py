"""Write the texts in `ai_evaluate('SELECT …', 'ai_filter(…)', 'label')` as SQL, so that later rules read them too.

So it is with the rows of `ai_next_labels('filter', 'SELECT …')`.
"""

from collections.abc import Iterator
from itertools import chain

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.sql.evaluations import plain_arguments
from flightllm.sql.next_labels import plain_rows


def evaluations(source: Source) -> Iterator[Edit]:
    """Rewrite `ai_evaluate(t, 'f(a)', 'b')` as `ai_evaluate((SELECT * FROM t), f(a), b)`."""
    for start, end, sql in chain(plain_arguments(source), plain_rows(source)):
        yield Edit(start, end, sql)
